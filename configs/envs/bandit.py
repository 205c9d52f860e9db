"""Bandit."""

from __future__ import annotations

from configs._change import change, paper_size, tiny_run, use_env
from ragen_jax.config.schema import Config


def bandit(config: Config) -> Config:
    """Two arms whose names hint at their rewards, one pull."""
    config = use_env(config, "bandit", max_turns=1, max_actions_per_turn=1, max_actions=1)
    return paper_size(config, max_new_tokens=500, max_context=3600)


def bandit_tiny(config: Config) -> Config:
    """The bandit for a tiny policy: a smoke test, since only a few dozen prompts exist."""
    config = use_env(
        config, "bandit", instructions="terse", choose_by="letter", max_turns=1, max_actions_per_turn=1, max_actions=1
    )
    config = tiny_run(config, warm_start="bandit_tiny", turns=1, max_new_tokens=48)
    return change(config, algorithm={"entropy_coef": 0.005}, optim={"lr": 3e-4})
