r"""Does the reasoning still depend on the prompt? Estimators of RAGEN-2 section 2.3 and Table 1.

All of them read cross scores ``S[i,k,j] = log p(z_ik | x_j)`` in nats per sequence:

    matched    log p(z_ik | x_i)
    marginal   log (1/C) sum_j p(z_ik | x_j)
    I          mean(matched - marginal)       at most ln C
    H(Z|X)     -mean(matched)
    H(Z)       -mean(marginal) = I + H(Z|X)

Columns with the same context (equal ``column_class``) are one column with weight m / C. Means run over scored
reasonings, every reasoning with the same weight. Outside jit, a valid row with a log-prob that is NaN or infinite is a
ValueError that names it; inside jit values are unknown and it spreads.

Scores under S sampled columns (``CrossScores.columns``) go through the same formulas with the estimated marginal

    log [ m_i / C * p(z_ik | x_i) + (1 - m_i / C) * sum_c m_c p(z_ik | x_c) / sum_c m_c ]

where m_i is the number of columns of the own class and c runs over the drawn classes other than that. The own weight is
known, so no estimate exceeds its ceiling. With classes of one size the probability in the brackets is unbiased, else
consistent; its logarithm is not: the information estimate is too high on average, by half the relative variance of the
probability. It is exact when all classes were drawn. :func:`column_sampling_std_error` says how far the draw may have
moved it.
"""

from __future__ import annotations

import functools
from typing import Literal, NamedTuple, get_args

import chex
import jax
import jax.numpy as jnp

from ragen_jax.core.columns import (
    check_cross_scores,
    class_sizes,
    columns_of,
    finite_log_probs,
    gain_over_mixture,
    matched_score,
    other_columns,
    stands_for_class,
)
from ragen_jax.core.masking import full_mask, masked_mean, masked_sum, masked_var
from ragen_jax.core.moving_average import empty_moving_average, update_moving_average
from ragen_jax.types import Array, CollapseState, CrossScores

Mix = Literal["sequence", "per_token"]
RETRIEVAL_KS = (1, 2, 4, 8)
_TINY = 1e-30  # least mixture relative to the best column; keeps the logarithm of an empty one finite


def matched_and_marginal(scores: CrossScores, *, mix: Mix = "sequence") -> tuple[jax.Array, jax.Array]:
    """Log-prob of each reasoning under its own prompt and under the uniform mixture of all prompts.

    Args:
      scores: cross scores, [C, G, S].
      mix: "sequence" mixes the sums of log-probs (the paper's definition). "per_token" first divides each score by
        the length of the reasoning and mixes those (the released code's variant).

    Returns:
      matched and marginal, each [C, G] float32: nats per sequence for "sequence", nats per token for "per_token".
      Rows that are not valid hold 0.

    Raises:
      ValueError: unknown mix.

    >>> scores = CrossScores(log_probs=jnp.array([[[-1.0, -2.0]], [[-2.0, -1.0]]]), lengths=jnp.ones((2, 1), int),
    ...                      valid=jnp.ones((2, 1), bool), column_class=jnp.arange(2))
    >>> matched, marginal = matched_and_marginal(scores)
    >>> round(float((matched - marginal)[0, 0]), 4)
    0.3799
    """
    matched, gain = _matched_and_gain(scores, mix=mix)
    return matched, matched - gain


def retrieval_accuracy(scores: CrossScores, *, k: int = 1) -> tuple[jax.Array, jax.Array]:
    """Share of reasonings whose own prompt is among the k prompts that explain them best, and its chance level.

    Columns are compared with the matched score and counted, not sorted: with g columns strictly better, t other columns
    equal and m columns of the own class, a random order of the equals puts the own class into the first k with
    probability ``1 - C(t, r) / C(t + m, r)``, ``r = k - g``. Chance is the same number for C identical columns,
    ``1 - C(C - m, k) / C(C, k)``; so identical columns give exactly chance. Under sampled columns the S that were
    scored compete, and m counts those of the own class among them: chance is higher, 1 / S instead of 1 / C.

    Args:
      scores: cross scores, [C, G, S].
      k: how many best columns count; more than S counts as S.

    Returns:
      accuracy [] and chance [], means over valid rows; both 0 without a valid row.

    Raises:
      ValueError: k below 1.
    """
    return _retrieval(_compare_columns(scores), scores.valid, k=k)


