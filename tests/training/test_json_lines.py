"""JSON lines: exact round trips and torn files."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragen_jax.training import json_lines

_VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@given(rows=st.lists(st.dictionaries(st.text(), _VALUES)))
@settings(max_examples=25, deadline=None)
def test_rows_survive_the_file(rows: list[dict], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    json_lines.append_rows(path, rows[:1])
    json_lines.append_rows(path, rows[1:])
    assert json_lines.read_rows(path) == rows
    json_lines.write_rows(path, rows)
    assert json_lines.read_rows(path) == rows


def test_torn_last_line_is_skipped_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes('{"step": 1}\n{"step": 2}\n{"text": "é'.encode()[:-1])  # torn inside a character
    with caplog.at_level(logging.WARNING):
        assert json_lines.read_rows(path) == [{"step": 1}, {"step": 2}]
    assert "line 3" in caplog.text


@pytest.mark.parametrize(
    ("text", "named"), [('{"a": 1}\n{oops\n{}\n', "line 2 is not JSON"), ("[1]\n", "line 1 is list")]
)
def test_broken_line_is_named(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match=named):
        json_lines.read_rows(path)


def test_line_separators_inside_text_do_not_split_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [{"text": "a\u2028b\x85c\x0bd\r\ne"}, {"text": ""}]
    json_lines.append_rows(path, rows)
    assert json_lines.read_rows(path) == rows


def test_keep_rows_on_a_missing_file(tmp_path: Path) -> None:
    json_lines.keep_rows(tmp_path / "none.jsonl", lambda row: True)
    assert not (tmp_path / "none.jsonl").exists()


def test_nan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_lines.append_rows(tmp_path / "rows.jsonl", [{"x": float("nan")}])
