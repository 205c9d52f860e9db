"""Files are replaced as a whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragen_jax.files import replacing, write_atomically


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_atomically(path, "old")
    with replacing(path) as draft:
        draft.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_atomically(path, "old é\n")
    with pytest.raises(RuntimeError, match="halfway"), replacing(path) as draft:
        draft.write_text("ne")
        raise RuntimeError("halfway")
    assert path.read_bytes() == "old é\n".encode()
    assert list(tmp_path.iterdir()) == [path]
