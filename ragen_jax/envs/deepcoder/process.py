"""One child process: start it in a sandbox, collect what it writes, and leave no process behind."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import selectors
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO

from ragen_jax.envs.deepcoder.sandbox import Sandbox
from ragen_jax.envs.deepcoder.shared_memory import remove_segments

MAX_OUTPUT = 1 << 20  # bytes of standard output, and of a report, that a child may write
MAX_CHILDREN = max(4, os.cpu_count() or 1)
"""Children that run at once in this process; further ones wait."""

_RUNNER = Path(__file__).with_name("runner.py").read_text(encoding="utf-8")
_START_S = 20.0  # for a child to say that it is ready
_GRACE_S = 5.0  # time that a killed child has to disappear
_slots = threading.BoundedSemaphore(MAX_CHILDREN)


def wall_limit_s(time_limit_s: float) -> float:
    """Seconds after which a child is killed, whatever it does: it may wait without using the processor."""
    return 2 * time_limit_s + 1


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a child left.

    Attributes:
      output: its standard output, at most ``MAX_OUTPUT`` bytes and a little.
      errors: its standard error.
      report: the bytes that came through the private descriptor; a claim of an untrusted process.
      timed_out: it was killed for its wall time.
      flooded: it was killed because it wrote too much.
      exit_code: of the child; negative or above 128 when a signal ended it.
      signal: that ended the child, or None.
      seconds: wall time of the child, its start included; waiting for a free place is not.
    """

    output: bytes
    errors: bytes
    report: bytes
    timed_out: bool
    flooded: bool
    exit_code: int
    signal: signal.Signals | None
    seconds: float


def run_child(sandbox: Sandbox, task: dict[str, Any], *, stdin: str, wall_s: float) -> Outcome:
    """Run the runner on one task.

    Args:
      sandbox: how the child is started.
      task: what the runner reads; see ``runner.main``.
      stdin: standard input of the child.
      wall_s: seconds until it is killed, whatever it does.

    Raises:
      OSError: the child could not be started.
      subprocess.TimeoutExpired: it could not be killed.
    """
    with _slots, contextlib.ExitStack() as stack:
        began, clock = time.monotonic(), time.time()
        task_file, stdin_file = _memory_file(json.dumps(task), stack), _memory_file(stdin, stack)
        result_in, result_out = _pipe(stack)
        info_in, info_out = _pipe(stack)
        passed = [task_file.fileno(), result_out.fileno()] + [info_out.fileno()] * sandbox.has_namespaces
        process = subprocess.Popen(
            sandbox.command(["-c", _RUNNER, *map(str, passed[:2])], info_fd=info_out.fileno()),
            stdin=stdin_file,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=passed,
            env={},
            cwd="/",
            start_new_session=True,
        )
        result_out.close()
        info_out.close()
        assert process.stdout is not None
        assert process.stderr is not None
        pipes = [stack.enter_context(pipe) for pipe in (process.stdout, process.stderr)] + [result_in, info_in]
        child = _Child(process, stack, unwrap=sandbox.has_namespaces)
        try:
            outcome = child.watch(*(pipe.fileno() for pipe in pipes), wall_s=wall_s)
        finally:
            if not sandbox.has_namespaces:  # a namespace takes its shared memory with it
                remove_segments(process.pid, since=clock)
        return dataclasses.replace(outcome, seconds=time.monotonic() - began)


class _Child:
    """A started child. A wrapper tells the id of the process below it; killing that one ends all the rest."""

    def __init__(self, process: subprocess.Popen[bytes], stack: contextlib.ExitStack, *, unwrap: bool) -> None:
        self._process = process
        self._stack = stack
        self._unwrap = unwrap
        self._inner: int | None = None  # descriptor of the process below the wrapper

    def watch(self, output: int, errors: int, result: int, info: int, *, wall_s: float) -> Outcome:
        """Read until the child has ended; kill it ``wall_s`` seconds after it was ready, or when it writes too much.

        Until its first line on ``result``, which comes before anything untrusted runs, it has ``_START_S`` seconds: on
        a busy machine an interpreter may take longer to start than a program may take to run.
        """
        received = {descriptor: bytearray() for descriptor in (output, errors, result, info)}
        timed_out = flooded = ready = False
        began = time.monotonic()
        deadline = began + _START_S
        try:
            with selectors.DefaultSelector() as selector:
                for descriptor in received:
                    selector.register(descriptor, selectors.EVENT_READ)
                while selector.get_map() and not (timed_out or flooded):
                    for key, _ in selector.select(max(deadline - time.monotonic(), 0)):
                        chunk = os.read(key.fd, 1 << 16)
                        received[key.fd] += chunk
                        if not chunk:
                            selector.unregister(key.fd)
                        elif key.fd == info:
                            self._meet(received[info])
                    if received[result] and not ready:
                        ready, deadline = True, time.monotonic() + wall_s
                    flooded = max(map(len, received.values())) > MAX_OUTPUT
                    timed_out = time.monotonic() >= deadline
            if not (timed_out or flooded):
                try:
                    self._process.wait(max(deadline - time.monotonic(), 0))
                except subprocess.TimeoutExpired:  # it closed its descriptors and went on
                    timed_out = True
        finally:
            self._kill()
        code = self._process.returncode
        number = -code if code < 0 else code - 128 if self._unwrap and code > 128 else 0  # as the wrapper passes it on
        return Outcome(
            output=bytes(received[output]),
            errors=bytes(received[errors]),
            report=bytes(received[result]),
            timed_out=timed_out,
            flooded=flooded,
            exit_code=code,
            signal=signal.Signals(number) if number in set(signal.Signals) else None,
            seconds=time.monotonic() - began,
        )

    def _meet(self, info: bytearray) -> None:
        """Take hold of the process below the wrapper as soon as its id is known."""
        if self._inner is None and info.rstrip().endswith(b"}"):
            with contextlib.suppress(ProcessLookupError):  # it has ended already
                self._inner = os.pidfd_open(json.loads(info)["child-pid"])
                self._stack.callback(os.close, self._inner)

    def _kill(self) -> None:
        """End whatever is left. The wrapper ends by itself, and reaps, once the process below it is gone."""
        if self._process.poll() is not None:
            return
        if self._inner is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._inner, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_S)
                return
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(_GRACE_S)


def _memory_file(text: str, stack: contextlib.ExitStack) -> BinaryIO:
    """A file in memory with a text in it, to be read from its start."""
    file = stack.enter_context(os.fdopen(os.memfd_create("judge"), "w+b"))
    file.write(text.encode())
    file.seek(0)
    return file


def _pipe(stack: contextlib.ExitStack) -> tuple[BinaryIO, BinaryIO]:
    """Reading and writing end."""
    reading, writing = os.pipe()
    return stack.enter_context(os.fdopen(reading, "rb", 0)), stack.enter_context(os.fdopen(writing, "wb", 0))
