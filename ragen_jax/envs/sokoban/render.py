"""Drawing: own tiles of 16 pixels, made with NumPy."""

from __future__ import annotations

import numpy as np

from ragen_jax.envs.sokoban.rules import Room, State

TILE = 16

_FLOOR = (236, 232, 222)
_FLOOR_EDGE = (222, 216, 203)
_BRICK = (120, 92, 78)
_MORTAR = (168, 146, 132)
_TARGET = (200, 62, 54)
_WOOD = (196, 142, 78)
_WOOD_EDGE = (120, 80, 38)
_DONE = (96, 160, 92)
_DONE_EDGE = (52, 100, 54)
_PLAYER = (52, 92, 168)
_FACE = (244, 208, 172)

_ROW, _COLUMN = np.mgrid[0:TILE, 0:TILE]
_CENTRE = (TILE - 1) / 2


def render(room: Room, state: State) -> np.ndarray:
    """Image of a board, [16 height, 16 width, 3] uint8."""
    image = np.empty((room.height * TILE, room.width * TILE, 3), np.uint8)
    for cell in range(room.height * room.width):
        row, column = room.position(cell)
        image[row * TILE : (row + 1) * TILE, column * TILE : (column + 1) * TILE] = _tile(room, state, cell)
    return image


def _tile(room: Room, state: State, cell: int) -> np.ndarray:
    if room.walls >> cell & 1:
        return _wall()
    tile = np.full((TILE, TILE, 3), _FLOOR, np.uint8)
    tile[0, :] = tile[:, 0] = _FLOOR_EDGE
    on_target = bool(room.targets >> cell & 1)
    if on_target:
        tile[_disc(5.5) & ~_disc(3.5)] = _TARGET
    if state[1] >> cell & 1:
        tile[2:14, 2:14] = _DONE_EDGE if on_target else _WOOD_EDGE
        tile[3:13, 3:13] = _DONE if on_target else _WOOD
        inner = np.abs(_ROW - _CENTRE) < 5
        tile[inner & (np.abs(_ROW - _COLUMN) <= 1)] = _DONE_EDGE if on_target else _WOOD_EDGE
    if cell == state[0]:
        tile[_disc(4.5, row=10.5)] = _PLAYER
        tile[_disc(3.0, row=4.5)] = _FACE
    return tile


def _wall() -> np.ndarray:
    tile = np.full((TILE, TILE, 3), _BRICK, np.uint8)
    tile[3::4, :] = _MORTAR
    joints = np.where(_ROW // 4 % 2 == 0, _COLUMN % 8 == 7, _COLUMN % 8 == 3)
    tile[joints] = _MORTAR
    return tile


def _disc(radius: float, *, row: float = _CENTRE) -> np.ndarray:
    inside: np.ndarray = (_ROW - row) ** 2 + (_COLUMN - _CENTRE) ** 2 <= radius**2
    return inside
