"""Games of gymnax."""

from __future__ import annotations

from configs._change import paper_size, use_env
from ragen_jax.config.schema import Config


def gymnax_four_rooms(config: Config) -> Config:
    """Four rooms, 6 replies of up to 5 moves."""
    config = use_env(config, "gymnax_four_rooms", max_turns=6, max_actions_per_turn=5, max_actions=30)
    return paper_size(config, max_new_tokens=300, max_context=6000)


def gymnax_cart_pole(config: Config) -> Config:
    """A pole kept upright for one second: 50 pushes, 15 replies of up to 5."""
    config = use_env(config, "gymnax_cart_pole", max_turns=15, max_actions_per_turn=5, max_actions=50)
    return paper_size(config, max_new_tokens=300, max_context=6000)
