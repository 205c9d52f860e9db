"""PPO."""

from __future__ import annotations

from configs._change import change
from configs.algorithms._fields import algorithm
from ragen_jax.config.schema import Config


def ppo(config: Config) -> Config:
    """Token-level advantages from a critic (GAE, gamma = lambda = 1), whitened; token mean (RAGEN-2 appendix B.2)."""
    return change(config, algorithm=algorithm(advantage="gae", aggregation="token-mean"))


def ppo_bi_level(config: Config) -> Config:
    """PPO with the bi-level GAE: a discount of 0.95 per turn and none per token."""
    return change(config, algorithm=algorithm(advantage="bi_level_gae", turn_gamma=0.95, aggregation="token-mean"))
