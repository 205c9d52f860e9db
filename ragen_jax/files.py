"""Files that a reader or a crash sees either as they were or as they are to be, and JSON files of others."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A draft beside ``path`` for the body to write; it takes the place of ``path`` when the body ends without error.

    Every process has a draft of its own. It is on disk before it is renamed.

    Raises:
      OSError: it cannot be written; the error names ``path``, not the draft, which is no affair of the user.
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        yield draft
        with draft.open("rb") as stream:
            os.fsync(stream.fileno())
        draft.replace(path)
    except OSError as error:
        if error.filename != str(draft):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        draft.unlink(missing_ok=True)


def write_atomically(path: Path, text: str) -> None:
    """Write a whole text file (UTF-8) in place of what was there."""
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def new_folder(folder: Path, *, needed: int) -> Iterator[Path]:
    """A draft beside ``folder`` for the body to fill with files; it takes that name when the body ends without error.

    Otherwise it is removed, so that the same call can be made again. Its files are on disk before it is renamed.

    Args:
      folder: does not exist yet, or is empty.
      needed: bytes that the body will write.

    Raises:
      ValueError: the folder holds something, or a disk is mounted there.
      OSError: the disk has too little room.
    """
    folder = folder.resolve()
    check_new(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder.parent).free
    if needed > free:
        raise OSError(errno.ENOSPC, f"needs {needed} bytes, the disk has {free} free: name another place", str(folder))
    draft = folder.with_name(f"{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(draft, ignore_errors=True)  # of a process that was killed; in a container, ids come again
    draft.mkdir()
    try:
        yield draft
        for path in draft.iterdir():
            with path.open("rb") as stream:
                os.fsync(stream.fileno())
        draft.replace(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def check_new(folder: Path) -> None:
    """Refuse a folder that cannot be made anew.

    Raises:
      ValueError: it holds something, or a disk is mounted there.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty: name a new folder")
    if folder.is_mount():
        raise ValueError(f"a disk is mounted at {folder}: name a new folder inside it")


def read_json_object(path: Path) -> dict[str, Any]:
    """Content of a JSON file that holds an object.

    Raises:
      ValueError: the file is no UTF-8, no JSON, or holds something else.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text in UTF-8 ({error}): download or write it again") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON ({error}): download or write it again") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold a JSON object, not a {type(content).__name__}: download or write it again")
    return content
