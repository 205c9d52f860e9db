"""Counts compilations."""

from __future__ import annotations

import collections
import threading
from types import TracebackType
from typing import Self

import jax

_COMPILE_EVENT = "/jax/core/compile/backend_compile_duration"


class CompileCounter:
    """Context manager that counts programs handed to the backend.

    A program that the persistent cache answers is counted too: what costs a training run its shape discipline is a new
    shape, whoever compiles it.

    Attributes:
      by_program: program name -> compilations; jax names a program after the jitted function.
      seconds: time that they took.
    """

    def __init__(self) -> None:
        """Begin at zero; counting starts on entering."""
        self.by_program: collections.Counter[str] = collections.Counter()
        self.seconds = 0.0
        self._lock = threading.Lock()  # actor and learner threads compile at the same time

    @property
    def count(self) -> int:
        """Compilations so far."""
        return self.by_program.total()

    def __enter__(self) -> Self:
        """Start counting."""
        jax.monitoring.register_event_duration_secs_listener(self._listen)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop counting."""
        jax.monitoring.unregister_event_duration_listener(self._listen)

    def _listen(self, event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event == _COMPILE_EVENT:
            with self._lock:
                self.by_program[str(kwargs.get("fun_name", "unnamed"))] += 1
                self.seconds += duration_secs
