"""Collapse estimators by name: ``estimate(scores) -> {metric: scalar}``, measured beside ``collapse_metrics``.

An estimator whose answer may be unknown says NaN, and names the metric in ``MAY_BE_UNKNOWN``: it is then not logged.

To add one: write such a function in a file of its own and name it in ``ESTIMATORS``. Names carry their unit and must
differ from those of ``collapse_metrics``.
"""

from __future__ import annotations

import jax

from ragen_jax.core.collapse import column_sampling_std_error, mi_bounds
from ragen_jax.core.intervals import batch_mi_interval, conditional_entropy_interval
from ragen_jax.core.null import wrong_prompt_mi
from ragen_jax.registry import Registry
from ragen_jax.types import CrossScores

ESTIMATORS = Registry(
    "collapse estimator",
    (
        ("batch_interval", "ragen_jax.core.estimators:batch_interval"),
        ("entropy_interval", "ragen_jax.core.estimators:entropy_interval"),
        ("unscored_bounds", "ragen_jax.core.estimators:unscored_bounds"),
        ("sampled_columns", "ragen_jax.core.estimators:sampled_columns"),
        ("wrong_prompt", "ragen_jax.core.estimators:wrong_prompt"),
    ),
)

MAY_BE_UNKNOWN = (
    "mi_sequence_low_nats",
    "mi_sequence_high_nats",
    "conditional_entropy_token_low_nats",
    "conditional_entropy_token_high_nats",
)


def batch_interval(scores: CrossScores) -> dict[str, jax.Array]:
    """Ends of the 95 % interval of the MI estimate for these prompts (``core.batch_mi_interval``).

    Args:
      scores: cross scores, [C, G, S].

    Returns:
      ``mi_sequence_low_nats`` and ``mi_sequence_high_nats``, nats per sequence; NaN where no prompt has two scored
      rollouts.
    """
    interval = batch_mi_interval(scores)
    return {"mi_sequence_low_nats": interval.low, "mi_sequence_high_nats": interval.high}


def entropy_interval(scores: CrossScores) -> dict[str, jax.Array]:
    """Ends of the 95 % interval of H(Z|X) for these prompts (``core.conditional_entropy_interval``).

    Args:
      scores: cross scores, [C, G, S].

    Returns:
      ``conditional_entropy_token_low_nats`` and ``conditional_entropy_token_high_nats``, nats per token; NaN
      where no prompt has two scored rollouts.
    """
    interval = conditional_entropy_interval(scores)
    return {
        "conditional_entropy_token_low_nats": interval.low,
        "conditional_entropy_token_high_nats": interval.high,
    }


def unscored_bounds(scores: CrossScores) -> dict[str, jax.Array]:
    """The MI estimate over all rows, if the unscored said nothing and if they said everything (``core.mi_bounds``).

    Args:
      scores: cross scores, [C, G, S].

    Returns:
      ``mi_sequence_unscored_silent_nats`` and ``mi_sequence_unscored_identifying_nats``, nats per sequence.
    """
    bounds = mi_bounds(scores)
    return {
        "mi_sequence_unscored_silent_nats": bounds.silent,
        "mi_sequence_unscored_identifying_nats": bounds.identifying,
    }


def sampled_columns(scores: CrossScores) -> dict[str, jax.Array]:
    """Standard error of the MI estimate from the draw of columns (``core.column_sampling_std_error``), 0 without one.

    Args:
      scores: cross scores, [C, G, S].

    Returns:
      ``mi_sequence_sampled_columns_se_nats``, nats per sequence.
    """
    return {"mi_sequence_sampled_columns_se_nats": column_sampling_std_error(scores)}


def wrong_prompt(scores: CrossScores) -> dict[str, jax.Array]:
    """The MI estimate when every reasoning is matched with a wrong prompt (``core.wrong_prompt_mi``).

    Args:
      scores: cross scores, [C, G, S].

    Returns:
      ``wrong_prompt_mi_sequence_nats``, nats per sequence.
    """
    return {"wrong_prompt_mi_sequence_nats": wrong_prompt_mi(scores)}
