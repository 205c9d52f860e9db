"""Construction of the train state, laid out on the mesh from the start."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from ragen_jax.core.moving_average import empty_moving_average
from ragen_jax.models.lora import trainable
from ragen_jax.models.sharding import shardings
from ragen_jax.types import Params, TrainState


def build_state(
    params: Params,
    critic_params: Params | None,
    actor_optimizer: optax.GradientTransformation,
    critic_optimizer: optax.GradientTransformation | None,
    *,
    mesh: Mesh,
) -> TrainState:
    """State of step 0 around given parameters; they are copied, so the caller keeps its own."""
    init = functools.partial(_init, actor_optimizer=actor_optimizer, critic_optimizer=critic_optimizer)
    layout = shardings(jax.eval_shape(init, params, critic_params), mesh)
    return jax.jit(init, out_shardings=layout)(params, critic_params)


def describe_state(
    params: Params,
    critic_params: Params | None,
    actor_optimizer: optax.GradientTransformation,
    critic_optimizer: optax.GradientTransformation | None,
) -> TrainState:
    """Shapes of the state around parameters, of which only the shapes are read."""
    init = functools.partial(_init, actor_optimizer=actor_optimizer, critic_optimizer=critic_optimizer)
    state: TrainState = jax.eval_shape(init, params, critic_params)
    return state


def _init(
    params: Params,
    critic_params: Params | None,
    *,
    actor_optimizer: optax.GradientTransformation,
    critic_optimizer: optax.GradientTransformation | None,
) -> TrainState:
    return TrainState(
        step=jnp.zeros((), jnp.int32),
        params=jax.tree.map(jnp.copy, params),
        opt_state=actor_optimizer.init(trainable(params)),
        critic_params=jax.tree.map(jnp.copy, critic_params),
        critic_opt_state=None if critic_optimizer is None else critic_optimizer.init(critic_params),
        collapse=empty_moving_average(),
        collapse_turns={family: empty_moving_average() for family in ("trajectory", "turn_uniform")},
    )


def abstract_state(state: TrainState, mesh: Mesh) -> TrainState:
    """Shapes, dtypes and shardings of a state: the target of a restore."""
    return jax.tree.map(
        lambda leaf, where: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=where), state, shardings(state, mesh)
    )
