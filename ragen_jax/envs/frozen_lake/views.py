"""How a lake looks: grid, coordinates, one compact line, and pixels."""

from __future__ import annotations

import numpy as np

from ragen_jax.envs.frozen_lake.lake import Cell, Lake

FORMATS = ("grid", "coord", "grid_coord", "compact")
VOCABULARIES = {
    "default": {"player": "P", "frozen": "_", "hole": "O", "goal": "G", "in_hole": "X", "on_goal": "√"},
    "ascii": {"player": "P", "frozen": "_", "hole": "O", "goal": "G", "in_hole": "X", "on_goal": "W"},
}
TILE = 16  # pixels per cell side

_MEANINGS = {
    "player": "you",
    "frozen": "ice",
    "hole": "hole",
    "goal": "goal",
    "in_hole": "you in a hole",
    "on_goal": "you on the goal",
}


def describe(lake: Lake, player: Cell, *, style: str, vocabulary: str, first: bool) -> str:
    """Observation text in one of ``FORMATS``; ``first`` marks the observation that opens an episode."""
    if style == "compact":
        return _compact(lake, player) if first else f"P {player[0]} {player[1]}"
    parts = []
    if style in ("coord", "grid_coord"):
        parts.append(_coordinates(lake, player))
    if style in ("grid", "grid_coord"):
        parts.append(grid(lake, player, vocabulary=vocabulary))
    if lake.locked:
        parts.append("The goal is locked.")
    return "\n".join(parts)


def grid(lake: Lake, player: Cell, *, vocabulary: str) -> str:
    """The symbol grid, rows joined by newlines."""
    symbols = VOCABULARIES[vocabulary]
    cells = dict.fromkeys(lake.holes, symbols["hole"]) | {lake.goal: symbols["goal"]}
    cells[player] = symbols[_player_state(lake, player)]
    rows = ((cells.get((r, c), symbols["frozen"]) for c in range(lake.size)) for r in range(lake.size))
    return "\n".join("".join(row) for row in rows)


def symbols(*, style: str, vocabulary: str) -> tuple[str, ...]:
    """The signs that ``legend`` explains."""
    if style == "compact":
        return ("P", "G", "O")
    return tuple(VOCABULARIES[vocabulary].values()) if "grid" in style else ()


def legend(*, size: int, style: str, vocabulary: str) -> str:
    """The lines of the instructions that explain the observations of a format."""
    if style == "compact":
        return (
            f"The board has {size} rows and {size} columns, counted from 0 at the top left. "
            "The first state is one line: P row column is you, G row column the goal, each O row column a hole. "
            "Later states give only your cell, since nothing else moves."
        )
    lines = []
    if style in ("grid", "grid_coord"):
        symbols = VOCABULARIES[vocabulary]
        lines.append("Symbols: " + ", ".join(f"{symbols[key]} {meaning}" for key, meaning in _MEANINGS.items()) + ".")
    if style in ("coord", "grid_coord"):
        lines.append(
            f"Coordinates are (row, column), from (0, 0) at the top left to {(size - 1, size - 1)} at the bottom right."
        )
    return "\n".join(lines)


def render(lake: Lake, player: Cell) -> np.ndarray:
    """Picture of the lake, [size * TILE, size * TILE, 3] uint8."""
    image = np.empty((lake.size * TILE, lake.size * TILE, 3), dtype=np.uint8)
    for row in range(lake.size):
        for column in range(lake.size):
            cell = (row, column)
            tile = image[row * TILE : (row + 1) * TILE, column * TILE : (column + 1) * TILE]
            _draw_tile(tile, hole=cell in lake.holes, goal=cell == lake.goal, locked=lake.locked, player=cell == player)
    return image


def _compact(lake: Lake, player: Cell) -> str:
    entities = [("P", player), ("G", lake.goal), *(("O", hole) for hole in sorted(lake.holes))]
    words = [f"{letter} {row} {column}" for letter, (row, column) in entities]
    return " ".join([*words, "locked"] if lake.locked else words)


def _coordinates(lake: Lake, player: Cell) -> str:
    heading = {"player": "Player", "in_hole": "Player in a hole", "on_goal": "Player on the goal"}
    holes = ", ".join(map(str, sorted(lake.holes))) or "none"
    return "\n".join(
        (
            f"Start: {lake.start}",
            f"Goal: {lake.goal}",
            f"{heading[_player_state(lake, player)]}: {player}",
            f"Holes: {holes}",
        )
    )


def _player_state(lake: Lake, player: Cell) -> str:
    if player in lake.holes:
        return "in_hole"
    return "on_goal" if player == lake.goal else "player"


def _draw_tile(tile: np.ndarray, *, hole: bool, goal: bool, locked: bool, player: bool) -> None:
    """Paint one [TILE, TILE, 3] tile in place: ice with a rim, then what stands on it."""
    y, x = np.mgrid[:TILE, :TILE] - (TILE - 1) / 2
    tile[:] = (205, 228, 245)
    tile[-1, :] = tile[:, -1] = (160, 195, 220)
    if hole:
        tile[x**2 + y**2 < 6.5**2] = (25, 45, 85)
    if goal:
        tile[abs(x) + abs(y) < 7] = (150, 150, 150) if locked else (60, 160, 75)
    if player:
        tile[x**2 + y**2 < 4**2] = (205, 60, 50)
