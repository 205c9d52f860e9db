"""Collapse estimators by name: ``estimate(scores) -> {metric: scalar}``, measured beside ``collapse_metrics``.

To add one: write such a function in a file of its own and name it in ``ESTIMATORS``. Names carry their unit and must
differ from those of ``collapse_metrics``.
"""

from __future__ import annotations

import jax

from ragen_jax.core.intervals import batch_mi_interval
from ragen_jax.core.null import wrong_prompt_mi
from ragen_jax.registry import Registry
from ragen_jax.types import CrossScores

ESTIMATORS = Registry(
    "collapse estimator",
    (
        ("batch_interval", "ragen_jax.core.estimators:batch_interval"),
        ("wrong_prompt", "ragen_jax.core.estimators:wrong_prompt"),
    ),
)


def batch_interval(scores: CrossScores) -> dict[str, jax.Array]:
    """Ends of the 95 % interval of the MI estimate for these prompts (``core.batch_mi_interval``).

    Args:
      scores: cross scores, [C, G, C].

    Returns:
      ``mi_sequence_low_nats`` and ``mi_sequence_high_nats``, nats per sequence.
    """
    interval = batch_mi_interval(scores)
    return {"mi_sequence_low_nats": interval.low, "mi_sequence_high_nats": interval.high}


def wrong_prompt(scores: CrossScores) -> dict[str, jax.Array]:
    """The MI estimate when every reasoning is matched with a wrong prompt (``core.wrong_prompt_mi``).

    Args:
      scores: cross scores, [C, G, C].

    Returns:
      ``wrong_prompt_mi_sequence_nats``, nats per sequence.
    """
    return {"wrong_prompt_mi_sequence_nats": wrong_prompt_mi(scores)}
