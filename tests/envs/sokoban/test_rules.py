"""Rules on bit boards, against play on characters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ragen_jax.envs.sokoban.levels import parse_levels
from ragen_jax.envs.sokoban.rules import (
    ACTIONS,
    Puzzle,
    boxes_on_targets,
    cells,
    corner_deadlock,
    is_solved,
    move,
    reachable,
)
from tests.oracles import sokoban as oracle

LEVEL = """\
########
#  .   #
# $@$. #
#  #   #
# .$   #
########
"""


def _level(text: str) -> Puzzle:
    return parse_levels(text, source="test")[0]


@given(st.lists(st.sampled_from(ACTIONS), max_size=80))
def test_play_agrees_with_characters(actions: list[str]) -> None:
    puzzle = _level(LEVEL)
    state, board = puzzle.start, puzzle.text()
    for action in actions:
        state, board = move(puzzle.room, state, ACTIONS.index(action)), oracle.play(board, action)
        assert Puzzle(puzzle.room, state).text() == board
        assert boxes_on_targets(puzzle.room, state) == board.count("*")
        assert is_solved(puzzle.room, state) == ("$" not in board)


def test_a_wall_and_a_second_box_stop_the_player() -> None:
    puzzle = _level("#######\n#@$$ .#\n#    .#\n#######")
    for action in ("up", "left", "right"):
        assert move(puzzle.room, puzzle.start, ACTIONS.index(action)) == puzzle.start


def test_corner_deadlock_needs_two_walls_and_no_target() -> None:
    for text, stuck in (
        ("#####\n#$  #\n# @.#\n#####", True),
        ("#####\n# $ #\n# @.#\n#####", False),  # along a wall, not in a corner
        ("#######\n#*    #\n# @$ .#\n#######", False),  # in a corner, on target; the other has a wall below only
        ("######\n#    #\n#@$# #\n#   .#\n######", False),
        ("######\n# #  #\n#@$# #\n#   .#\n######", True),
    ):
        puzzle = _level(text)
        assert corner_deadlock(puzzle.room, puzzle.start) == stuck, text


def test_reachable_stops_at_walls_and_ignores_boxes() -> None:
    puzzle = _level("#######\n#@$.# #\n#######")
    assert list(cells(reachable(puzzle.room, puzzle.start[0]))) == [8, 9, 10]
    assert list(cells(puzzle.room.floor)) == [8, 9, 10], "floor that cannot be reached is wall"
