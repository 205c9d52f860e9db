"""Files with one JSON object per line: append, read, and rewrite atomically."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ragen_jax.files import write_atomically

logger = logging.getLogger(__name__)


def append_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Append rows, one line each, in one write; ValueError for numbers that JSON does not have."""
    text = "".join(_line(row) for row in rows)
    with path.open("a", encoding="utf-8") as stream:
        stream.write(text)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """All rows; a last line that a killed process left unfinished is skipped with a warning.

    Raises:
      ValueError: a line before the last is not a JSON object.
    """
    rows: list[dict[str, Any]] = []
    *lines, unfinished = path.read_bytes().split(b"\n")
    if unfinished:
        logger.warning("%s: the unfinished last line %d is skipped", path, len(lines) + 1)
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
        except ValueError as error:  # bad JSON or bad UTF-8
            raise ValueError(
                f"{path} line {number} is not JSON ({error}); restore the file or remove the line"
            ) from error
        if not isinstance(row, dict):
            raise ValueError(f"{path} line {number} is {type(row).__name__}, not an object; remove the line")
        rows.append(row)
    return rows


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Replace the whole file atomically."""
    write_atomically(path, "".join(_line(row) for row in rows))


def keep_rows(path: Path, wanted: Callable[[dict[str, Any]], bool]) -> None:
    """Drop the rows that are not wanted, atomically; a missing file stays missing."""
    if path.exists():
        write_rows(path, [row for row in read_rows(path) if wanted(row)])


def keep_newest(path: Path, *, max_bytes: int) -> None:
    """Drop the oldest rows of a file until it has at most ``max_bytes`` bytes, atomically."""
    if path.stat().st_size > max_bytes:
        content = path.read_bytes()
        begin = content.index(b"\n", len(content) - max_bytes - 1) + 1  # the byte before the first row that fits
        write_atomically(path, content[begin:].decode("utf-8"))


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, allow_nan=False, ensure_ascii=False) + "\n"
