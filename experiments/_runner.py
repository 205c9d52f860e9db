"""Runs variants times seeds as child processes, side by side, and gathers their summaries."""

from __future__ import annotations

import dataclasses
import json
import os
import queue
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from experiments._aggregate import aggregate
from ragen_jax.config.schema import Config
from ragen_jax.config.serial import to_json
from ragen_jax.training.run_folder import RunFolder

_LAST_LINES = 20
# What stops a run in good order. A terminal that goes away (SIGHUP) asks for the same as SIGTERM.
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class RunFailedError(RuntimeError):
    """At least one child failed or was stopped; the text says what to do, or has its command and its error."""


@dataclasses.dataclass(frozen=True)
class Variant:
    """One arm of an experiment.

    Attributes:
      name: stands in folder names, progress lines and the table.
      config: its configuration; ``seed`` and ``folder`` are set per run.
    """

    name: str
    config: Config

    def __post_init__(self) -> None:
        """Refuse names that cannot stand in a file name."""
        if not re.fullmatch(r"[\w.-]+", self.name):
            raise ValueError(f"variant name {self.name!r}: use letters, digits, '_', '-' and '.'")


@dataclasses.dataclass(frozen=True)
class _Task:
    variant: str
    seed: int
    folder: Path
    command: tuple[str, ...]

    @property
    def label(self) -> str:
        return f"{self.variant} seed {self.seed}"

    @property
    def log(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.log")

    @property
    def resume(self) -> str:
        return f"{shlex.join(self.command[:-1])} resume={shlex.quote(str(self.folder))}"


def run_variants(
    variants: Sequence[Variant],
    *,
    seeds: Sequence[int],
    folder: str | os.PathLike[str],
    jobs: int,
    module: str = "experiments.train",
    stream: TextIO | None = None,
) -> dict[str, Any]:
    """Run every variant with every seed, each as ``python -m <module> config=<file>``.

    Run folders are ``<folder>/<variant>-seed<seed>``; the log and the configuration of a run stand beside its folder.
    Each child computes with one thread, on a processor of its own where the system allows it. SIGINT, SIGTERM and
    SIGHUP (as SIGTERM) are passed on, so that the children save. After a failure nothing new is started; what runs is
    finished.

    Args:
      variants: the arms, with different names.
      seeds: different seeds.
      folder: a folder that is missing or empty.
      jobs: children at a time.
      module: what a child runs; it takes ``config=`` and leaves a ``summary.json`` in the run folder.
      stream: progress lines, standard error by default.

    Returns:
      Content of ``<folder>/aggregate.json``: variants, seeds, and a table as ``aggregate`` makes it.

    Raises:
      ValueError: nothing to run, repeated names or seeds, ``jobs`` below 1, or a folder that is not empty.
      RunFailedError: a child ended with an error, or was stopped alone.
      SystemExit: stopped by a signal (code 128 + number), after the children have ended.
    """
    tasks = _tasks(variants, seeds, Path(folder).absolute(), jobs, module)
    pool = _Children(jobs, sys.stderr if stream is None else stream, width=max(len(task.label) for task in tasks))
    with pool.forwarding_signals(), ThreadPoolExecutor(jobs) as threads:
        codes = list(threads.map(pool.run, tasks))
    failed = [(task, code) for task, code in zip(tasks, codes, strict=True) if code]
    if pool.stopped_by is not None:
        pool.say(f"stopped by {pool.stopped_by.name}")
        for task, code in failed:
            pool.say(_ending(task, code))
        raise SystemExit(128 + pool.stopped_by)
    if failed:
        raise RunFailedError(_failures(failed, skipped=sum(code is None for code in codes)))
    summaries: dict[str, dict[int, dict[str, Any]]] = {variant.name: {} for variant in variants}
    for task in tasks:
        summaries[task.variant][task.seed] = RunFolder.open(task.folder).summary()
    result = {
        "command": sys.argv,
        "seeds": list(seeds),
        "runs": {variant.name: [f"{variant.name}-seed{seed}" for seed in seeds] for variant in variants},
        "variants": aggregate(summaries),
    }
    path = Path(folder) / "aggregate.json"
    path.write_text(json.dumps(result, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return result


def processors() -> list[int]:
    """Numbers of the processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Environment of a child that computes with one thread and writes its lines at once."""
    flags = f"{environment.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**environment, **one_thread, "XLA_FLAGS": flags, "PYTHONUNBUFFERED": "1", "TOKENIZERS_PARALLELISM": "false"}


def _tasks(variants: Sequence[Variant], seeds: Sequence[int], folder: Path, jobs: int, module: str) -> list[_Task]:
    names = [variant.name for variant in variants]
    for what, values in (("variant names", names), ("seeds", list(seeds))):
        if not values or len(set(values)) != len(values):
            raise ValueError(f"{what} {values}: give at least one, each only once")
    if jobs < 1:
        raise ValueError(f"jobs={jobs}: use 1 or more")
    if folder.is_dir() and any(folder.iterdir()):
        raise ValueError(f"folder {folder} is not empty: name a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    tasks = []
    # Seeds outside, variants inside: when a long experiment is cut short, whole comparisons are there.
    for seed in seeds:
        for variant in variants:
            run = folder / f"{variant.name}-seed{seed}"
            config = run.with_name(f"{run.name}.config.json")
            config.write_text(
                to_json(dataclasses.replace(variant.config, seed=seed, folder=str(run))), encoding="utf-8"
            )
            tasks.append(_Task(variant.name, seed, run, (sys.executable, "-m", module, f"config={config}")))
    return tasks


def _stopped_by(code: int) -> str:
    """Name of the signal by which somebody ended a child; empty when it ended by itself."""
    number = -code if code < 0 else code - 128
    return signal.Signals(number).name if number in (*_STOPS, signal.SIGKILL) else ""


def _ending(task: _Task, code: int) -> str:
    """How a child ended that did not finish, and what can be done."""
    stopped = _stopped_by(code)
    if stopped:
        return f"{task.label} was stopped by {stopped}; go on with: {task.resume}"
    return f"{task.label} ended with code {code}\n  command: {shlex.join(task.command)}\n  log: {task.log}"


def _last_words(task: _Task) -> str:
    """The error that a child reported, or the last lines of its log when it could not report one."""
    with task.log.open(encoding="utf-8", errors="replace") as log:
        tail = deque(log, maxlen=_LAST_LINES)
    lines = [line.rstrip("\n") for line in tail]
    reported = [at for at, line in enumerate(lines) if line.startswith("error: ")]
    return "\n".join(lines[reported[-1] :] if reported else lines)


def _failures(failed: Sequence[tuple[_Task, int]], *, skipped: int) -> str:
    """Text about all children that did not finish; arms that failed of the same cause tell it once."""
    causes: dict[str, list[str]] = {}
    for task, code in failed:
        cause = "" if _stopped_by(code) else _last_words(task)
        causes.setdefault(cause, []).append(_ending(task, code))
    parts = ["\n".join([*endings, *filter(None, [cause])]) for cause, endings in causes.items()]
    if skipped:
        parts.append(f"{skipped} runs not started")
    return "\n\n".join(parts)


class _Children:
    """The running child processes, their output, and the signals that they are sent."""

    def __init__(self, jobs: int, stream: TextIO, *, width: int) -> None:
        self.stopped_by: signal.Signals | None = None
        self._failed = False
        self._stream = stream
        self._width = width
        self._running: set[subprocess.Popen[str]] = set()
        self._lock = threading.RLock()  # re-entrant: the signal handler may interrupt its holder
        self._seats: queue.SimpleQueue[int] = queue.SimpleQueue()
        available = processors()
        self._pin = hasattr(os, "sched_setaffinity") and 1 < jobs <= len(available)
        for seat in range(jobs):
            self._seats.put(available[seat % len(available)])

    def say(self, line: str, label: str = "") -> None:
        """Write one progress line."""
        with self._lock:
            self._stream.write(f"{label:<{self._width}} | {line}\n" if label else f"{line}\n")
            self._stream.flush()

    def run(self, task: _Task) -> int | None:
        """Run one child to its end; None when it was not started any more."""
        seat = self._seats.get()
        try:
            child = self._start(task, seat)
            if child is None:
                return None
            with child, task.log.open("w", encoding="utf-8") as log:
                for line in child.stdout or ():
                    log.write(line)
                    log.flush()
                    self.say(line.rstrip("\n"), task.label)
            code = child.wait()
            with self._lock:
                self._running.discard(child)
                self._failed |= code != 0
            return code
        finally:
            self._seats.put(seat)

    @contextmanager
    def forwarding_signals(self) -> Iterator[None]:
        """Pass SIGINT, SIGTERM and SIGHUP on to the children while the body runs; under nohup SIGHUP stays ignored."""
        hung_up = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
        numbers = (signal.SIGINT, signal.SIGTERM, *hung_up)
        previous = {number: signal.signal(number, self._forward) for number in numbers}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _start(self, task: _Task, processor: int) -> subprocess.Popen[str] | None:
        with self._lock:
            if self._failed or self.stopped_by is not None:
                return None
            child = subprocess.Popen(
                task.command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env=child_environment(os.environ),
                # A session of its own: Ctrl-C in a terminal reaches the child once, through us, and not twice.
                start_new_session=True,
            )
            self._running.add(child)
            if self._pin:
                os.sched_setaffinity(child.pid, {processor})
        return child

    def _forward(self, number: int, frame: FrameType | None) -> None:
        with self._lock:
            self.stopped_by = signal.Signals(number)
            for child in self._running:
                child.send_signal(signal.SIGINT if number == signal.SIGINT else signal.SIGTERM)
