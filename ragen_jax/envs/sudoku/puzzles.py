"""Sudoku grids: the rule, an exact solver that counts solutions, and puzzles with one solution."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

SIZES = (4, 9)

Grid = tuple[int, ...]
"""Digits row by row; 0 is an empty cell."""


@cache
def peers(size: int) -> tuple[tuple[int, ...], ...]:
    """For each cell, the other cells of its row, column and box, which must hold other digits."""
    box = math.isqrt(size)

    def groups(cell: int) -> tuple[int, int, tuple[int, int]]:
        row, column = divmod(cell, size)
        return row, column, (row // box, column // box)

    return tuple(
        tuple(
            other
            for other in range(size * size)
            if other != cell and any(a == b for a, b in zip(groups(cell), groups(other), strict=True))
        )
        for cell in range(size * size)
    )


def size_of(grid: Grid) -> int:
    """Rows of a grid."""
    return math.isqrt(len(grid))


def candidates(grid: Grid, cell: int) -> list[int]:
    """Digits that no peer of a cell holds, ascending."""
    size = size_of(grid)
    taken = {grid[peer] for peer in peers(size)[cell]}
    return [digit for digit in range(1, size + 1) if digit not in taken]


def solutions(grid: Grid, *, limit: int = 2) -> list[Grid]:
    """Up to ``limit`` solutions of a grid, by search from the cell with the fewest candidates."""
    found: list[Grid] = []
    # A clash among given digits has no solution, and the search below would not see it.
    if any(digit and digit not in candidates(grid, cell) for cell, digit in enumerate(grid)):
        return found
    _search(list(grid), found, limit)
    return found


def draw_puzzle(rng: np.random.Generator, *, size: int, empty: int) -> tuple[Grid, Grid] | None:
    """A puzzle with ``empty`` empty cells and one solution, and that solution.

    A full grid is drawn, then cells are emptied in random order where the solution stays the only one. None when too
    few can be.

    Args:
      rng: source of chance.
      size: one of ``SIZES``.
      empty: cells to empty.
    """
    grid = _full_grid(rng, size)
    puzzle = list(grid)
    left = empty
    order: list[int] = rng.permutation(size * size).tolist()
    for cell in order:
        if not left:
            break
        digit, puzzle[cell] = puzzle[cell], 0
        if len(solutions(tuple(puzzle))) == 1:
            left -= 1
        else:
            puzzle[cell] = digit
    return None if left else (tuple(puzzle), grid)


def _full_grid(rng: np.random.Generator, size: int) -> Grid:
    """A full grid: the first row at random, then the first solution with digits in random order."""
    renamed: list[int] = (rng.permutation(size) + 1).tolist()
    cells = [0] * (size * size)
    cells[:size] = renamed
    found: list[Grid] = []
    _search(cells, found, 1, rng)
    return found[0]


def _search(cells: list[int], found: list[Grid], limit: int, rng: np.random.Generator | None = None) -> None:
    """Fill ``cells`` in all ways that fit until ``limit`` are found; leaves it as it was."""
    grid = tuple(cells)
    best: tuple[int, list[int]] | None = None
    for cell, digit in enumerate(grid):
        if not digit:
            fitting = candidates(grid, cell)
            if best is None or len(fitting) < len(best[1]):
                best = (cell, fitting)
            if len(fitting) < 2:
                break
    if best is None:
        found.append(grid)
        return
    cell, fitting = best
    if rng is not None:
        fitting = [fitting[i] for i in rng.permutation(len(fitting))]
    for digit in fitting:
        cells[cell] = digit
        _search(cells, found, limit, rng)
        if len(found) >= limit:
            break
    cells[cell] = 0
