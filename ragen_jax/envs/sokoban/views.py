"""How a board looks in text: symbol grid, coordinates, one compact line."""

from __future__ import annotations

from ragen_jax.envs.sokoban.rules import Room, State, board_text, cells

FORMATS = ("grid", "coord", "grid_coord", "compact")
VOCABULARIES = {"default": "#_O√XPS", "ascii": "#_O*XPS", "letters": "W.GCBA@"}
"""Symbols in the order of ``rules.board_text``."""

_MEANINGS = ("wall", "floor", "target", "box on a target", "box", "you", "you on a target")


def describe(room: Room, state: State, *, style: str, vocabulary: str, first: bool) -> str:
    """Observation text in one of ``FORMATS``; ``first`` marks the observation that opens an episode."""
    if style == "compact":
        return _compact(room, state, first=first)
    parts = []
    if style in ("coord", "grid_coord"):
        parts.append(_coordinates(room, state))
    if style in ("grid", "grid_coord"):
        parts.append(board_text(room, state, VOCABULARIES[vocabulary]))
    return "\n".join(parts)


def symbols(*, style: str, vocabulary: str) -> tuple[str, ...]:
    """The signs that ``legend`` explains."""
    if style == "compact":
        return ("P", "B", "G", "O")
    return tuple(VOCABULARIES[vocabulary]) if "grid" in style else ()


def legend(*, height: int, width: int, style: str, vocabulary: str) -> str:
    """The lines of the instructions that explain the observations of a format."""
    if style == "compact":
        return (
            f"The board has {height} rows and {width} columns, counted from 0 at the top left. "
            "The first state is one line of letters, each with a row and a column: "
            "P is you, B a box, G a target, O a wall inside the border; the border is all wall. "
            "Later states give only P and B, since nothing else moves."
        )
    lines = []
    if style in ("grid", "grid_coord"):
        symbols = zip(VOCABULARIES[vocabulary], _MEANINGS, strict=True)
        lines.append("Symbols: " + ", ".join(f"{symbol} {meaning}" for symbol, meaning in symbols) + ".")
    if style in ("coord", "grid_coord"):
        lines.append("Coordinates are (row, column), counted from (0, 0) at the top left.")
    return "\n".join(lines)


def _compact(room: Room, state: State, *, first: bool) -> str:
    player, boxes = state
    entities = [("P", 1 << player), ("B", boxes)]
    if first:
        entities += [("G", room.targets), ("O", room.walls & ~room.border)]
    return " ".join(
        f"{letter} {row} {column}" for letter, board in entities for row, column in map(room.position, cells(board))
    )


def _coordinates(room: Room, state: State) -> str:
    player, boxes = state
    inner_walls = _positions(room, room.walls & ~room.border)
    lines = [
        f"Board: {room.height} rows, {room.width} columns, bottom right {(room.height - 1, room.width - 1)}",
        f"Player: {room.position(player)}",
        f"Boxes off target: {_positions(room, boxes & ~room.targets) or 'none'}",
        f"Boxes on a target: {_positions(room, boxes & room.targets) or 'none'}",
        f"Targets: {_positions(room, room.targets)}",
        "Walls: all of the border" + (f", and {inner_walls}" if inner_walls else ""),
    ]
    return "\n".join(lines)


def _positions(room: Room, board: int) -> str:
    return ", ".join(str(room.position(cell)) for cell in cells(board))
