"""The 2x2 Rubik's cube."""

from __future__ import annotations

from configs._change import paper_size, use_env
from ragen_jax.config.schema import Config


def rubik(config: Config) -> Config:
    """Scrambles of one to five quarter turns, 5 replies of up to 4 turns."""
    config = use_env(
        config, "rubik", min_distance=1, max_distance=5, max_turns=5, max_actions_per_turn=4, max_actions=20
    )
    return paper_size(config, max_new_tokens=400, max_context=3600)
