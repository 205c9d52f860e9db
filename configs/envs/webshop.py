"""WebShop."""

from __future__ import annotations

from configs._change import change, use_env
from ragen_jax.config.schema import Config


def webshop(config: Config) -> Config:
    """A shop of a thousand products, 9 turns of one action; our own catalogue where no folder holds the WebShop files.

    Pages are long and rows differ in length, so buckets are wide: one program serves many rows.
    """
    config = use_env(config, "webshop", dataset="small", max_turns=9, max_actions_per_turn=1, max_actions=9)
    return _size(config)


def webshop_full(config: Config) -> Config:
    """The full WebShop catalogue, which the user brings, 15 turns of one action."""
    config = use_env(config, "webshop", dataset="full", max_turns=15, max_actions_per_turn=1, max_actions=15)
    return _size(config)


def _size(config: Config) -> Config:
    return change(
        config,
        rollout={
            "prompts": 16,
            "group_size": 8,
            "max_new_tokens": 400,
            "max_context": 15_000,
            "length_bucket": 1024,
            "observation_bucket": 256,
        },
        validation={"prompts": 256, "samples": 1},
    )
