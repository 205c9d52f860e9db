"""SearchQA."""

from __future__ import annotations

from configs._change import change, use_env
from ragen_jax.config.schema import Config


def search_qa(config: Config) -> Config:
    """Questions of two hops over the embedded passages, 5 turns of one search or answer, 16 groups of 8.

    The embedded names are invented, so nothing but a search helps. Five passages are several hundred tokens, so rows
    are longer than elsewhere, and three results are enough: the evidence is nearly always the first.
    """
    config = use_env(config, "search_qa", max_results=3, max_turns=5, max_actions_per_turn=1, max_actions=5)
    return change(
        config,
        rollout={"prompts": 16, "group_size": 8, "max_new_tokens": 400, "max_context": 5000, "observation_bucket": 128},
        validation={"prompts": 256},
    )
