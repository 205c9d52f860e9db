"""Token ids and sampling defaults that go along with a saved model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragen_jax.models.generation import generation_fields


def _fields(folder: Path, files: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return generation_fields(folder, eos_token_id=9, pad_token_id=4)


def test_a_folder_that_says_nothing_has_the_two_ids(tmp_path: Path) -> None:
    assert _fields(tmp_path, {}) == ({"eos_token_id": 9, "pad_token_id": 4},) * 2


def test_several_ends_a_beginning_and_defaults_are_kept(tmp_path: Path) -> None:
    config = {"vocab_size": 10, "bos_token_id": 0, "eos_token_id": 9, "pad_token_id": None}
    defaults = {"eos_token_id": [8, 9], "do_sample": True, "temperature": 0.6, "top_p": None}
    ids, generation = _fields(tmp_path, {"config.json": config, "generation_config.json": defaults})
    assert ids == {"bos_token_id": 0, "eos_token_id": 9, "pad_token_id": 4}
    assert generation == {
        "bos_token_id": 0,
        "eos_token_id": [8, 9],
        "pad_token_id": 4,
        "do_sample": True,
        "temperature": 0.6,
    }


def test_the_end_of_the_trained_turn_comes_first_where_the_folder_has_another(tmp_path: Path) -> None:
    ids, generation = _fields(tmp_path, {"config.json": {"eos_token_id": 7}})
    assert ids["eos_token_id"] == generation["eos_token_id"] == [9, 7]


@pytest.mark.parametrize("ends", ["7", [7, -1], [True], 1.5, {}])
def test_ends_that_are_no_ids_are_refused(tmp_path: Path, ends: Any) -> None:
    with pytest.raises(ValueError, match=r"eos_token_id=.* must be an id or a list of ids"):
        _fields(tmp_path, {"generation_config.json": {"eos_token_id": ends}})


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "generation_config.json").write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"generation_config\.json is not JSON"):
        _fields(tmp_path, {})
