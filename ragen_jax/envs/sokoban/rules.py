"""Sokoban's rules on bit boards: a set of cells is one integer, bit ``row * width + column``.

A room is what never moves (walls, targets); a state is a pair ``(player cell, box bits)``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator

ACTIONS = ("up", "down", "left", "right")

State = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Room:
    """The fixed part of a puzzle. The outermost cells are walls, so no step leaves the board.

    Attributes:
      height: rows.
      width: columns.
      walls: bits of the wall cells.
      targets: bits of the target cells.
    """

    height: int
    width: int
    walls: int
    targets: int

    @functools.cached_property
    def offsets(self) -> tuple[int, int, int, int]:
        """What each of ``ACTIONS`` adds to a cell number."""
        return (-self.width, self.width, -1, 1)

    @functools.cached_property
    def border(self) -> int:
        """Bits of the outermost rows and columns."""
        return bits(
            row * self.width + column
            for row in range(self.height)
            for column in range(self.width)
            if row in (0, self.height - 1) or column in (0, self.width - 1)
        )

    @functools.cached_property
    def floor(self) -> int:
        """Bits of all cells that are no wall."""
        return ~self.walls & ((1 << self.height * self.width) - 1)

    def position(self, cell: int) -> tuple[int, int]:
        """(row, column) of a cell number, from (0, 0) at the top left."""
        return divmod(cell, self.width)


@dataclasses.dataclass(frozen=True)
class Puzzle:
    """A room and where player and boxes stand at the start.

    Attributes:
      room: the fixed part.
      start: player cell and box bits.
      optimal_length: fewest actions that solve it; None when no solution is known.
    """

    room: Room
    start: State
    optimal_length: int | None = None

    def text(self) -> str:
        """The board in the usual level notation (``#@$.*+`` and space), a row a line."""
        return board_text(self.room, self.start, "# .*$@+")


def bits(cells: Iterable[int]) -> int:
    """Set of cells as bits."""
    board = 0
    for cell in cells:
        board |= 1 << cell
    return board


def cells(board: int) -> Iterator[int]:
    """Cell numbers of a bit board, in reading order."""
    while board:
        low = board & -board
        yield low.bit_length() - 1
        board ^= low


def move(room: Room, state: State, action: int) -> State:
    """State after one action; the same state when a wall or a stuck box stops the player."""
    player, boxes = state
    offset = room.offsets[action]
    ahead = player + offset
    if room.walls >> ahead & 1:
        return state
    if boxes >> ahead & 1:
        behind = ahead + offset
        if (room.walls | boxes) >> behind & 1:
            return state
        boxes ^= 1 << ahead | 1 << behind
    return ahead, boxes


def is_solved(room: Room, state: State) -> bool:
    """True when every box stands on a target."""
    return not state[1] & ~room.targets


def boxes_on_targets(room: Room, state: State) -> int:
    """Number of boxes that stand on a target."""
    return (state[1] & room.targets).bit_count()


def corner_deadlock(room: Room, state: State) -> bool:
    """True when a box off target has a wall above or below it and another to its left or right: it is stuck."""
    up, down, left, right = room.offsets

    def wall(cell: int) -> bool:
        return bool(room.walls >> cell & 1)

    return any(
        (wall(box + up) or wall(box + down)) and (wall(box + left) or wall(box + right))
        for box in cells(state[1] & ~room.targets)
    )


def reachable(room: Room, start: int) -> int:
    """Bits of the floor cells that are joined to a cell, boxes ignored."""
    seen = frontier = 1 << start
    while frontier:
        frontier = (
            (frontier << room.width | frontier >> room.width | frontier << 1 | frontier >> 1) & room.floor & ~seen
        )
        seen |= frontier
    return seen


def board_text(room: Room, state: State, symbols: str) -> str:
    """Board with one symbol a cell.

    Args:
      room: the fixed part.
      state: player and boxes.
      symbols: for wall, floor, target, box on target, box, player, player on target, in this order.
    """
    wall, floor, target, box_on_target, box, player, player_on_target = tuple(symbols)
    rows = []
    for row in range(room.height):
        line = ""
        for cell in range(row * room.width, (row + 1) * room.width):
            on_target = bool(room.targets >> cell & 1)
            if room.walls >> cell & 1:
                line += wall
            elif cell == state[0]:
                line += player_on_target if on_target else player
            elif state[1] >> cell & 1:
                line += box_on_target if on_target else box
            else:
                line += target if on_target else floor
        rows.append(line)
    return "\n".join(rows)
