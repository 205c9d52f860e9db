"""Refusals that all of ``core`` shares: values that are not finite, empty axes, orders that are none.

Values are looked at where they are concrete: inside jit nothing is known, nothing is checked, nothing is compiled in.
Shapes are known there too.
"""

from __future__ import annotations

from typing import Any

import chex
import jax

from ragen_jax.types import Array

ROWS = ("row",)
PROMPTS = ("prompt",)
GROUPS = ("prompt", "rollout")
TOKENS = ("row", "token")


def refuse_non_finite(name: str, values: Array, mask: Array | None = None, *, axes: tuple[str, ...], fix: str) -> None:
    """Refuse NaN and infinite values, by name and place.

    Args:
      name: what the values are, in the singular.
      values: one axis for each of the names.
      mask: bool, of the shape of the values; what it leaves out may hold anything.
      axes: names of the axes.
      fix: what to do about it.

    Raises:
      ValueError: names the first value that is not finite, and the fix.
    """
    if isinstance(values, jax.core.Tracer) or isinstance(mask, jax.core.Tracer):
        return
    # On the host: there a concrete array that a jitted function closes over stays concrete.
    found: Any = jax.device_get(values)
    broken = ~(abs(found) < float("inf"))
    if mask is not None:
        broken &= jax.device_get(mask) != 0
    if broken.any():
        place = tuple(int(index[0]) for index in broken.nonzero())
        where = ", ".join(f"{axis} {index}" for axis, index in zip(axes, place, strict=True))
        raise ValueError(f"{name} of {where} is {found[place]}; {fix}")


def refuse_empty(values: Array, *, axes: tuple[str, ...]) -> None:
    """Refuse an array without any element along its first axes, inside jit too.

    Args:
      values: array with at least as many axes as there are names.
      axes: names of the first axes.

    Raises:
      ValueError: names the axis.
    """
    for axis, size in zip(axes, values.shape, strict=False):
        if size == 0:
            raise ValueError(f"0 {axis}s: the shape {tuple(values.shape)} is empty; give at least one {axis}")


def check_rewards(rewards: Array, valid: Array | None = None) -> None:
    """Refuse rewards that are not finite. Runs on concrete arrays; inside jit nothing is checked.

    Args:
      rewards: [P, G].
      valid: [P, G] bool; invalid rows may hold anything.

    Raises:
      ValueError: no prompt or no rollout; else names prompt, rollout and value of the first broken reward.
    """
    chex.assert_rank(rewards, 2)
    refuse_empty(rewards, axes=GROUPS)
    if valid is not None:
        chex.assert_equal_shape([rewards, valid])
    refuse_non_finite("reward", rewards, valid, axes=GROUPS, fix="mark the row as not valid or mend the environment")


def refuse_no_permutation(permutations: Array) -> None:
    """Refuse rows that are not permutations of 0 .. C - 1.

    Args:
      permutations: [N, C] whole numbers.

    Raises:
      ValueError: names the first such row.
    """
    if isinstance(permutations, jax.core.Tracer):
        return
    for index, row in enumerate(jax.device_get(permutations).tolist()):
        if sorted(row) != list(range(len(row))):
            raise ValueError(
                f"permutations[{index}] = {row} does not name each of 0 .. {len(row) - 1} once; "
                "draw it with numpy.random.Generator.permutation"
            )
