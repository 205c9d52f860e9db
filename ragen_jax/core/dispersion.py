"""How unequal are the prompts? Where all of them teach alike, a filter on reward variance has nothing to choose."""

from __future__ import annotations

from typing import Literal, NamedTuple

import chex
import jax
import jax.numpy as jnp

from ragen_jax.core.checks import PROMPTS, refuse_non_finite
from ragen_jax.core.intervals import Interval, jackknife
from ragen_jax.core.masking import full_mask, masked_mean, masked_var
from ragen_jax.types import Array

# std(RV) / mean(RV) of the settings in RAGEN-2 Table 8, by what filtering did to success there.
HELPED = (1.16, 1.29)
HURT = 0.33
LEAST_PROMPTS = 64

Verdict = Literal["helps", "hurts", "undecided"]


def variance_dispersion(variances: Array) -> Interval:
    """``std(RV) / mean(RV)`` over prompts (RAGEN-2 Table 8), with a jackknife interval over prompts.

    Args:
      variances: [P], reward variance of each group; unbiased std over the prompts.

    Returns:
      Interval, without unit; all 0 when every variance is 0.

    Raises:
      ValueError: fewer than three prompts, or (outside jit) a variance that is not finite.

    >>> round(float(variance_dispersion(jnp.array([0.0, 0.0, 3.0])).estimate), 4)
    1.7321
    """
    chex.assert_rank(variances, 1)
    prompts = variances.shape[0]
    if prompts < 3:
        raise ValueError(f"{prompts} prompts are too few for an interval over prompts; use at least 3")
    refuse_non_finite("reward variance", variances, axes=PROMPTS, fix="leave out prompts with broken rewards")
    variances = jnp.asarray(variances, jnp.float32)

    def ratio(kept: jax.Array) -> jax.Array:
        mean, spread = masked_mean(variances, kept), jnp.sqrt(masked_var(variances, kept, ddof=1))
        return jnp.where(mean > 0, spread / jnp.where(mean > 0, mean, 1.0), 0.0)

    everyone = full_mask(variances, None)
    replicates = jax.lax.map(lambda left_out: ratio(everyone.at[left_out].set(False)), jnp.arange(prompts))
    return jackknife(ratio(everyone), replicates)


class Preflight(NamedTuple):
    """Whether a filter on reward variance can be expected to help, before any training.

    Attributes:
      verdict: "helps", "hurts" or "undecided".
      dispersion: ``std(RV) / mean(RV)`` with its interval.
    """

    verdict: Verdict
    dispersion: Interval


def preflight_verdict(variances: Array) -> Preflight:
    """Compare the dispersion of the reward variances with the three settings that the paper measured.

    RAGEN-2 Table 8: filtering helped at ``std(RV) / mean(RV)`` of 1.29 and 1.16 and hurt at 0.33. That is all there is:
    no threshold was fitted and nothing was held out. So the verdict is "helps" only if the whole interval lies at or
    above the smaller of the two points where it helped, "hurts" only if it lies at or below the point where it hurt,
    and "undecided" for anything between, and where no prompt has any variance.

    Args:
      variances: [P], reward variance of each group under the starting policy; not under ``jit``.

    Returns:
      The verdict and what it rests on.

    Raises:
      ValueError: fewer than 64 prompts, or a variance that is negative or not finite.

    >>> preflight_verdict(jnp.ones(64)).verdict
    'hurts'
    """
    chex.assert_rank(variances, 1)
    if variances.shape[0] < LEAST_PROMPTS:
        raise ValueError(f"{variances.shape[0]} prompts are too few for a verdict; use at least {LEAST_PROMPTS}")
    refuse_non_finite("reward variance", variances, axes=PROMPTS, fix="leave out prompts with broken rewards")
    if (variances < 0).any():
        prompt = int((variances < 0).argmax())
        raise ValueError(f"reward variance of prompt {prompt} is {variances[prompt]}; a variance is 0 or more")
    dispersion = variance_dispersion(variances)
    verdict: Verdict = "undecided"
    if jnp.any(variances > 0):
        if dispersion.low >= min(HELPED):
            verdict = "helps"
        elif dispersion.high <= HURT:
            verdict = "hurts"
    return Preflight(verdict=verdict, dispersion=dispersion)