class MiBounds(NamedTuple):
    """The information estimate over all rows under two assumptions about those that were not scored.

    Attributes:
      silent: [] nats per sequence, if an unscored row says nothing about its prompt (adds 0). No lower bound in
        general: a reasoning that fits other prompts better than its own would add a negative number, without limit.
      identifying: [] nats per sequence, if every unscored row identifies its prompt (adds -ln(m / C)). No reasoning
        adds more, so this is an upper bound.
    """

    silent: jax.Array
    identifying: jax.Array


def mi_bounds(scores: CrossScores) -> MiBounds:
    """What the information estimate would be, had the rows without closed reasoning been scored.

    The estimate itself is a mean over scored rows and says nothing about the others. Both bounds are means over all
    C * G rows, and meet at the estimate when every row is scored.

    Args:
      scores: cross scores, [C, G, S].

    Returns:
      Both ends, nats per sequence.
    """
    _, gain = _matched_and_gain(scores, mix="sequence")
    valid = jnp.asarray(scores.valid, bool)
    scored = jnp.where(valid, gain, 0.0)
    return MiBounds(silent=jnp.mean(scored), identifying=jnp.mean(jnp.where(valid, gain, _surprise(scores))))


def column_sampling_std_error(scores: CrossScores) -> jax.Array:
    """Standard error that the draw of the columns gives the information estimate: a jackknife over drawn classes.

    The rollouts of a prompt share its D drawn classes out of the K - 1 others, the draws of different prompts are
    independent. With g_is the mean log marginal of prompt i without drawn class s, prompt i adds
    ``(n_i / n)^2 (1 - D / (K - 1)) (D - 1) / D sum_s (g_is - mean)^2`` to the squared error; the second factor is that
    of sampling without replacement. It is a sample variance: where one class in many explains a reasoning and was not
    drawn, it is too small.

    Args:
      scores: cross scores, [C, G, S].

    Returns:
      [] nats per sequence; 0 when all columns, or columns of all classes, were scored.

    Raises:
      ValueError: fewer than two other columns, which show no spread.
    """
    check_cross_scores(scores)
    if scores.columns is None:
        return jnp.zeros((), jnp.float32)
    count, scored = scores.columns.shape
    if scored < 3:
        raise ValueError(f"{scored - 1} other column shows no spread; score under at least 3 columns")
    log_probs = finite_log_probs(scores)
    relative = jnp.exp(log_probs - jnp.max(log_probs, axis=2, keepdims=True))
    column_class, size = jnp.asarray(scores.column_class), class_sizes(scores)
    drawn = other_columns(scores) > 0
    mass = jnp.where(drawn, size[jnp.asarray(scores.columns)], 0.0)[:, None, :]
    part = mass * relative
    left = jnp.maximum(jnp.sum(part, axis=2, keepdims=True) - part, 0.0)
    left /= jnp.maximum(jnp.sum(mass, axis=2, keepdims=True) - mass, 1.0)
    own = size[:, None, None]
    without = jnp.log(jnp.maximum(own * relative[:, :, :1] + (count - own) * left, _TINY))
    valid = jnp.asarray(scores.valid, bool)
    replicates = masked_mean(without, jnp.broadcast_to(valid[:, :, None], without.shape), axis=1)
    centred = replicates - masked_mean(replicates, drawn, axis=1)[:, None]
    spread = masked_sum(jnp.square(centred), drawn, axis=1)
    rows = jnp.sum(valid.astype(jnp.float32), axis=1)
    share = rows / jnp.maximum(jnp.sum(rows), 1.0)
    classes, others = jnp.sum(stands_for_class(column_class)), jnp.sum(drawn, axis=1)
    missing = 1.0 - others / jnp.maximum(classes - 1.0, 1.0)
    return jnp.sqrt(jnp.sum(jnp.square(share) * missing * (others - 1.0) / jnp.maximum(others, 1) * spread))


