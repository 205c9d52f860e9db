"""PPO."""

from __future__ import annotations

from configs._change import change
from ragen_jax.config.schema import Config


def ppo(config: Config) -> Config:
    """Token-level advantages from a critic (GAE, gamma = lambda = 1), whitened; token mean (RAGEN-2 appendix B.2)."""
    return change(
        config,
        algorithm={
            "advantage": "gae",
            "normalize_by_std": True,
            "gamma": 1.0,
            "lam": 1.0,
            "whiten": True,
            "clip_low": 0.2,
            "clip_high": 0.28,
            "aggregation": "token-mean",
        },
    )
