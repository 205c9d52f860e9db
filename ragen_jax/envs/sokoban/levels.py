"""Levels in the usual text notation, as Boxoban and most level collections write them.

``#`` wall, ``@`` player, ``+`` player on target, ``$`` box, ``*`` box on target, ``.`` target; space, ``-`` and ``_``
are floor. Any line with something else in it (a title, ``; 12``, an empty line) separates two levels.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ragen_jax.envs.data_source import DataSet, load_rows, locate
from ragen_jax.envs.sokoban.rules import Puzzle, Room, bits, cells, is_solved, reachable

_SYMBOLS = frozenset("#@+$*. -_")


def load_levels(name: str) -> DataSet[Puzzle]:
    """Levels of a file, once per process.

    Args:
      name: option ``level_file``, see ``data_source.locate``.

    Raises:
      ValueError: no such file, or see ``parse_levels``.
    """
    found = locate(name, option="level_file")
    return load_rows("sokoban levels", found, read=_read, convert=_keep, embedded=tuple)


def _read(path: Path) -> Iterator[tuple[int, Puzzle]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"level_file: {path} is no text file ({error}); levels are written in symbols") from error
    yield from enumerate(parse_levels(text, source=str(path)), start=1)


def _keep(level: Puzzle) -> Puzzle:
    return level


def parse_levels(text: str, *, source: str) -> tuple[Puzzle, ...]:
    """Levels of a text, in their order.

    Args:
      text: one or more levels.
      source: where the text is from, for error messages.

    Raises:
      ValueError: when there is no level, or one is not a closed room with one player and as many boxes as targets, or
        is solved already. The message has the line.
    """
    levels: list[Puzzle] = []
    block: list[str] = []
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        line = line.rstrip()
        if "#" in line and _SYMBOLS.issuperset(line):
            block.append(line)
            continue
        if block:
            levels.append(_level(block, where=f"{source}, level of lines {number - len(block)} to {number - 1}"))
            block = []
    if not levels:
        raise ValueError(f"{source}: no Sokoban level in it; walls are written as '#'")
    return tuple(levels)


def _level(lines: list[str], *, where: str) -> Puzzle:
    """One level; floor that the player cannot reach becomes wall."""
    width = max(map(len, lines))
    symbols = "".join(line.ljust(width) for line in lines)

    def having(wanted: str) -> int:
        return bits(cell for cell, symbol in enumerate(symbols) if symbol in wanted)

    players, boxes, targets = having("@+"), having("$*"), having(".*+")
    if players.bit_count() != 1:
        raise ValueError(f"{where}: {players.bit_count()} players, a level has one ('@' or '+')")
    if not boxes or boxes.bit_count() != targets.bit_count():
        raise ValueError(f"{where}: {boxes.bit_count()} boxes and {targets.bit_count()} targets, use as many of both")
    drawn = Room(len(lines), width, having("#"), targets)
    start = (next(cells(players)), boxes)
    if drawn.border >> start[0] & 1:
        raise ValueError(f"{where}: the player stands on the border; the room must be closed by walls")
    inside = reachable(drawn, start[0])
    if inside & drawn.border:
        raise ValueError(f"{where}: the player can leave the board; close the room with walls")
    if (boxes | targets) & ~inside:
        raise ValueError(f"{where}: a box or a target stands outside the player's room")
    room = Room(drawn.height, width, walls=drawn.walls | drawn.floor & ~inside, targets=targets)
    if is_solved(room, start):
        raise ValueError(f"{where}: it is solved already")
    return Puzzle(room, start)
