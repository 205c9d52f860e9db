"""What all filter rules share: options, the check of scores, the prefix of a ranking and the result."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import chex
import jax
import jax.numpy as jnp

from ragen_jax.core.checks import PROMPTS, refuse_empty, refuse_non_finite
from ragen_jax.core.ranking import descending_rank
from ragen_jax.types import Array, FilterResult

Mass = Literal["linear", "softmax", "count"]
LossScale = Literal["none", "linear", "sqrt", "rho"]
ROUNDING = 1e-6  # relative float32 rounding of a sum of scores; no set depends on less than this


class FilterOptions(NamedTuple):
    """Options of :func:`ragen_jax.core.filters.select`; a rule reads those it knows.

    Attributes:
      value: the rule's number (rho, fraction, count, threshold or quartile).
      include_zero: let flat prompts take part.
      slack: absolute slack on the mass threshold, in units of the score.
      mass: how scores become mass.
      loss_scale: factor on the actor loss after filtering.
    """

    value: float
    include_zero: bool = False
    slack: float = 0.0
    mass: Mass = "linear"
    loss_scale: LossScale = "none"


def check_scores(scores: Array, *, non_negative: bool) -> None:
    """Refuse scores that no rule can rank.

    Values are checked on concrete arrays. Inside jit they are unknown: call this on the host before.

    Args:
      scores: [P].
      non_negative: the rule reads scores as mass or as shares of the largest.

    Raises:
      ValueError: no prompt, or a score that is NaN or infinite, or negative where that has no meaning; named.
    """
    chex.assert_rank(scores, 1)
    refuse_empty(scores, axes=PROMPTS)
    if isinstance(scores, jax.core.Tracer):
        return
    refuse_non_finite("score", scores, axes=PROMPTS, fix="drop rows with broken rewards before filtering")
    negative = [index for index, score in enumerate(jax.device_get(scores).tolist()) if score < 0]
    if non_negative and negative:
        raise ValueError(
            f"score of prompt {negative[0]} is {scores[negative[0]]}; a rule on mass needs scores of at least 0, "
            "such as the reward variance; use top_k for signed scores"
        )


def check_share(name: str, value: float) -> None:
    """Raise ValueError for a share outside (0, 1]."""
    if not 0 < value <= 1:
        raise ValueError(f"{name}={value} must lie in (0, 1]")


def candidates(scores: Array, flat: Array | None, *, include_zero: bool) -> jax.Array:
    """Prompts that may be kept, [P] bool: all of them, or those that are not flat.

    Args:
      scores: [P].
      flat: [P] bool from ``core.is_flat``; by default a score of exactly 0 marks a flat prompt, which holds for
        ``group_variance`` and ``group_std``.
      include_zero: let flat prompts take part.
    """
    if include_zero:
        return jnp.ones(scores.shape, bool)
    if flat is None:
        return jnp.asarray(scores) != 0
    chex.assert_equal_shape([scores, flat])
    return ~jnp.asarray(flat, bool)


def smallest_prefix(order_by: Array, mass: Array, among: Array, *, share: float, slack: float) -> jax.Array:
    """Smallest prefix, in descending ``order_by``, whose mass reaches ``share`` of the total minus the slack.

    A prompt is kept while the mass before it is below the threshold. The threshold gives way by a relative rounding
    of 1e-6 of the total, so that 0.4 + 0.3 + 0.2 reaches 0.9 in float32.

    Args:
      order_by: [P], larger first, ties in prompt order (``core.ranking``).
      mass: [P], at least 0.
      among: [P] bool, prompts that take part.
      share: of the total mass, in (0, 1].
      slack: in units of the mass.

    Returns:
      keep, [P] bool; empty when the mass is 0 or not above the slack.
    """
    rank = descending_rank(order_by, among)
    ordered = jnp.zeros_like(mass).at[rank].set(jnp.where(among, mass, 0.0))
    cumulative = jnp.cumsum(ordered)
    threshold = (share - ROUNDING) * cumulative[-1] - slack
    before = cumulative - ordered
    return (before < threshold)[rank] & among


def trained_rows(result: FilterResult, valid: Array) -> Array:
    """Rollouts that are trained: valid ones of kept groups, those that a filter inside the groups left in.

    Args:
      result: of the filter.
      valid: [P, G] bool.

    Returns:
      [P, G] bool, NumPy where both arguments are.
    """
    chex.assert_rank([result.keep, valid], [1, 2])
    chex.assert_equal_shape_prefix([result.keep, valid], 1)
    rows = valid & result.keep[:, None]
    return rows if result.row_keep is None else rows & result.row_keep


def build_result(keep: jax.Array, scores: Array, *, loss_scale: LossScale, rho: float | None = None) -> FilterResult:
    """Fill in counts, mass and loss scale.

    Loss scale: "none" is 1, "linear" the kept ratio, "sqrt" its square root, "rho" the rule's own share.

    Args:
      keep: [P] bool.
      scores: [P].
      loss_scale: one of the four names.
      rho: share of the mass that the rule keeps; None for rules that keep no such share.

    Raises:
      ValueError: unknown loss scale, or "rho" for a rule without one.
    """
    if loss_scale not in get_args(LossScale):
        raise ValueError(f"unknown loss_scale {loss_scale!r}; use one of {', '.join(get_args(LossScale))}")
    if loss_scale == "rho" and rho is None:
        raise ValueError("loss_scale='rho' needs a rule that keeps a share of the mass, such as top_p; use 'linear'")
    scores = jnp.asarray(scores, jnp.float32)
    count = jnp.sum(keep.astype(jnp.int32))
    ratio = count.astype(jnp.float32) / keep.shape[0]
    total = jnp.sum(scores)
    mass = jnp.sum(jnp.where(keep, scores, 0.0)) / jnp.where(total > 0, total, 1.0)
    scale = {"none": jnp.ones_like(ratio), "linear": ratio, "sqrt": jnp.sqrt(ratio)}
    if rho is not None:
        scale["rho"] = jnp.full_like(ratio, rho)
    return FilterResult(
        keep=keep,
        scores=scores,
        kept_count=count,
        kept_mass=jnp.where(total > 0, mass, 0.0),
        loss_scale=scale[loss_scale],
    )
