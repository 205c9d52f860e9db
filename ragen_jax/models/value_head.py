"""A critic: a decoder of its own with one linear output."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from ragen_jax.models.config import ModelConfig
from ragen_jax.models.transformer import init_params
from ragen_jax.types import Params


def init_critic(config: ModelConfig, key: Array, *, decoder: Params | None = None) -> Params:
    """Decoder with a zero output layer: every value is 0 at the start.

    Args:
      config: shapes of the critic.
      key: of the random decoder.
      decoder: parameters to begin from instead, such as those of the policy; the critic gets its own copy.
    """
    head = {"weight": jnp.zeros((config.width,)), "bias": jnp.zeros(())}
    start = init_params(config, key) if decoder is None else jax.tree.map(jnp.copy, decoder)
    return {"decoder": start, "value": head}


def values_from_hidden(params: Params, hidden: Array) -> Array:
    """Values [...] float32 of hidden states [..., d]."""
    hidden = hidden.astype(jnp.float32)
    return hidden @ params["value"]["weight"] + params["value"]["bias"]
