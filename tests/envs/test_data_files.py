"""Where files of users are looked for, and options that they make meaningless."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ragen_jax.envs.base import EnvConfig
from ragen_jax.envs.data_files import find_data_file, refuse_changed


def test_a_path_wins_over_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, here = tmp_path / "data", tmp_path / "here"
    for place in (folder, here):
        place.mkdir()
        (place / "file.txt").touch()
    monkeypatch.chdir(here)
    monkeypatch.setenv("RAGEN_DATA_DIR", str(folder))
    assert find_data_file("file.txt", option="f").resolve() == here / "file.txt"
    (here / "file.txt").unlink()
    assert find_data_file("file.txt", option="f") == folder / "file.txt"


def test_a_missing_file_says_where_it_was_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAGEN_DATA_DIR", raising=False)
    with pytest.raises(
        ValueError, match=r"level_file='no/such': no such file, looked at no/such \(RAGEN_DATA_DIR is not"
    ):
        find_data_file("no/such", option="level_file")


def test_options_without_an_effect_are_refused() -> None:
    config = dataclasses.replace(EnvConfig(), max_turns=3)
    refuse_changed(config, ("max_actions",), because="of nothing")
    with pytest.raises(ValueError, match="max_turns=3 has no effect because there is a file: leave it at 5"):
        refuse_changed(config, ("max_actions", "max_turns"), because="there is a file")
