"""Symbolic comparison in processes of their own, by the optional package math-verify.

math-verify limits its time by alarm signals, which exist on the main thread only and cannot stop a computation inside C
code. So each comparison runs in a worker process, which is used again, and killed and replaced when it takes too long.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import json
import os
import queue
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

WORKERS = 2
"""Processes of one checker; the second starts when two threads compare at once."""

_WORKER = Path(__file__).with_name("worker.py")
_START_S = 60.0  # wall time that a worker has to load its packages
_WALL_FACTOR = 20  # wall time of a comparison in units of its processor time, for a machine with too much to do


class CheckerError(RuntimeError):
    """The checker failed, so nothing is known about the answer: the row is invalid, its reward is not 0."""


class OutOfTimeError(Exception):
    """The comparison took longer than its limit."""


class _WorkerDiedError(Exception):
    """The process ended by itself."""


def require_package() -> None:
    """Refuse to go on without the extra ``math``; imports nothing.

    Raises:
      ValueError: names what is missing and how to install it.
    """
    if importlib.util.find_spec("math_verify") is None:
        raise ValueError(
            "metamathqa with checker='symbolic' needs math_verify: pip install 'ragen_jax[math]', "
            "or use checker='exact', which knows numbers and equal texts only"
        )


class SymbolicChecker:
    """Says whether two expressions are equal. Threads may share it."""

    def __init__(self, *, time_limit_s: float) -> None:
        """Start the first process; it loads its packages while the caller goes on.

        Args:
          time_limit_s: processor time of one comparison.
        """
        self._workers = [_Worker(time_limit_s) for _ in range(WORKERS)]
        self._free: queue.LifoQueue[_Worker] = queue.LifoQueue()  # the one used last is warm
        for worker in reversed(self._workers):
            self._free.put(worker)
        self._workers[0].start()

    def equal(self, answer: str, gold: str) -> bool:
        """Compare an answer with the gold answer.

        Raises:
          OutOfTimeError: the comparison took too long; the worker was killed.
          CheckerError: the worker cannot be started, died twice, or cannot read the gold answer.
        """
        worker = self._free.get()
        try:
            try:
                reply = worker.ask(answer, gold)
            except _WorkerDiedError:
                reply = worker.ask(answer, gold)
        except _WorkerDiedError as error:
            raise CheckerError(f"the checker process died twice at {answer!r}: {error}") from error
        finally:
            self._free.put(worker)
        if "fault" in reply:
            raise CheckerError(reply["fault"])
        return bool(reply["equal"])

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.stop()


@functools.cache
def shared_checker(time_limit_s: float) -> SymbolicChecker:
    """The checker of this process."""
    checker = SymbolicChecker(time_limit_s=time_limit_s)
    atexit.register(checker.close)
    return checker


# A forked child must not talk to the workers of its parent.
os.register_at_fork(after_in_child=shared_checker.cache_clear)


class _Worker:
    """One process, started when it is needed."""

    def __init__(self, time_limit_s: float) -> None:
        self._limit = time_limit_s
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = False

    def start(self) -> None:
        """Start the process unless it runs."""
        if self._process is not None and self._process.poll() is None:
            return
        self.stop()
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(_WORKER), str(self._limit)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C at the terminal is for the parent
        )

    def ask(self, answer: str, gold: str) -> dict[str, Any]:
        """One comparison.

        Raises:
          OutOfTimeError: it took too long.
          _WorkerDiedError: the process ended otherwise.
        """
        self.start()
        assert self._process is not None
        assert self._process.stdin is not None
        if not self._ready:
            self._read(_START_S, what="start")
            self._ready = True
        line = json.dumps({"gold": gold, "answer": answer}) + "\n"
        try:
            self._process.stdin.write(line.encode("ascii"))
            self._process.stdin.flush()
        except BrokenPipeError as error:
            self.stop()
            raise _WorkerDiedError("it ended between two comparisons") from error
        return self._read(self._limit * _WALL_FACTOR, what="compare")

    def stop(self) -> None:
        """Kill the process and wait for its end."""
        process, self._process, self._ready = self._process, None, False
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):  # what was left to write has no reader
                pipe.close()

    def _read(self, wall_s: float, *, what: str) -> dict[str, Any]:
        """The next line that the process writes."""
        assert self._process is not None
        assert self._process.stdout is not None
        descriptor, deadline, received = self._process.stdout.fileno(), time.monotonic() + wall_s, b""
        while not received.endswith(b"\n"):
            readable, _, _ = select.select([descriptor], [], [], max(deadline - time.monotonic(), 0))
            chunk = os.read(descriptor, 1 << 16) if readable else b""
            if not chunk:
                code = self._process.wait() if readable else None
                self.stop()
                if code is None or code == -signal.SIGPROF:
                    if what == "start":
                        raise CheckerError(f"the checker process was not ready after {wall_s:g} seconds")
                    raise OutOfTimeError
                raise _WorkerDiedError(f"exit code {code} at {what}")
            received += chunk
        reply: dict[str, Any] = json.loads(received)
        return reply
