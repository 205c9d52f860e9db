"""Sokoban played on a list of characters, and its shortest solutions by brute force over whole boards."""

from __future__ import annotations

STEPS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}


def play(board: str, action: str) -> str:
    """Board in level notation after one action."""
    rows = [list(row) for row in board.split("\n")]
    row, column = next((r, c) for r, line in enumerate(rows) for c, symbol in enumerate(line) if symbol in "@+")
    down, right = STEPS[action]
    ahead = rows[row + down][column + right]
    if ahead == "#":
        return board
    if ahead in "$*":
        behind = rows[row + 2 * down][column + 2 * right]
        if behind in "#$*":
            return board
        rows[row + 2 * down][column + 2 * right] = {" ": "$", ".": "*"}[behind]
    rows[row + down][column + right] = "+" if ahead in ".*" else "@"
    rows[row][column] = {"@": " ", "+": "."}[rows[row][column]]
    return "\n".join("".join(line) for line in rows)


def shortest(board: str, limit: int | None = None) -> int | None:
    """Length of the shortest solution of at most ``limit`` actions; None when there is none."""
    seen, frontier, length = {board}, [board], 0
    while frontier:
        if any("$" not in here for here in frontier):
            return length
        if length == limit:
            return None
        length += 1
        following = {play(here, action) for here in frontier for action in STEPS} - seen
        seen |= following
        frontier = sorted(following)
    return None
