"""DAPO."""

from __future__ import annotations

import dataclasses

from configs._change import change
from configs.algorithms._fields import algorithm
from ragen_jax.config.schema import Config, FilterSection


def dapo(config: Config) -> Config:
    """All of DAPO: group-relative advantages, decoupled clip, token-level loss, dynamic sampling, overlong shaping.

    Clip 0.2 below and 0.28 above, no KL. The loss is the mean over the tokens of the whole optimiser batch. Up to 8
    batches are sampled until P groups stand whose bare returns differ. Replies that enter the last fifth of their
    budget are penalised, up to 1 when they fill it; that penalty shapes rewards and decides about no group. Sizes that
    depend on the budget are taken from the configuration to the left, so put this after the environment.

    A filter preset after this one replaces the rule and ends dynamic sampling.
    """
    config = dataclasses.replace(
        config, filter=FilterSection(rule="nonzero", refill=True, max_attempts=8, count_penalty=False)
    )
    return change(
        config,
        algorithm=algorithm(advantage="grpo", clip_low=0.2, clip_high=0.28, aggregation="token-mean")
        | {"kl_coef": 0.0, "normalizer": "kept"},
        reward={"overlong_buffer": max(config.rollout.max_new_tokens // 5, 1), "overlong_penalty": 1.0},
    )
