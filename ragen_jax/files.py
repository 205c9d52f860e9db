"""Files that a reader or a crash sees either as they were or as they are to be."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A draft beside ``path`` for the body to write; it takes the place of ``path`` when the body ends without error.

    Every process has a draft of its own. It is on disk before it is renamed.
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        yield draft
        with draft.open("rb") as stream:
            os.fsync(stream.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write_atomically(path: Path, text: str) -> None:
    """Write a whole text file (UTF-8) in place of what was there."""
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8")
