"""Which kind of policy is this? The collapse map (RAGEN-2 Figure 1) with uncertainty.

The paper names four regimes by high or low I(X;Z) and high or low H(Z|X). Two more are told apart here, since the four
would misname them: without valid reasoning there is nothing to measure, and a policy that has solved its task may well
be certain and short of words.

    format collapse       valid reasoning has vanished; nothing else is looked at
    diverse reasoning     high I, high H
    template collapse     low I, high H
    compressed reasoning  high I, low H
    low-entropy collapse  low I, low H
    converged             low I, low H, and the task is solved

High and low are shares of a scale: I over its ceiling, H over its value at the start of the run, validity and success
as they are. Every measure is an estimate with a standard error, so that "low" has a probability. A measure whose
standard error is NaN is unknown: it is as likely high as low, and no verdict rests on it.
"""

from __future__ import annotations

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from ragen_jax.core.intervals import Interval

REGIMES = (
    "diverse_reasoning",
    "template_collapse",
    "compressed_reasoning",
    "low_entropy_collapse",
    "format_collapse",
    "converged",
)
MEASURES = ("mutual_information", "entropy", "validity", "success")
UNCERTAIN = -1
NO_DRIVER = -1

# Measures that left their healthy side in each regime: [regime, measure].
_DEPARTED = (
    (False, False, False, False),
    (True, False, False, False),
    (False, True, False, False),
    (True, True, False, False),
    (False, False, True, False),
    (True, True, False, True),
)
# Measures that a regime depends on at all.
_DECIDES = (
    (True, True, True, False),
    (True, True, True, False),
    (True, True, True, False),
    (True, True, True, True),
    (False, False, True, False),
    (True, True, True, True),
)


class RegimeVerdict(NamedTuple):
    """Where a step stands on the map.

    Attributes:
      probabilities: [6] float32, of each of ``REGIMES``; they sum to 1.
      regime: [] int32, index into ``REGIMES``, or ``UNCERTAIN`` when none is probable enough.
      driver: [] int32, index into ``MEASURES``. Of a regime other than diverse reasoning: the measure that left its
        healthy side most clearly (for ``converged`` success counts as one of them). Of an uncertain step: the measure
        nearest to its threshold, in standard errors. ``NO_DRIVER`` for diverse reasoning.
    """

    probabilities: jax.Array
    regime: jax.Array
    driver: jax.Array


def classify_regime(
    *,
    mi_share: Interval,
    entropy_share: Interval,
    validity: Interval,
    success: Interval,
    low_mi: float = 0.5,
    low_entropy: float = 0.5,
    low_validity: float = 0.5,
    high_success: float = 0.8,
    confidence: float = 0.95,
) -> RegimeVerdict:
    """Regime of a step, from four estimates that are taken as normal and independent.

    The probability that a measure is above its threshold is ``Phi((estimate - threshold) / std_error)``; the regimes
    are products of such probabilities.

    Args:
      mi_share: MI estimate over its ceiling.
      entropy_share: H(Z|X) over its value at the start of the run.
      validity: share of rollouts with reasoning that can be scored.
      success: share of episodes that succeeded.
      low_mi: share of the ceiling below which information is low.
      low_entropy: share of the start below which entropy is low.
      low_validity: share below which valid reasoning has vanished.
      high_success: share above which the task is solved.
      confidence: least probability of a verdict that is not ``UNCERTAIN``.

    Returns:
      Probabilities, verdict and driver.

    Raises:
      ValueError: confidence outside (0.5, 1).

    >>> sure = [Interval(estimate=x, low=x, high=x, std_error=0.01) for x in (0.1, 1.2, 0.98, 0.2)]
    >>> verdict = classify_regime(mi_share=sure[0], entropy_share=sure[1], validity=sure[2], success=sure[3])
    >>> REGIMES[int(verdict.regime)], MEASURES[int(verdict.driver)]
    ('template_collapse', 'mutual_information')
    """
    if not 0.5 < confidence < 1:
        raise ValueError(f"confidence={confidence} must lie between 0.5 and 1")
    measures = (mi_share, entropy_share, validity, success)
    estimates = jnp.stack([jnp.asarray(x.estimate, jnp.float32) for x in measures])
    errors = jnp.stack([jnp.asarray(x.std_error, jnp.float32) for x in measures])
    chex.assert_shape([estimates, errors], (len(MEASURES),))
    distance = estimates - jnp.array([low_mi, low_entropy, low_validity, high_success], jnp.float32)
    # Without any error a measure is on its side for certain; exactly on the threshold it is on the upper one.
    score = jnp.where(errors > 0, distance / jnp.where(errors > 0, errors, 1.0), jnp.where(distance < 0, -40.0, 40.0))
    score = jnp.where(jnp.isfinite(errors) & jnp.isfinite(estimates), score, 0.0)
    mi, entropy, valid, solved = jax.scipy.stats.norm.cdf(score)
    both_low = valid * (1 - mi) * (1 - entropy)
    probabilities = jnp.stack(
        [
            valid * mi * entropy,
            valid * (1 - mi) * entropy,
            valid * mi * (1 - entropy),
            both_low * (1 - solved),
            1 - valid,
            both_low * solved,
        ]
    )
    best = jnp.argmax(probabilities)
    certain = probabilities[best] >= confidence
    departed, decides = jnp.array(_DEPARTED)[best], jnp.array(_DECIDES)[best]
    clearest = jnp.argmax(jnp.where(departed, jnp.abs(score), -1.0))
    nearest = jnp.argmin(jnp.where(decides, jnp.abs(score), jnp.inf))
    driver = jnp.where(certain, jnp.where(departed.any(), clearest, NO_DRIVER), nearest)
    return RegimeVerdict(
        probabilities=probabilities,
        regime=jnp.where(certain, best, UNCERTAIN).astype(jnp.int32),
        driver=driver.astype(jnp.int32),
    )
