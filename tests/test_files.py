"""Files are replaced as a whole or not at all."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from ragen_jax.files import new_folder, read_json_object, replacing, write_atomically


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


def test_a_place_that_is_not_there_is_named_and_not_the_draft(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "file.json"
    with pytest.raises(FileNotFoundError) as raised:
        write_atomically(path, "x")
    assert raised.value.filename == str(path)
    other = tmp_path / "other"
    with pytest.raises(FileNotFoundError, match="other"), replacing(tmp_path / "file.json"):
        other.read_text()  # an error of the body names its own file


def test_a_folder_appears_when_it_is_complete(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "folder"
    with new_folder(folder, needed=1) as draft:
        (draft / "file").write_text("x")
        assert not folder.exists()
    assert [path.name for path in folder.parent.iterdir()] == ["folder"]
    assert (folder / "file").read_text() == "x"
    empty = tmp_path / "empty"
    empty.mkdir()
    with new_folder(empty, needed=1) as draft:
        (draft / "file").write_text("y")
    assert (empty / "file").read_text() == "y"


def test_a_folder_that_fails_leaves_nothing_and_can_be_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    with pytest.raises(RuntimeError, match="halfway"), new_folder(folder, needed=1) as draft:
        (draft / "file").write_text("x")
        raise RuntimeError("halfway")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / draft.name).mkdir()  # of a process with the same id that was killed
    (tmp_path / draft.name / "old").write_text("x")
    with new_folder(folder, needed=1) as draft:
        (draft / "file").write_text("x")
    assert [path.name for path in folder.iterdir()] == ["file"]
    assert list(tmp_path.iterdir()) == [folder]


def test_folders_that_cannot_be_made_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="is not empty: name a new folder"), new_folder(tmp_path, needed=1):
        pass
    with pytest.raises(NotADirectoryError), new_folder(tmp_path / "file", needed=1):
        pass
    with pytest.raises(OSError, match="name another place") as error, new_folder(tmp_path / "new", needed=2**80):
        pass
    assert (error.value.errno, error.value.filename) == (errno.ENOSPC, str((tmp_path / "new").resolve()))
    assert not (tmp_path / "new").exists()


def test_a_place_where_a_disk_is_mounted_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "is_mount", lambda path: path == tmp_path.resolve())
    with pytest.raises(ValueError, match="name a new folder inside it"), new_folder(tmp_path, needed=1):
        pass


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(b"{", "is not JSON"), (b"\xff", "is no text in UTF-8"), (b"null", "must hold a JSON object, not a NoneType")],
)
def test_json_that_is_no_object_is_refused(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"x\.json {sentence}"):
        read_json_object(path)
    path.write_text('{"a": "é"}', encoding="utf-8")
    assert read_json_object(path) == {"a": "é"}
