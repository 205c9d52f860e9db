"""Prompt filters: which prompts of a batch are worth an update.

To add a rule: write ``rule(scores, flat, options) -> FilterResult`` in a file of its own and name it in ``FILTERS``.
"""

from __future__ import annotations

import chex

from ragen_jax.core.filters.keep_all import keep_all
from ragen_jax.core.filters.min_p import min_p
from ragen_jax.core.filters.nonzero import nonzero
from ragen_jax.core.filters.quartile import quartile
from ragen_jax.core.filters.readings import READINGS, Reading, top_p_by_reading
from ragen_jax.core.filters.result import FilterOptions, LossScale, Mass, check_scores
from ragen_jax.core.filters.reverse_top_p import reverse_top_p
from ragen_jax.core.filters.top_k import top_k, top_k_count
from ragen_jax.core.filters.top_p import top_p
from ragen_jax.core.filters.trajectory import best_and_worst
from ragen_jax.core.replayed_variance import replayed_variance, signal_variance
from ragen_jax.registry import Registry
from ragen_jax.types import Array, FilterResult

FILTERS = Registry(
    "filter",
    (
        ("none", "ragen_jax.core.filters.keep_all:rule"),
        ("top_p", "ragen_jax.core.filters.top_p:rule"),
        ("reverse_top_p", "ragen_jax.core.filters.reverse_top_p:rule"),
        ("top_k", "ragen_jax.core.filters.top_k:fraction_rule"),
        ("top_k_count", "ragen_jax.core.filters.top_k:count_rule"),
        ("min_p", "ragen_jax.core.filters.min_p:rule"),
        ("quartile", "ragen_jax.core.filters.quartile:rule"),
        ("nonzero", "ragen_jax.core.filters.nonzero:rule"),
    ),
)

__all__ = [
    "FILTERS",
    "READINGS",
    "FilterOptions",
    "LossScale",
    "Mass",
    "Reading",
    "best_and_worst",
    "check_scores",
    "keep_all",
    "min_p",
    "needs_non_negative",
    "nonzero",
    "quartile",
    "replayed_variance",
    "reverse_top_p",
    "select",
    "signal_variance",
    "top_k",
    "top_k_count",
    "top_p",
    "top_p_by_reading",
]


def needs_non_negative(rule: str, mass: Mass = "linear") -> bool:
    """True when a rule reads scores as mass or as shares of the largest, so that a negative one has no meaning."""
    return rule in ("reverse_top_p", "min_p") or (rule == "top_p" and mass == "linear")


def select(
    scores: Array,
    flat: Array,
    *,
    rule: str,
    value: float,
    include_zero: bool = False,
    slack: float = 0.0,
    mass: Mass = "linear",
    loss_scale: LossScale = "none",
) -> FilterResult:
    """Apply a rule by name, as the training step does.

    Args:
      scores: [P], for example the reward variance of each group.
      flat: [P] bool, groups whose rewards are all equal (``core.is_flat``).
      rule: a key of ``FILTERS``.
      value: the rule's number: rho, fraction, count, threshold or quartile.
      include_zero: let flat prompts take part, where the rule leaves that open.
      slack: absolute slack on the mass threshold, in units of the score; mass rules only.
      mass: "linear", "softmax" or "count"; ``top_p`` only.
      loss_scale: "none", "linear", "sqrt" or "rho".

    Returns:
      What the rule kept.

    Raises:
      KeyError: unknown rule.
      ValueError: what the rule itself refuses.
    """
    chex.assert_rank([scores, flat], 1)
    chex.assert_equal_shape([scores, flat])
    options = FilterOptions(value=value, include_zero=include_zero, slack=slack, mass=mass, loss_scale=loss_scale)
    result: FilterResult = FILTERS[rule](scores, flat, options)
    return result
