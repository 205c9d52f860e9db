"""MetaMathQA."""

from __future__ import annotations

from configs._change import paper_size, use_env
from ragen_jax.config.schema import Config


def metamathqa(config: Config) -> Config:
    """One attempt at a word problem, our own ones where no file of MetaMathQA lies in the data folder."""
    config = use_env(config, "metamathqa", max_turns=1, max_actions_per_turn=1, max_actions=1)
    return paper_size(config, max_new_tokens=400, max_context=3600)


def metamathqa_retry(config: Config) -> Config:
    """Five attempts, each worth half of the one before it."""
    config = use_env(config, "metamathqa_retry", max_turns=5, max_actions_per_turn=1, max_actions=5)
    return paper_size(config, max_new_tokens=400, max_context=3600)
