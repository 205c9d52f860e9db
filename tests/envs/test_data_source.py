"""Where rows come from, and what is said about files that cannot be read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragen_jax.cache import cache_folder
from ragen_jax.envs import make_env
from ragen_jax.envs.data_source import (
    DataSet,
    load_rows,
    locate,
    read_json_lines,
    read_json_list,
    text_field,
)


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


def test_a_folder_is_no_file_and_a_file_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"level_file='{tmp_path}': {tmp_path} is a folder; name a file"):
        locate(str(tmp_path), option="level_file")
    (tmp_path / "data" / "rows.jsonl").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"rows\.jsonl is a folder; name a file"):
        locate("", option="file", below="rows.jsonl")
    file = _put(tmp_path / "shop.json")
    assert locate(str(tmp_path), option="folder", folder=True) == ("path", tmp_path)
    with pytest.raises(ValueError, match=r"shop\.json is a file; name a folder"):
        locate(str(file), option="folder", folder=True)


def test_places_that_may_not_be_read_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = _put(tmp_path / "closed.jsonl")

    def refuse(*_args: Any, **_options: Any) -> None:
        raise PermissionError(13, "Permission denied", str(file))

    with monkeypatch.context() as closed:  # rights do not bind every user, so that real ones would test nothing
        closed.setattr(Path, "stat", refuse)
        with pytest.raises(ValueError, match=r"file='closed\.jsonl': cannot look at .*Permission denied"):
            locate("closed.jsonl", option="file")
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(ValueError, match=r"numbers: .*closed\.jsonl may not be read"):
        _load(file)


@pytest.mark.parametrize(("value", "said"), [(None, "null"), (["x"], "list"), (5, "int")])
def test_only_a_text_is_a_text(value: Any, said: str) -> None:
    with pytest.raises(ValueError, match=f"'query' is {said}, not a text"):
        text_field({"query": value}, "query")
    with pytest.raises(KeyError):
        text_field({}, "query")
    assert text_field({"query": "x"}, "query") == "x"
    assert text_field({}, "query", optional=True) == text_field({"query": None}, "query", optional=True) == ""


@pytest.mark.parametrize(
    ("name", "options", "row", "field"),
    [
        ("deepcoder", {}, {"problem": None, "tests": [{"input": "1", "output": "1"}]}, "problem"),
        ("metamathqa", {}, {"query": None, "response": "The answer is: 1"}, "query"),
        ("metamathqa", {}, {"query": "How many?", "response": None}, "response"),
        ("metamathqa", {"dataset": "gsm8k"}, {"question": None, "answer": "#### 1"}, "question"),
    ],
)
def test_a_null_is_never_shown_as_a_word(
    tmp_path: Path, name: str, options: dict[str, Any], row: dict[str, Any], field: str
) -> None:
    file = _put(tmp_path / "rows.jsonl", b"\n" + json.dumps(row).encode())
    with pytest.raises(ValueError, match=rf"line 2 of .*rows\.jsonl is malformed: '{field}' is null, not a text"):
        make_env(name, data_file=str(file), **options).reset(0)


def test_skipping_malformed_rows_of_no_file_is_refused() -> None:
    with pytest.raises(ValueError, match="skip_malformed=True has no effect because numbers comes from no file"):
        _load(None, skip=True)
    assert _load(None).rows == (1, 2)
