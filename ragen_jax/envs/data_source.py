"""Where the rows of a data environment come from, never silently: a path, RAGEN_DATA_DIR, the cache, or our own rows.

Rows are loaded once per process and shared, read-only, by all environments that name the same source.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from ragen_jax.cache import cache_folder

Row = TypeVar("Row")

KINDS = EMBEDDED, PATH, DATA_DIR, CACHE = "embedded", "path", "data_dir", "cache"


@dataclasses.dataclass(frozen=True)
class DataSource:
    """What a run says about its data.

    Attributes:
      name: of the data set, for example "gsm8k".
      kind: "embedded", "path", "data_dir" or "cache".
      file: name of the file, without its folder; "" for embedded rows.
      rows: how many.
      sha256: hash of the file, or of the embedded rows as JSON.
      skipped: rows that could not be read and were left out on request.
    """

    name: str
    kind: str
    file: str
    rows: int
    sha256: str
    skipped: int = 0

    def describe(self) -> str:
        """One line for run records: name, kind, rows, the first digits of the hash."""
        where = self.kind if not self.file else f"{self.kind} {self.file}"
        left_out = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.name}: {where}, {self.rows} rows{left_out}, sha256 {self.sha256[:12]}"


@dataclasses.dataclass(frozen=True)
class DataSet(Generic[Row]):
    """Rows and where they came from."""

    rows: tuple[Row, ...]
    source: DataSource


def locate(path: str, *, option: str, below: str = "", folder: bool = False) -> tuple[str, Path] | None:
    """Find the file (or folder) of a data set: an explicit path, then RAGEN_DATA_DIR, then the cache.

    Args:
      path: explicit path, or a path below RAGEN_DATA_DIR or below the cache; "" = none was named.
      option: the option that holds ``path``, for the error message.
      below: default place of this data set below RAGEN_DATA_DIR and below the cache; "" = none. It is looked up only
        when ``path`` is empty.
      folder: a folder is looked for, not a file.

    Returns:
      (kind, path), or None when nothing was named and nothing lies at the default place.

    Raises:
      ValueError: ``path`` was named and is nowhere, a place holds a folder instead of a file (or a file instead of a
        folder), or it may not be looked at. A source is never silently replaced by another one.
    """
    data_dir = os.environ.get("RAGEN_DATA_DIR")
    wanted = path or below
    if not wanted:
        return None
    places = [(DATA_DIR, Path(data_dir) / wanted)] if data_dir else []
    places.append((CACHE, cache_folder() / "data" / wanted))
    if path:
        places.insert(0, (PATH, Path(path)))
    for kind, place in places:
        if _is_there(place, option=option, path=path, folder=folder):
            return kind, place
    if not path:
        return None
    looked = ", ".join(str(place) for _, place in places)
    hint = "" if data_dir else " (RAGEN_DATA_DIR is not set)"
    raise ValueError(f"{option}={path!r}: no such file, looked at {looked}{hint}")


def _is_there(place: Path, *, option: str, path: str, folder: bool) -> bool:
    """True when a place holds what is looked for, False when it holds nothing."""
    try:
        found = place.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise ValueError(
            f"{option}={path!r}: cannot look at {place} ({error.strerror}); make it readable, or set RAGEN_DATA_DIR "
            "and RAGEN_CACHE_DIR to folders that are"
        ) from error
    if stat.S_ISDIR(found.st_mode) != folder:
        wanted, other = ("folder", "file") if folder else ("file", "folder")
        raise ValueError(f"{option}={path!r}: {place} is a {other}; name a {wanted}")
    return True


def text_field(record: Mapping[str, Any], name: str, *, optional: bool = False) -> str:
    """A field of a record that is a text; ``str`` of a null or a list would be shown to a policy as it is.

    Args:
      record: one decoded row.
      name: of the field.
      optional: a missing field, or a null, is an empty text.

    Raises:
      KeyError: the field is missing.
      ValueError: it is no text.
    """
    value = record.get(name) if optional else record[name]
    if value is None and optional:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{name!r} is {'null' if value is None else type(value).__name__}, not a text")
    return value


def load_rows(
    name: str,
    found: tuple[str, Path] | None,
    *,
    read: Callable[[Path], Iterator[tuple[int, Any]]],
    convert: Callable[[Any], Row],
    embedded: Callable[[], Sequence[Row]],
    skip_malformed: bool = False,
) -> DataSet[Row]:
    """Load a data set once per process.

    Args:
      name: of the data set; part of the record and of error messages.
      found: from :func:`locate`; None takes the embedded rows.
      read: yields (line or item number, raw record) of a file; a record may be a ValueError for an unreadable line.
      convert: makes a row of a record; ValueError or KeyError for a malformed one.
      embedded: makes our own rows, the same in every process.
      skip_malformed: leave malformed rows out and count them, instead of refusing the file.

    Raises:
      ValueError: a malformed row (names the file, its line and the fault), no row at all, a file that may not be read,
        or ``skip_malformed`` without a file.
    """
    if found is None and skip_malformed:
        raise ValueError(
            f"skip_malformed=True has no effect because {name} comes from no file: name a file, or leave it at False"
        )
    return _load(name, found, read, convert, embedded, skip_malformed)


@functools.lru_cache(maxsize=32)
def _load(
    name: str,
    found: tuple[str, Path] | None,
    read: Callable[[Path], Iterator[tuple[int, Any]]],
    convert: Callable[[Any], Row],
    embedded: Callable[[], Sequence[Row]],
    skip_malformed: bool,
) -> DataSet[Row]:
    if found is None:
        rows = tuple(embedded())
        return DataSet(rows, DataSource(name, EMBEDDED, "", len(rows), _hash_rows(rows)))
    kind, path = found
    kept: list[Row] = []
    skipped = 0
    if not os.access(path, os.R_OK):
        raise ValueError(f"{name}: {path} may not be read; make it readable, or name another file")
    for number, record in read(path):
        try:
            if isinstance(record, ValueError):
                raise record
            kept.append(convert(record))
        except (ValueError, KeyError, TypeError) as error:
            if not skip_malformed:
                fault = f"no field {error}" if isinstance(error, KeyError) else str(error)
                raise ValueError(
                    f"{name}: line {number} of {path} is malformed: {fault}; mend it, or set skip_malformed=true"
                ) from error
            skipped += 1
    if not kept:
        raise ValueError(f"{name}: {path} holds no usable row ({skipped} were malformed); name another file")
    digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else _hash_rows(kept)
    return DataSet(tuple(kept), DataSource(name, kind, path.name, len(kept), digest, skipped))


def read_json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Records of a JSON Lines file with their line numbers; empty lines are passed over."""
    with path.open("rb") as lines:  # bytes, so that a line that is no text is a fault of that line
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    yield number, json.loads(line)
                except (ValueError, RecursionError) as error:
                    yield number, ValueError(f"not JSON: {error}")


