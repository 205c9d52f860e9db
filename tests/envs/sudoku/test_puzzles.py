"""Sudoku grids: the rule, the solver, and puzzles with one solution."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from ragen_jax.envs.sudoku.puzzles import Grid, candidates, draw_puzzle, peers, solutions


def _is_solution(grid: Grid) -> bool:
    """Rows, columns and boxes hold every digit once, written down from the rule."""
    size = round(len(grid) ** 0.5)
    box = round(size**0.5)
    square = np.array(grid).reshape(size, size)
    groups = [*square, *square.T]
    groups += [square[r : r + box, c : c + box].ravel() for r, c in product(range(0, size, box), repeat=2)]
    return all(sorted(group.tolist()) == list(range(1, size + 1)) for group in groups)


def test_peers() -> None:
    assert [len(found) for found in peers(4)] == [7] * 16
    assert [len(found) for found in peers(9)] == [20] * 81
    assert set(peers(4)[0]) == {1, 2, 3, 4, 8, 12, 5}
    assert all(cell in peers(9)[peer] for cell in range(81) for peer in peers(9)[cell])


def test_all_full_grids_of_four() -> None:
    found = solutions((0,) * 16, limit=1000)
    assert len(found) == len(set(found)) == 288, "there are 288 grids of 4 x 4"
    assert all(map(_is_solution, found))


def test_contradictions_have_no_solution() -> None:
    assert solutions((1, 1) + (0,) * 14) == []
    assert solutions((1, 2, 3, 0) + (0, 0, 0, 4) + (0,) * 8) == []
    assert candidates((1, 2, 3, 0) + (0, 0, 0, 4) + (0,) * 8, 3) == []


@pytest.mark.parametrize(("size", "empty", "count"), [(4, 6, 40), (4, 10, 40), (9, 48, 3)])
def test_puzzles_have_one_solution(size: int, empty: int, count: int) -> None:
    drawn = [draw_puzzle(np.random.default_rng(seed), size=size, empty=empty) for seed in range(count)]
    for puzzle, grid in filter(None, drawn):
        assert puzzle.count(0) == empty
        assert all(clue in (0, digit) for clue, digit in zip(puzzle, grid, strict=True))
        assert _is_solution(grid)
        assert solutions(puzzle, limit=5) == [grid]
    assert sum(found is not None for found in drawn) > 0.9 * count
    assert len(set(filter(None, drawn))) > 0.9 * count


def test_too_many_empty_cells_give_none() -> None:
    """No grid of 4 x 4 has one solution with fewer than four clues."""
    assert all(draw_puzzle(np.random.default_rng(seed), size=4, empty=13) is None for seed in range(20))
