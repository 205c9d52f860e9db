"""DAPO."""

from __future__ import annotations

import dataclasses

from configs._change import change
from ragen_jax.config.schema import Config, FilterSection


def dapo(config: Config) -> Config:
    """Group-relative advantages, clip 0.2 below and 0.28 above, token mean, no KL, prompts without variance dropped.

    Dynamic sampling is present as its filter only: DAPO draws further prompts until the batch is full again, here the
    batch of that step is smaller. Put a filter preset after this one to replace the rule.
    """
    config = dataclasses.replace(config, filter=FilterSection(rule="nonzero"))
    return change(
        config,
        algorithm={
            "advantage": "grpo",
            "normalize_by_std": True,
            "gamma": 1.0,
            "lam": 1.0,
            "clip_low": 0.2,
            "clip_high": 0.28,
            "aggregation": "token-mean",
            "kl_coef": 0.0,
        },
    )