def mi_zscore(
    matched: Array, marginal: Array, std: Array, *, std_eps: float = 1e-3, valid: Array | None = None
) -> jax.Array:
    """Mean of ``(matched - marginal) / (std + std_eps)`` (RAGEN-2 section 2.3).

    Args:
      matched: [C, G] nats per token.
      marginal: [C, G] nats per token.
      std: [] standard deviation of the marginal, of this batch or its moving average.
      std_eps: nats per token.
      valid: [C, G] bool, all rows by default.

    Returns:
      [] float32, without unit.
    """
    chex.assert_rank([matched, marginal, std], [2, 2, 0])
    chex.assert_equal_shape([matched, marginal])
    mask = full_mask(matched, valid)
    difference = jnp.asarray(matched, jnp.float32) - jnp.asarray(marginal, jnp.float32)
    return masked_mean(difference, mask) / (jnp.asarray(std, jnp.float32) + std_eps)


def collapse_metrics(
    scores: CrossScores,
    state: CollapseState | None = None,
    *,
    mix: Mix = "sequence",
    std_eps: float = 1e-3,
    ema_decay: float = 0.9,
) -> tuple[dict[str, jax.Array], CollapseState]:
    """All collapse metrics of one cross-scoring, and the moving average that goes with them.

    Names with ``_sequence`` always mix sequence sums. The token forms, their standard deviation and their z-scores
    follow ``mix``: "sequence" divides matched and marginal of each reasoning by its length, "per_token" mixes
    length-normalised scores. The ceiling is the mean over scored rows of -ln(m / C), so that it bounds the estimate
    also where rows are missing; with all rows scored it is the entropy of the class weights, ln C without duplicates.

    Args:
      scores: cross scores, [C, G, S].
      state: moving average from the last call; None starts a new one.
      mix: see :func:`matched_and_marginal`.
      std_eps: added to the standard deviation in the z-scores, nats per token or per sequence.
      ema_decay: decay of the moving averages.

    Returns:
      Scalars by name, and the next state. With no scored row ``scored`` is 0, every other metric but ``unscored`` and
      the moving averages is 0 too, and the state does not move.
    """
    check_cross_scores(scores)
    _check_mix(mix)
    state = empty_moving_average() if state is None else state
    valid = jnp.asarray(scores.valid, bool)
    length = jnp.maximum(jnp.asarray(scores.lengths, jnp.float32), 1.0)
    matched, gain = _matched_and_gain(scores, mix="sequence")
    if mix == "sequence":
        matched_token, gain_token = matched / length, gain / length
    else:
        matched_token, gain_token = _matched_and_gain(scores, mix="per_token")
    marginal, marginal_token = matched - gain, matched_token - gain_token
    zscore = functools.partial(mi_zscore, std_eps=std_eps, valid=valid)

    scored = jnp.sum(valid.astype(jnp.int32))
    std = jnp.sqrt(masked_var(marginal_token, valid))
    std_sequence = jnp.sqrt(masked_var(marginal, valid))
    moved = update_moving_average(state, std, std_sequence, decay=ema_decay)
    state = jax.tree.map(lambda new, old: jnp.where(scored > 0, new, old), moved, state)
    ema_std, ema_std_sequence = jnp.asarray(state.ema_std), jnp.asarray(state.ema_std_sequence)

    mi_sequence, mi_token = masked_mean(gain, valid), masked_mean(gain_token, valid)
    conditional_sequence = -masked_mean(matched, valid)
    conditional_token = -masked_mean(matched_token, valid)
    metrics = {
        "mi_sequence_nats": mi_sequence,
        "mi_sequence_ceiling_nats": _ceiling(scores),
        "mi_token_nats": mi_token,
        "conditional_entropy_sequence_nats": conditional_sequence,
        "conditional_entropy_token_nats": conditional_token,
        "reasoning_entropy_sequence_nats": mi_sequence + conditional_sequence,
        "reasoning_entropy_token_nats": mi_token + conditional_token,
        "matched_token_nats": -conditional_token,
        "marginal_token_nats": -(mi_token + conditional_token),
        "marginal_std_token_nats": std,
        "marginal_std_ema_token_nats": ema_std,
        "marginal_std_sequence_nats": std_sequence,
        "marginal_std_ema_sequence_nats": ema_std_sequence,
        "mi_zscore": zscore(matched_token, marginal_token, std),
        "mi_zscore_ema": zscore(matched_token, marginal_token, ema_std),
        "mi_zscore_sequence": zscore(matched, marginal, std_sequence),
        "mi_zscore_sequence_ema": zscore(matched, marginal, ema_std_sequence),
        "scored": scored,
        "unscored": valid.size - scored,
        "reasoning_length_tokens": masked_mean(scores.lengths, valid),
    }
    columns = _compare_columns(scores)
    for k in RETRIEVAL_KS:
        suffix = "" if k == 1 else f"@{k}"
        accuracy, chance = _retrieval(columns, valid, k=k)
        metrics[f"retrieval_accuracy{suffix}"] = accuracy
        metrics[f"retrieval_chance{suffix}"] = chance
    return metrics, state