def read_json(path: Path) -> Any:
    """Content of a JSON file, with or without a byte order mark.

    Raises:
      ValueError: the file is not JSON.
    """
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from error


def read_json_list(path: Path) -> Iterator[tuple[int, Any]]:
    """Records of a file that is one JSON list, numbered from 1.

    Raises:
      ValueError: the file is not JSON, or not a list.
    """
    records = read_json(path)
    if not isinstance(records, list):
        raise ValueError(f"{path} holds {type(records).__name__}, not a list of records")
    yield from enumerate(records, start=1)


def read_parquet(path: Path) -> Iterator[tuple[int, Any]]:
    """Rows of a parquet file as dicts, numbered from 1; needs the extra ``parquet``.

    Raises:
      ValueError: pyarrow is not installed, or the file is no parquet file.
    """
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ValueError(f"{path}: parquet files need pyarrow, install it: pip install 'ragen_jax[parquet]'") from error
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            batches = (batch.to_pylist() for batch in file.iter_batches())
            yield from enumerate(itertools.chain.from_iterable(batches), start=1)
    except pyarrow.ArrowException as error:
        raise ValueError(f"{path} is no parquet file: {error}") from error


def _hash_rows(rows: Sequence[Any]) -> str:
    plain = [dataclasses.asdict(row) if _is_record(row) else row for row in rows]
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode("utf-8")).hexdigest()


def _is_record(row: Any) -> bool:
    return dataclasses.is_dataclass(row) and not isinstance(row, type)
