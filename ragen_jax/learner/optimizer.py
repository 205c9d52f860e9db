"""The optimiser of actor and critic: clip by global norm, Adam with decoupled weight decay, linear warm-up."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from ragen_jax.types import Params


def adam(
    *, lr: float, beta1: float, beta2: float, eps: float, weight_decay: float, grad_clip: float, warmup_updates: int
) -> optax.GradientTransformation:
    """Clipping, moments, decay and schedule as one transformation; the schedule advances with every update."""
    schedule = optax.linear_schedule(lr / warmup_updates, lr, warmup_updates - 1) if warmup_updates > 1 else lr
    return optax.chain(
        optax.clip_by_global_norm(grad_clip),
        optax.adamw(schedule, b1=beta1, b2=beta2, eps=eps, weight_decay=weight_decay),
    )


class MasterState(NamedTuple):
    """State of :func:`with_master`.

    Attributes:
      master: parameters in float32.
      inner: state of the wrapped optimiser.
    """

    master: Params
    inner: Any


def with_master(optimizer: optax.GradientTransformation) -> optax.GradientTransformation:
    """The optimiser on a float32 copy of parameters that are kept in fewer digits.

    Small steps add up in the copy; added to bfloat16 parameters they would be rounded away. The changes it returns are
    float32 and lead exactly to the rounded copy.
    """

    def init(params: Params) -> MasterState:
        master = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), params)
        return MasterState(master=master, inner=optimizer.init(master))

    def update(gradient: Params, state: MasterState, params: Params | None = None) -> tuple[Params, MasterState]:
        assert params is not None
        gradient = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), gradient)
        changes, inner = optimizer.update(gradient, state.inner, state.master)
        master = apply_changes(state.master, changes)
        changes = jax.tree.map(lambda new, old: new - old.astype(jnp.float32), master, params)
        return changes, MasterState(master=master, inner=inner)

    return optax.GradientTransformation(init, update)


def apply_changes(params: Params, changes: Params) -> Params:
    """Parameters plus changes, summed in the digits of the changes and kept in those of the parameters."""
    applied: Params = jax.tree.map(
        lambda old, change: (old.astype(change.dtype) + change).astype(old.dtype), params, changes
    )
    return applied
