"""Sudoku: fill a grid whose clues leave one solution."""

from __future__ import annotations

from ragen_jax.envs.sudoku.env import Sudoku, SudokuConfig

__all__ = ["Sudoku", "SudokuConfig"]
