"""2048."""

from __future__ import annotations

from configs._change import paper_size, use_env
from ragen_jax.config.schema import Config


def game_2048(config: Config) -> Config:
    """Tile 64 within 50 slides, 25 replies of up to two."""
    config = use_env(config, "game_2048", goal=64, max_turns=25, max_actions_per_turn=2, max_actions=50)
    return paper_size(config, max_new_tokens=200, max_context=8000)
