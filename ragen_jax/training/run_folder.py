"""The folder of one run: where everything that a run leaves behind stands.

run.json              layout version, package versions, command; its presence makes a folder a run folder
config.json           the resolved configuration
lock                  held by the process that trains in the folder
metrics.jsonl         one line per write: step and metrics
rollouts.jsonl        sampled rollouts, within a byte budget
gradient_probe.jsonl  accounts of the gradient, if it was probed
summary.json          the run in a few numbers, written at the end
tensorboard/          event files
checkpoints/          one folder per saved step
evaluations/          results of later evaluations, if there are any
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import importlib.metadata
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from ragen_jax.config.schema import Config
from ragen_jax.config.serial import read_config
from ragen_jax.files import write_atomically
from ragen_jax.training import json_lines

LAYOUT_VERSION = 1
_PACKAGES = ("ragen_jax", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "transformers", "numpy", "chex")


class RunFolder:
    """Paths and small files of one run; make it with ``create``, or ``open`` what is there."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Name the folder; touches nothing."""
        self.path = Path(path).absolute()
        self.run_file = self.path / "run.json"
        self.config_file = self.path / "config.json"
        self.metrics_file = self.path / "metrics.jsonl"
        self.rollouts_file = self.path / "rollouts.jsonl"
        self.probe_file = self.path / "gradient_probe.jsonl"
        self.summary_file = self.path / "summary.json"
        self.tensorboard = self.path / "tensorboard"
        self.checkpoints = self.path / "checkpoints"
        self.evaluations = self.path / "evaluations"

    @classmethod
    def check_new(cls, path: str | os.PathLike[str]) -> None:
        """Refuse early what ``create`` would refuse: a folder that holds something, or a place that cannot be written.

        Raises:
          ValueError: names the folder and what to do.
        """
        folder = Path(path).absolute()
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ValueError(f"folder {folder} is not empty: name a new folder, or continue it with resume={folder}")
        cls.check_place(folder)

    @staticmethod
    def check_place(path: str | os.PathLike[str]) -> None:
        """Raise ValueError when the folder, or the nearest one above it that exists, cannot be written."""
        folder = Path(path).absolute()
        existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
        if not (existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)):
            raise ValueError(f"folder {folder} cannot be written: {existing} does not allow it; name another folder")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for one process while the body runs.

        Raises:
          ValueError: another process holds it.
        """
        with (self.path / "lock").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise ValueError(f"{self.path} is in use by another process: wait for it, or stop it first") from error
            yield

    @classmethod
    def create(cls, path: str | os.PathLike[str], config_json: str, *, metadata: Mapping[str, Any]) -> Self:
        """Make a new run folder.

        Args:
          path: a folder that is missing or empty.
          config_json: the resolved configuration, as JSON text.
          metadata: more facts for ``run.json``, such as experiment, preset and seed.

        Raises:
          ValueError: the folder holds something already, or cannot be written.
        """
        cls.check_new(path)
        run = cls(path)
        try:
            run.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"folder {run.path} cannot be made ({error.strerror}): name another folder") from error
        run.check_writable()
        run.tensorboard.mkdir()
        run.checkpoints.mkdir()
        write_atomically(run.config_file, config_json)
        # run.json comes last: it is what makes this a run folder.
        write_atomically(run.run_file, json.dumps(_facts(metadata), indent=1) + "\n")
        return run

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, write: bool = False) -> Self:
        """Open an existing run folder.

        Args:
          path: the folder.
          write: also make sure that files can be made in it.

        Raises:
          ValueError: it is not a run folder (says what is missing), its layout is newer than this code, or it cannot
            be written.
        """
        run = cls(path)
        if not run.path.is_dir():
            raise ValueError(f"{run.path} is not a run folder: there is no such folder")
        missing = [entry.name for entry in (run.run_file, run.config_file) if not entry.is_file()]
        if not run.checkpoints.is_dir():
            missing.append(run.checkpoints.name)
        if missing:
            raise ValueError(f"{run.path} is not a run folder: it has no {', '.join(missing)}")
        layout = run.facts().get("layout")
        if layout != LAYOUT_VERSION:
            raise ValueError(
                f"{run.path} has layout {layout}, this version reads layout {LAYOUT_VERSION}: "
                "use the version that wrote it (run.json names it)"
            )
        if write:
            run.check_writable()
        return run

    def check_writable(self) -> None:
        """Make and remove a file; ValueError when that fails."""
        try:
            with tempfile.NamedTemporaryFile(dir=self.path):
                pass
        except OSError as error:
            raise ValueError(f"folder {self.path} cannot be written ({error.strerror}): name another folder") from error

    def facts(self) -> dict[str, Any]:
        """Content of ``run.json``; ValueError when the file is damaged."""
        try:
            facts = json.loads(self.run_file.read_text(encoding="utf-8"))
        except ValueError as error:  # neither JSON nor perhaps text
            raise ValueError(f"{self.run_file} is damaged ({error}): restore it or start a new run") from error
        if not isinstance(facts, dict):
            raise ValueError(f"{self.run_file} is damaged (not a JSON object): restore it or start a new run")
        return facts

    def config(self) -> Config:
        """The resolved configuration; ValueError when the file is damaged or of another version."""
        return read_config(self.config_file)

    def metrics(self) -> list[dict[str, Any]]:
        """Rows of ``metrics.jsonl``; none before the first write."""
        return json_lines.read_rows(self.metrics_file) if self.metrics_file.exists() else []

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write ``summary.json``, atomically."""
        write_atomically(self.summary_file, json.dumps(summary, indent=1, allow_nan=False) + "\n")

    def summary(self) -> dict[str, Any]:
        """Content of ``summary.json``; ValueError when the run has not written it yet."""
        if not self.summary_file.is_file():
            raise ValueError(f"{self.path} has no {self.summary_file.name}: the run has not ended")
        summary: dict[str, Any] = json.loads(self.summary_file.read_text(encoding="utf-8"))
        return summary


