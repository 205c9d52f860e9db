"""GRPO."""

from __future__ import annotations

from configs._change import change
from configs.algorithms._fields import algorithm
from ragen_jax.config.schema import Config


def grpo(config: Config) -> Config:
    """Group-relative advantages divided by the group's standard deviation; mean over rows of token means.

    Every row weighs the same. A token mean would weigh long rows more, and in tasks whose failures are long it pushes
    the tokens that all rows share down on balance.
    """
    return change(config, algorithm=algorithm(advantage="grpo", aggregation="seq-mean-token-mean"))
