"""Exact solutions, forwards and backwards, against brute force over whole boards."""

from __future__ import annotations

import numpy as np
import pytest

from ragen_jax.envs import make_env
from ragen_jax.envs.sokoban.levels import parse_levels
from ragen_jax.envs.sokoban.rules import Puzzle, Room, bits, cells, is_solved, move
from ragen_jax.envs.sokoban.solver import SearchLimitError, distances_to_solution, live_cells, shortest_solution
from tests.oracles import sokoban as oracle

LEVELS = ("#######\n#@ .  #\n#  #  #\n# $   #\n#######", "#######\n#@ .  #\n# $#$ #\n#   . #\n#######")


def _random_puzzle(rng: np.random.Generator, boxes: int) -> Puzzle:
    empty = Room(5, 7, walls=0, targets=0)
    order = rng.permutation(list(cells(empty.floor & ~empty.border))).tolist()
    walls = empty.border | bits(order[:1])
    room = Room(5, 7, walls, targets=bits(order[1 : 1 + boxes]))
    floor = rng.permutation(order[1:]).tolist()
    return Puzzle(room, (floor[0], bits(floor[1 : 1 + boxes])))


@pytest.mark.parametrize("boxes", [1, 2])
def test_solutions_are_shortest_and_missing_ones_do_not_exist(boxes: int) -> None:
    rng = np.random.default_rng(boxes)
    lengths = []
    for _ in range(80):
        puzzle = _random_puzzle(rng, boxes)
        plan = shortest_solution(puzzle.room, puzzle.start)
        expected = oracle.shortest(puzzle.text())
        assert (None if plan is None else len(plan)) == expected
        lengths.append(expected)
        if plan is not None:
            state = puzzle.start
            for action in plan:
                assert not is_solved(puzzle.room, state)
                state = move(puzzle.room, state, action)
            assert is_solved(puzzle.room, state)
    assert None in lengths
    assert len(set(lengths)) > 4


@pytest.mark.parametrize("boxes", [1, 2])
def test_backward_distances_are_those_of_the_forward_search(boxes: int) -> None:
    room = parse_levels(LEVELS[boxes - 1], source="test")[0].room
    limit = 8
    table = distances_to_solution(room, max_length=limit)
    floor = list(cells(room.floor))
    squares = [bits(pair) for pair in ([(a,) for a in floor] if boxes == 1 else _pairs(floor))]
    checked = 0
    for box_bits in squares:
        for player in floor:
            if not box_bits >> player & 1:
                plan = shortest_solution(room, (player, box_bits), max_length=limit)
                assert table.get((player, box_bits)) == (None if plan is None else len(plan))
                checked += 1
    assert checked > 100
    assert max(table.values()) == limit


def test_a_full_table_drops_only_long_solutions() -> None:
    room = parse_levels(LEVELS[1], source="test")[0].room
    full = distances_to_solution(room, max_length=12)
    small = distances_to_solution(room, max_length=12, max_states=60)
    assert 0 < len(small) <= 60 < len(full)
    reached = max(small.values())
    assert small == {state: length for state, length in full.items() if length <= reached}


def test_limits_are_kept() -> None:
    puzzle = parse_levels("########\n#      #\n# @$   #\n#     .#\n########", source="test")[0]
    plan = shortest_solution(puzzle.room, puzzle.start)
    assert plan is not None
    assert shortest_solution(puzzle.room, puzzle.start, max_length=len(plan)) is not None
    assert shortest_solution(puzzle.room, puzzle.start, max_length=len(plan) - 1) is None
    with pytest.raises(SearchLimitError, match="within 20 states"):
        shortest_solution(puzzle.room, puzzle.start, max_states=20)


def test_live_cells_leave_out_walls_without_a_target() -> None:
    room = parse_levels("######\n#    #\n# $@ #\n#   .#\n######", source="test")[0].room
    expected = [(2, 2), (2, 3), (2, 4), (3, 2), (3, 3), (3, 4)]
    assert [room.position(cell) for cell in cells(live_cells(room))] == expected


def test_a_solved_state_needs_nothing() -> None:
    env = make_env("sokoban")
    env.reset(0)
    room = env.puzzle.room
    player = next(cells(room.floor & ~room.targets))
    assert shortest_solution(room, (player, room.targets)) == ()


def _pairs(floor: list[int]) -> list[tuple[int, int]]:
    return [(a, b) for index, a in enumerate(floor) for b in floor[index + 1 :]]
