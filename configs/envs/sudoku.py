"""Sudoku."""

from __future__ import annotations

from configs._change import paper_size, use_env
from ragen_jax.config.schema import Config


def sudoku(config: Config) -> Config:
    """4x4 grids with 8 empty cells, 5 replies of up to 4 placements."""
    config = use_env(config, "sudoku", size=4, max_turns=5, max_actions_per_turn=4, max_actions=20)
    return paper_size(config, max_new_tokens=400, max_context=3600)
