"""Ctrl-C, SIGTERM and a lost terminal as a request that the loop reads between steps."""

from __future__ import annotations

import logging
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

logger = logging.getLogger(__name__)


class StopSignal:
    """Context manager; ``requested`` names the signal once one has arrived.

    The first signal only sets the flag, so that the running step ends, the run is saved and can be resumed. The second
    one acts as it would have without this class: the old handlers are put back and the signal is raised again.
    Under ``nohup`` SIGHUP stays ignored.
    """

    def __init__(self) -> None:
        """Touches nothing until entered."""
        self.requested: str | None = None
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        """Install the handlers.

        Raises:
          RuntimeError: not in the main thread, where alone Python lets signals be handled.
        """
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("StopSignal works in the main thread only: enter it before threads are started")
        hung_up = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
        for number in (signal.SIGINT, signal.SIGTERM, *hung_up):
            self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put the old handlers back."""
        self._restore()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        if self.requested is None:
            self.requested = name
            logger.warning("%s: the step is finished, then the run is saved; a second signal stops at once", name)
        else:
            self._restore()
            signal.raise_signal(number)

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()
