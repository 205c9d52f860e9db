"""The level notation: what is read, and what is refused with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragen_jax.envs import make_env
from ragen_jax.envs.sokoban.levels import load_levels, parse_levels
from ragen_jax.envs.sokoban.rules import ACTIONS, corner_deadlock
from ragen_jax.envs.sokoban.solver import shortest_solution
from tests.oracles import sokoban as oracle

TWO_LEVELS = """\
; 0
#####
#@$.#
#####

Second level
  ####
###  ##
#+-$*_#
#######
Author: nobody
"""


def test_symbols_separators_and_ragged_lines() -> None:
    first, second = parse_levels(TWO_LEVELS, source="test")
    assert first.text() == "#####\n#@$.#\n#####"
    assert second.text() == "#######\n###  ##\n#+ $* #\n#######"
    assert first.optimal_length is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing here", "test: no Sokoban level"),
        ("#####\n# $.#\n#####", "lines 1 to 3: 0 players"),
        ("title\n#####\n#@@.#\n#####", "lines 2 to 4: 2 players"),
        ("######\n#@$$.#\n######", "2 boxes and 1 targets"),
        ("#####\n#@  #\n#####", "0 boxes and 0 targets"),
        ("#####\n#@$. \n#####", "the player can leave the board"),
        ("#####\n@ $.#\n#####", "the player stands on the border"),
        ("#######\n#@#$. #\n#######", "outside the player's room"),
        ("#####\n#@ *#\n#####", "it is solved already"),
    ],
)
def test_broken_levels_name_their_lines(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_levels(text, source="test")


def test_an_environment_plays_levels_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "levels.txt"
    path.write_text(TWO_LEVELS, encoding="utf-8")
    env = make_env("sokoban", level_file=str(path), split="all")
    boards = set()
    for seed in range(20):
        env.reset(seed)
        boards.add(env.canonical())
    assert boards == {puzzle.text() for puzzle in parse_levels(TWO_LEVELS, source="test")}
    assert "optimal_length" not in env.step("left").info
    source = env.data_source()
    assert (source.name, source.kind, source.file, source.rows) == ("sokoban levels", "path", "levels.txt", 2)


def test_a_missing_file_names_the_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert make_env("sokoban").data_source() is None
    env = make_env("sokoban", level_file="none.txt")
    monkeypatch.setenv("RAGEN_DATA_DIR", str(tmp_path))
    with pytest.raises(ValueError, match=r"level_file='none\.txt': no such file, looked at none\.txt, .*none\.txt"):
        env.reset(0)


@pytest.mark.parametrize(
    ("name", "count"), [("unfiltered_test_000.txt", 1000), ("medium_valid_000.txt", 1000), ("hard_003.txt", 332)]
)
def test_boxoban_files_load_whole(data_dir: Path, name: str, count: int) -> None:
    levels = load_levels(str(data_dir / "boxoban" / name)).rows
    assert len(levels) == count
    raw = (data_dir / "boxoban" / name).read_text(encoding="utf-8")
    assert sum(level.text().count("@") + level.text().count("+") for level in levels) == count
    assert all(level.start[1].bit_count() == 4 and level.room.height == level.room.width == 10 for level in levels)
    assert raw.count("$") + raw.count("*") == 4 * count
    assert not any(corner_deadlock(level.room, level.start) for level in levels)


def test_a_boxoban_level_is_solved_by_its_solution(data_dir: Path) -> None:
    level = load_levels(str(data_dir / "boxoban" / "unfiltered_test_000.txt")).rows[12]
    plan = shortest_solution(level.room, level.start)
    assert plan is not None
    board = level.text()
    for action in plan:
        board = oracle.play(board, ACTIONS[action])
    assert "$" not in board


def test_boxoban_through_the_environment(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGEN_DATA_DIR", str(data_dir))
    env = make_env("sokoban", level_file="boxoban/hard_003.txt", split="validation", observation_format="coord")
    assert "Board: 10 rows, 10 columns" in env.reset(0).text


def test_a_byte_order_mark_is_no_part_of_a_level(tmp_path: Path) -> None:
    (tmp_path / "mark.txt").write_text(TWO_LEVELS.lstrip(), encoding="utf-8-sig")
    assert load_levels(str(tmp_path / "mark.txt")).rows == parse_levels(TWO_LEVELS, source="test")


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "levels.bin"
    file.write_bytes(b"\xff\xfe\x00#")
    with pytest.raises(ValueError, match=r"level_file: .*levels\.bin is no text file"):
        load_levels(str(file))
