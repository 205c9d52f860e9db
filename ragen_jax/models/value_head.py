"""A critic: a decoder of its own with one linear output."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from ragen_jax.models.config import ModelConfig
from ragen_jax.models.transformer import init_params
from ragen_jax.types import Params


def init_critic(config: ModelConfig, key: Array) -> Params:
    """Random decoder with a zero output layer: every value is 0 at the start."""
    head = {"weight": jnp.zeros((config.width,)), "bias": jnp.zeros(())}
    return {"decoder": init_params(config, key), "value": head}


def values_from_hidden(params: Params, hidden: Array) -> Array:
    """Values [...] float32 of hidden states [..., d]."""
    hidden = hidden.astype(jnp.float32)
    return hidden @ params["value"]["weight"] + params["value"]["bias"]
