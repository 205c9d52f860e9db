"""Prompt filters. They keep what an earlier preset says about the penalty, attempts and empty batches.

``top_p`` leaves score, mass, slack and loss scale to the provenance preset too; every other preset here names its rule
whole, so that it means the same after any of them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from configs._change import change
from ragen_jax.config.schema import Config, FilterSection

_DEFAULT = FilterSection()


def no_filter(config: Config) -> Config:
    """Train on every prompt."""
    return dataclasses.replace(config, filter=FilterSection())


def top_p(config: Config) -> Config:
    """Keep the prompts that hold 90 % of the reward variance of the batch (RAGEN-2 section 3.3)."""
    return change(config, filter={"rule": "top_p", "value": 0.9, "refill": False})


def top_p_variance(config: Config) -> Config:
    """90 % of the summed variances: what the paper's text says."""
    return _rule(config, "top_p", 0.9)


def top_p_std(config: Config) -> Config:
    """90 % of the summed standard deviations: what the released code adds up by default; keeps more prompts."""
    return _rule(config, "top_p", 0.9, score="reward_std")


def top_p_softmax_std(config: Config) -> Config:
    """90 % of a softmax over standard deviations: the released main-table script; depends on the reward scale."""
    return _rule(config, "top_p", 0.9, score="reward_std", mass="softmax")


def top_p_prompt_fraction(config: Config) -> Config:
    """The best 90 % of the prompts that are not flat, by variance."""
    return _rule(config, "top_p", 0.9, mass="count")


def reverse_top_p(config: Config) -> Config:
    """Diagnostic: 90 % of the variance, least first, which leaves the most instructive prompts out."""
    return _rule(config, "reverse_top_p", 0.9)


def top_k25(config: Config) -> Config:
    """The quarter of the prompts with the largest variance, flat ones never."""
    return _rule(config, "top_k", 0.25)


def min_p(config: Config) -> Config:
    """Prompts with at least half of the largest variance."""
    return _rule(config, "min_p", 0.5)


def nonzero(config: Config) -> Config:
    """Every prompt that is not flat: DAPO's rule."""
    return _rule(config, "nonzero", _DEFAULT.value)


def quartile_1(config: Config) -> Config:
    """Diagnostic: the quarter with the largest variance."""
    return _rule(config, "quartile", 1)


def quartile_2(config: Config) -> Config:
    """Diagnostic: the second quarter by variance."""
    return _rule(config, "quartile", 2)


def quartile_3(config: Config) -> Config:
    """Diagnostic: the third quarter by variance."""
    return _rule(config, "quartile", 3)


def quartile_4(config: Config) -> Config:
    """Diagnostic: the quarter with the least variance."""
    return _rule(config, "quartile", 4)


def replayed_variance(config: Config) -> Config:
    """Top-p on the variance of replayed mean rewards: for noisy environments whose episodes have one turn."""
    return _rule(config, "top_p", 0.9, score="replayed_variance")


def best_and_worst_4(config: Config) -> Config:
    """Of every kept prompt, its four best and its four worst rollouts; which prompts are kept stays as it was."""
    return change(config, filter={"best_and_worst": 4})


def _rule(config: Config, rule: str, value: float, **changes: Any) -> Config:
    """A rule with its own score and mass and no absolute slack.

    A loss scaled by rho stays so where the rule has a rho; other rules do not scale it.
    """
    section = config.filter
    mass_rule = rule in ("top_p", "reverse_top_p")
    kept_scale = section.loss_scale if mass_rule or section.loss_scale != "rho" else "none"
    whole = {
        "rule": rule,
        "value": value,
        "refill": False,
        "score": _DEFAULT.score,
        "mass": _DEFAULT.mass,
        "slack": _DEFAULT.slack,
        "include_zero": _DEFAULT.include_zero,
        "loss_scale": kept_scale,
        "loss_scale_target": section.loss_scale_target if kept_scale != "none" else _DEFAULT.loss_scale_target,
    }
    return change(config, filter=whole | changes)
