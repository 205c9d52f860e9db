"""Which columns of the cross scores compete for a reasoning, and what each of them weighs.

Columns with the same context (equal ``column_class``) are one column with weight m / C. Under S sampled columns
(``CrossScores.columns``) the own class has weight m_i / C and the drawn other classes share the rest by their sizes.
"""

from __future__ import annotations

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from ragen_jax.core.checks import GROUPS, refuse_empty
from ragen_jax.types import Array, CrossScores


class Columns(NamedTuple):
    """What the columns of a row mean.

    Attributes:
      weight: [C or 1, S] float32, share of a column in the mixture times a whole number; 0 for all but one column of
        a class, which stands for them all.
      own: [C, S] bool, columns of the row's own class.
      matched: [C] int32, the column whose score is the matched one.
    """

    weight: jax.Array
    own: jax.Array
    matched: jax.Array


def check_cross_scores(scores: CrossScores) -> None:
    """Refuse cross scores whose shapes or columns do not fit, and (outside jit) valid ones that are not finite.

    Raises:
      ValueError: names what does not fit, or the first broken score.
    """
    chex.assert_rank([scores.log_probs, scores.lengths, scores.valid, scores.column_class], [3, 2, 2, 1])
    chex.assert_equal_shape([scores.lengths, scores.valid])
    refuse_empty(scores.valid, axes=GROUPS)
    columns = scores.column_class.shape[0]
    chex.assert_shape(scores.valid, (columns, None))
    if scores.columns is None:
        chex.assert_shape(scores.log_probs, (columns, scores.valid.shape[1], columns))
    else:
        chex.assert_shape(scores.columns, (columns, None))
        chex.assert_shape(scores.log_probs, (columns, scores.valid.shape[1], scores.columns.shape[1]))
        if scores.columns.shape[1] < 2:
            raise ValueError("scores.columns holds only the own column; a marginal needs at least one other")
        if not isinstance(scores.columns, jax.core.Tracer) and (scores.columns[:, 0] != jnp.arange(columns)).any():
            raise ValueError("scores.columns must hold the own column first: columns[i, 0] == i")
        _check_classes(scores.columns, scores.column_class)
    broken = jnp.asarray(scores.valid, bool)[:, :, None] & ~jnp.isfinite(jnp.asarray(scores.log_probs, jnp.float32))
    if not isinstance(broken, jax.core.Tracer) and broken.any():
        prompt, rollout, slot = (int(index[0]) for index in jnp.nonzero(broken))
        column = slot if scores.columns is None else int(scores.columns[prompt, slot])
        raise ValueError(
            f"log-prob of rollout {rollout} of prompt {prompt} under prompt {column} is "
            f"{scores.log_probs[prompt, rollout, slot]}; mark the rollout as not valid or repair the scorer"
        )


def refuse_sampled_columns(scores: CrossScores, purpose: str) -> None:
    """Raise the ValueError of functions that need every reasoning under every column."""
    if scores.columns is not None:
        raise ValueError(
            f"{purpose} needs every reasoning under all {scores.columns.shape[0]} columns, here are "
            f"{scores.columns.shape[1]} sampled ones; score without sampling (collapse.columns=0)"
        )


def columns_of(scores: CrossScores) -> Columns:
    """Weights and places of the columns of every row."""
    column_class = jnp.asarray(scores.column_class)
    if scores.columns is not None:
        columns = jnp.asarray(scores.columns, jnp.int32)
        count, size = columns.shape[0], class_sizes(scores)
        classes = column_class[columns]
        own = classes == column_class[:, None]
        others = jnp.where(stands_for_class(classes) & ~own, size[columns], 0.0)
        total = jnp.maximum(jnp.sum(others, axis=1, keepdims=True), 1.0)
        # m_i / C and (1 - m_i / C) m_c / sum m_c in whole numbers: equal columns mix to exactly their own score.
        weight = ((count - size)[:, None] * others).at[:, 0].set(size * total[:, 0])
        return Columns(weight=weight, own=own, matched=jnp.zeros(count, jnp.int32))
    same = column_class[:, None] == column_class[None, :]
    weight = jnp.where(stands_for_class(column_class), class_sizes(scores), 0.0)
    return Columns(weight=weight[None], own=same, matched=jnp.argmax(same, axis=1))


def class_sizes(scores: CrossScores) -> jax.Array:
    """Columns of each column's class, [C] float32."""
    column_class = jnp.asarray(scores.column_class)
    return jnp.sum((column_class[:, None] == column_class[None, :]).astype(jnp.float32), axis=1)


def other_columns(scores: CrossScores) -> jax.Array:
    """Weights of the columns of other classes in the mixture, [C, S] float32; one column stands for its class."""
    columns = columns_of(scores)
    return jnp.where(columns.own, 0.0, columns.weight)


def stands_for_class(classes: jax.Array) -> jax.Array:
    """True for the first of every class along the last axis, which stands for them all; bool, same shape."""
    same = classes[..., :, None] == classes[..., None, :]
    return jnp.argmax(same, axis=-1) == jnp.arange(classes.shape[-1])


def finite_log_probs(scores: CrossScores) -> jax.Array:
    """Scores [C, G, S] float32, 0 in rows that are not valid."""
    valid = jnp.asarray(scores.valid, bool)[:, :, None]
    return jnp.where(valid, jnp.asarray(scores.log_probs, jnp.float32), 0.0)


def matched_score(log_probs: jax.Array, matched: jax.Array) -> jax.Array:
    """The own column of every row: ``matched`` [C] picks from [C, G, S], the answer is [C, G]."""
    return jnp.take_along_axis(log_probs, matched[:, None, None], axis=2)[:, :, 0]


def gain_over_mixture(log_probs: jax.Array, matched: jax.Array, weight: jax.Array) -> jax.Array:
    """Matched minus the log of the weighted mean probability of the columns.

    Args:
      log_probs: [C, G, S] nats.
      matched: [C, G] nats.
      weight: [C or 1, S], at least 0, not all 0 in a row; columns of weight 0 are not read.

    Returns:
      [C, G] nats.
    """
    weight = weight[:, None, :]
    log_probs = jnp.where(weight > 0, log_probs, -jnp.inf)
    top = jnp.max(log_probs, axis=2)
    mixture = jnp.sum(weight * jnp.exp(log_probs - top[:, :, None]), axis=2) / jnp.sum(weight, axis=2)
    return matched - top - jnp.log(mixture)


def one_column_per_class(scores: CrossScores) -> jax.Array:
    """Scores with the first column of each class in place of the others, [C, G, C]; 0 in rows that are not valid.

    Equal contexts have equal scores but for the rounding of the network, and the estimators read one of them.
    """
    return finite_log_probs(scores)[:, :, columns_of(scores).matched]


def _check_classes(columns: Array, column_class: Array) -> None:
    """Refuse a draw that holds fewer other classes than it has room for: what they weigh would be unknown."""
    classes = jnp.asarray(column_class)[jnp.asarray(columns)]
    drawn = jnp.sum(stands_for_class(classes) & (classes != classes[:, :1]), axis=1)
    wanted = jnp.minimum(columns.shape[1] - 1, jnp.sum(stands_for_class(jnp.asarray(column_class))) - 1)
    if not isinstance(drawn, jax.core.Tracer) and (drawn < wanted).any():
        prompt = int((drawn < wanted).argmax())
        raise ValueError(
            f"the columns of prompt {prompt} are of {int(drawn[prompt])} other classes where {int(wanted)} have room; "
            "draw them with rollout.reasoning_pairs.draw_columns, which draws classes"
        )