class RolloutLog:
    """``rollouts.jsonl``: the newest rows of a sample of rollouts, as many as the budget holds.

    Which rows these are depends on the rows alone. What a run dropped before it was interrupted, it would drop again
    after it went on, from whichever checkpoint: the file of a resumed run equals that of an uninterrupted one.
    """

    def __init__(self, path: Path, *, budget_bytes: int, last_step: int | None = None) -> None:
        """Open the log.

        Args:
          path: the file.
          budget_bytes: size above which the oldest rows are dropped.
          last_step: on resume, the restored step; rows of later steps are dropped.

        Raises:
          ValueError: the budget is below 1 byte.
        """
        if budget_bytes < 1:
            raise ValueError(f"budget_bytes={budget_bytes}: use 1 or more")
        self._path = path
        self._budget = budget_bytes
        if last_step is not None:
            json_lines.keep_rows(path, lambda row: row["step"] <= last_step)

    def append(self, step: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rollouts of a step; then drop the oldest rows until the file fits its budget."""
        json_lines.append_rows(self._path, [{"step": step, **row} for row in rows])
        json_lines.keep_newest(self._path, max_bytes=self._budget)


def claim_folder(root: str | os.PathLike[str], *, experiment: str, preset: str, seed: int) -> Path:
    """Make the next free folder ``<root>/<experiment>-<preset>-seed<seed>-<counter>`` and return its path.

    Making the folder is the claim, so two processes never get the same one. ValueError when ``root`` cannot be written.
    """
    stem = f"{experiment}-{preset}-seed{seed}"
    base = Path(root).absolute()
    try:
        base.mkdir(parents=True, exist_ok=True)
        taken = [int(tail) for p in base.glob(f"{stem}-*") if (tail := p.name.removeprefix(f"{stem}-")).isdecimal()]
        counter = max(taken, default=0) + 1
        while True:
            try:
                (base / f"{stem}-{counter}").mkdir()
            except FileExistsError:
                counter += 1
            else:
                return base / f"{stem}-{counter}"
    except OSError as error:
        raise ValueError(f"folder {base} cannot be written ({error.strerror}): name another folder") from error


def _facts(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "layout": LAYOUT_VERSION,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": {name: _version(name) for name in _PACKAGES},
        **metadata,
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None  # used from a source tree that is not installed
