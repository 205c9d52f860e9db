"""Dr. GRPO."""

from __future__ import annotations

from configs._change import change
from configs.algorithms._fields import algorithm
from ragen_jax.config.schema import Config


def dr_grpo(config: Config) -> Config:
    """Group-relative advantages without the standard deviation; token sums over a constant length.

    The constant keeps the scale of the loss near that of a mean (a bare token sum is larger by the row length).
    """
    changes = algorithm(advantage="grpo", normalize_by_std=False, aggregation="seq-mean-token-sum-norm")
    return change(config, algorithm=changes)
