"""Dr. GRPO."""

from __future__ import annotations

from configs._change import change
from ragen_jax.config.schema import Config


def dr_grpo(config: Config) -> Config:
    """Group-relative advantages without the standard deviation; token sums over a constant length.

    The constant keeps the scale of the loss near that of a mean (a bare token sum is larger by the row length).
    """
    return change(
        config,
        algorithm={
            "advantage": "grpo",
            "normalize_by_std": False,
            "gamma": 1.0,
            "lam": 1.0,
            "clip_low": 0.2,
            "clip_high": 0.28,
            "aggregation": "seq-mean-token-sum-norm",
        },
    )
