"""REINFORCE without a critic, in four forms."""

from __future__ import annotations

from configs._change import change
from configs.algorithms._fields import algorithm
from ragen_jax.config.schema import Config


def reinforce(config: Config) -> Config:
    """Reward minus the mean of the group; mean over rows of token means."""
    return change(config, algorithm=algorithm(advantage="reinforce", aggregation="seq-mean-token-mean"))


def rloo(config: Config) -> Config:
    """Reward minus the mean of the other rollouts of the group (leave one out); mean over rows of token means."""
    return change(config, algorithm=algorithm(advantage="rloo", aggregation="seq-mean-token-mean"))


def reinforce_plus_plus(config: Config) -> Config:
    """Discounted rewards to go, whitened over the batch; token mean. It compares no group."""
    return change(config, algorithm=algorithm(advantage="reinforce_plus_plus", aggregation="token-mean"))


def reinforce_plus_plus_baseline(config: Config) -> Config:
    """Reward minus the mean of the group, whitened over the batch; token mean."""
    return change(config, algorithm=algorithm(advantage="reinforce_plus_plus_baseline", aggregation="token-mean"))
