"""Where rows come from, and what is said about files that cannot be read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragen_jax.envs.data_source import DataSet, cache_folder, load_rows, locate, read_json_lines, read_json_list


@pytest.fixture(autouse=True)
def _places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("RAGEN_DATA_DIR", str(tmp_path / "data"))


def _put(path: Path, content: bytes = b"7\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def _whole(record: Any) -> int:
    if not isinstance(record, int):
        raise ValueError(f"{record!r} is no whole number")
    return record


def _own() -> tuple[int, ...]:
    return (1, 2)


def _load(path: Path | None, *, skip: bool = False, read: Any = read_json_lines) -> DataSet[int]:
    found = None if path is None else ("path", path)
    return load_rows("numbers", found, read=read, convert=_whole, embedded=_own, skip_malformed=skip)


def test_places_are_tried_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for kind, folder in (("cache", cache_folder() / "data"), ("data_dir", tmp_path / "data"), ("path", tmp_path)):
        _put(folder / "set/rows.jsonl")
        found = locate("set/rows.jsonl", option="file")
        assert found is not None
        assert found[0] == kind
        assert found[1].resolve() == (folder / "set/rows.jsonl").resolve()


def test_the_default_place_is_looked_up_only_when_nothing_was_named(tmp_path: Path) -> None:
    assert locate("", option="file", below="rows.jsonl") is None
    place = _put(tmp_path / "data" / "rows.jsonl")
    assert locate("", option="file", below="rows.jsonl") == ("data_dir", place)
    assert locate("", option="file") is None
    with pytest.raises(ValueError, match=r"file='other\.jsonl': no such file, looked at .*other\.jsonl"):
        locate("other.jsonl", option="file", below="rows.jsonl")


def test_a_missing_data_folder_is_hinted_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAGEN_DATA_DIR")
    with pytest.raises(ValueError, match=r"RAGEN_DATA_DIR is not set"):
        locate("rows.jsonl", option="file")


def test_rows_and_record(tmp_path: Path) -> None:
    path = _put(tmp_path / "rows.jsonl", b"3\n\n 4 \r\n")
    data = _load(path)
    assert data.rows == (3, 4)
    assert data is _load(path), "loaded once"
    assert data.source.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert data.source.describe() == f"numbers: path rows.jsonl, 2 rows, sha256 {data.source.sha256[:12]}"
    own = _load(None)
    assert (own.rows, own.source.kind, own.source.file) == ((1, 2), "embedded", "")


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b'"x"', "'x' is no whole number"),
        (b"{", "not JSON"),
        (b"\xff\xfe\xfa", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"PAR1\x15\x04", "not JSON"),
    ],
)
def test_a_malformed_line_is_named_or_counted(tmp_path: Path, line: bytes, fault: str) -> None:
    path = _put(tmp_path / "rows.jsonl", b"3\n" + line + b"\n")
    with pytest.raises(ValueError, match=f"numbers: line 2 of .*rows.jsonl is malformed: {fault}"):
        _load(path)
    data = _load(path, skip=True)
    assert (data.rows, data.source.skipped) == ((3,), 1)
    assert "1 skipped" in data.source.describe()


def test_a_file_without_a_row_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no usable row"):
        _load(_put(tmp_path / "rows.jsonl", b"\n\n"))
    with pytest.raises(ValueError, match=r"holds no usable row \(1 were malformed\)"):
        _load(_put(tmp_path / "other.jsonl", b"x\n"), skip=True)


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 100_000])
def test_a_list_that_is_not_json(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ValueError, match=r"rows\.json is not JSON"):
        _load(_put(tmp_path / "rows.json", content), read=read_json_list)


def test_a_json_file_must_be_a_list(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds dict, not a list"):
        _load(_put(tmp_path / "a.json", b"{}"), read=read_json_list)
    with_mark = b"\xef\xbb\xbf" + json.dumps([5]).encode()
    assert _load(_put(tmp_path / "b.json", with_mark), read=read_json_list).rows == (5,)


def test_a_missing_field_is_named(tmp_path: Path) -> None:
    def read(path: Path) -> Iterator[tuple[int, Any]]:
        yield from read_json_lines(path)

    path = _put(tmp_path / "rows.jsonl", b"{}\n")
    with pytest.raises(ValueError, match="no field 'target'"):
        load_rows("numbers", ("path", path), read=read, convert=lambda record: record["target"], embedded=_own)