class _ColumnCounts(NamedTuple):
    """Columns of other classes against the matched score, and those of the own class, each [C, G] float32; of S."""

    better: jax.Array
    equal: jax.Array
    own: jax.Array
    total: int


def _check_mix(mix: str) -> None:
    if mix not in get_args(Mix):
        raise ValueError(f"unknown mix {mix!r}; use 'sequence' or 'per_token'")


def _matched_and_gain(scores: CrossScores, *, mix: Mix) -> tuple[jax.Array, jax.Array]:
    """Matched and matched minus marginal, [C, G].

    The difference is formed before large numbers are added back: it is exactly 0 for identical columns, and a score
    of -1000 nats does not cost the difference its digits.
    """
    check_cross_scores(scores)
    _check_mix(mix)
    log_probs = finite_log_probs(scores)
    if mix == "per_token":
        log_probs = log_probs / jnp.maximum(jnp.asarray(scores.lengths, jnp.float32), 1.0)[:, :, None]
    columns = columns_of(scores)
    matched = matched_score(log_probs, columns.matched)
    return matched, gain_over_mixture(log_probs, matched, columns.weight)


def _ceiling(scores: CrossScores) -> jax.Array:
    return masked_mean(jnp.broadcast_to(_surprise(scores), scores.valid.shape), scores.valid)


def _surprise(scores: CrossScores) -> jax.Array:
    """-ln(m / C) of each prompt, [C, 1] nats: the most that one of its reasonings can add."""
    size = class_sizes(scores)
    return jnp.log(size.shape[0] / size)[:, None]


def _compare_columns(scores: CrossScores) -> _ColumnCounts:
    check_cross_scores(scores)
    log_probs = finite_log_probs(scores)
    columns = columns_of(scores)
    matched = matched_score(log_probs, columns.matched)[:, :, None]
    other = ~columns.own[:, None, :]
    own = jnp.sum(columns.own.astype(jnp.float32), axis=1)[:, None]
    return _ColumnCounts(
        better=jnp.sum((other & (log_probs > matched)).astype(jnp.float32), axis=2),
        equal=jnp.sum((other & (log_probs == matched)).astype(jnp.float32), axis=2),
        own=jnp.broadcast_to(own, scores.valid.shape),
        total=log_probs.shape[2],
    )


def _retrieval(columns: _ColumnCounts, valid: Array, *, k: int) -> tuple[jax.Array, jax.Array]:
    if k < 1:
        raise ValueError(f"k={k} must be at least 1")
    total = columns.total
    k = min(k, total)
    # One computation for both, so that identical columns give accuracy and chance the same rounding.
    others = jnp.stack([columns.equal, total - columns.own])
    draws = jnp.stack([k - columns.better, jnp.full_like(columns.own, k)])
    hit = hit_probability(others, jnp.stack([columns.own, columns.own]), draws, k=k)
    shares = masked_mean(hit, jnp.broadcast_to(jnp.asarray(valid, bool), hit.shape), axis=(1, 2))
    return shares[0], shares[1]


def hit_probability(others: jax.Array, own: jax.Array, draws: jax.Array, *, k: int) -> jax.Array:
    """``1 - C(others, draws) / C(others + own, draws)``: at least one own column among random draws without return."""
    miss = jnp.ones_like(own)
    for drawn in range(k):
        step = jnp.maximum(others - drawn, 0.0) / jnp.maximum(others + own - drawn, 1.0)
        miss = jnp.where(drawn < draws, miss * step, miss)
    return 1.0 - miss
