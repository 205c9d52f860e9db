"""Sokoban: push boxes onto targets, in generated rooms or in levels from a file."""

from __future__ import annotations

from ragen_jax.envs.sokoban.config import SokobanConfig
from ragen_jax.envs.sokoban.env import Sokoban
from ragen_jax.envs.sokoban.rules import Puzzle, Room

__all__ = ["Puzzle", "Room", "Sokoban", "SokobanConfig"]
