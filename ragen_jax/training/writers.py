"""Where metrics go: ``write(step, metrics)`` with names of the form ``family/name``."""

from __future__ import annotations

import math
import re
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, SupportsFloat

from ragen_jax.training import json_lines

NONFINITE = "log/nonfinite"
_NAME = re.compile(r"[a-z][a-z0-9_]*(/[a-z0-9_@.]+)+")


class MetricWriter(Protocol):
    """Something that takes the metrics of a step. A step may be written more than once, with other names."""

    def write(self, step: int, metrics: Mapping[str, SupportsFloat]) -> None:
        """Take the metrics of a step."""
        ...

    def close(self) -> None:
        """Finish; nothing is lost when it is never called."""
        ...


def clean(metrics: Mapping[str, SupportsFloat]) -> dict[str, int | float | None]:
    """Metrics as plain numbers; non-finite ones become None and are counted under ``log/nonfinite``.

    Raises:
      ValueError: a name is not of the form ``family/name``.
    """
    cleaned: dict[str, int | float | None] = {}
    nonfinite = 0
    for name, value in metrics.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"metric name {name!r}: use 'family/name' in lower case")
        number = value if isinstance(value, int) else float(value)
        cleaned[name] = number if math.isfinite(number) else None
        nonfinite += cleaned[name] is None
    if nonfinite:
        cleaned[NONFINITE] = nonfinite
    return cleaned


class JsonLines:
    """One line of JSON per write."""

    def __init__(self, path: Path, *, last_step: int | None = None) -> None:
        """Open the file for appending.

        Args:
          path: the file.
          last_step: on resume, the restored step; lines of later steps are dropped, so that the file of a resumed run
            equals that of an uninterrupted one in everything but clock times and compilations. None starts anew.

        Raises:
          ValueError: ``last_step`` is None and the file has content, or a line is not JSON.
        """
        self._path = path
        if last_step is not None:
            json_lines.keep_rows(path, lambda row: row["step"] <= last_step)
        elif path.exists() and path.stat().st_size:
            raise ValueError(f"{path} has content: resume the run, or name another folder")

    def write(self, step: int, metrics: Mapping[str, SupportsFloat]) -> None:
        """Append one line."""
        json_lines.append_rows(self._path, [{"step": step, **clean(metrics)}])

    def close(self) -> None:
        """Nothing to do: every line is on disk already."""


class TensorBoard:
    """TensorBoard event files; numbers that are not finite are left out.

    Events are written here, not by the thread of tensorboardX's ``SummaryWriter``: when the disk is full that thread
    dies, and whoever writes next waits for ever.
    """

    def __init__(self, folder: Path, *, last_step: int | None = None) -> None:
        """Open the folder; on resume, events after ``last_step`` are marked as overwritten."""
        from tensorboardX.proto.event_pb2 import SessionLog  # imported late: tests and notebooks do not need it
        from tensorboardX.record_writer import RecordWriter

        self._file = RecordWriter(str(folder / f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}"))
        self._write(file_version="brain.Event:2")
        if last_step is not None:
            self._write(step=last_step + 1, session_log=SessionLog(status=SessionLog.START))

    def write(self, step: int, metrics: Mapping[str, SupportsFloat]) -> None:
        """Add one event with a scalar per metric."""
        from tensorboardX.proto.summary_pb2 import Summary

        scalars = [
            Summary.Value(tag=name, simple_value=value) for name, value in clean(metrics).items() if value is not None
        ]
        self._write(step=step, summary=Summary(value=scalars))

    def close(self) -> None:
        """Close the event file."""
        self._file.close()

    def _write(self, **content: Any) -> None:
        from tensorboardX.proto.event_pb2 import Event

        self._file.write(Event(wall_time=time.time(), **content).SerializeToString())
        self._file.flush()


class Memory:
    """Keeps the rows in a list, as ``JsonLines`` would write them; for tests and notebooks."""

    def __init__(self) -> None:
        """Begin empty."""
        self.rows: list[dict[str, Any]] = []

    def write(self, step: int, metrics: Mapping[str, SupportsFloat]) -> None:
        """Append one row."""
        self.rows.append({"step": step, **clean(metrics)})

    def close(self) -> None:
        """Nothing to do."""


class Many:
    """Hands everything to several writers."""

    def __init__(self, writers: Sequence[MetricWriter]) -> None:
        """Name the writers, in the order in which they are served."""
        self._writers = tuple(writers)

    def write(self, step: int, metrics: Mapping[str, SupportsFloat]) -> None:
        """Write to each."""
        for writer in self._writers:
            writer.write(step, metrics)

    def close(self) -> None:
        """Close each."""
        for writer in self._writers:
            writer.close()
