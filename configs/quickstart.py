"""What the quickstart sets beside an environment and an algorithm."""

from __future__ import annotations

from configs._change import change
from ragen_jax.config.schema import Config


def quickstart(config: Config) -> Config:
    """Token-mean loss over all tokens of the rollout, in both arms alike; 512 validation episodes each 25 steps.

    The one-turn lake begins from the policy that ships with the package; the other tiny environments train theirs once.
    """
    bundled = config.model.warm_start == "frozen_lake_tiny"
    return change(
        config,
        steps=175,
        model={"init": "bundled"} if bundled else {},
        algorithm={"aggregation": "token-mean", "normalizer": "rollout"},
        # Prompts are ranked on what the environment paid. A filter that looks at the bare reward drops the groups whose
        # only spread is the format, so the penalty must be felt in the groups that stay.
        filter={"count_penalty": False},
        rollout={"format_penalty": -0.5},
        validation={"samples": 16, "every": 25},
    )
