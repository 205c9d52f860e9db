"""Low-rank adapters: every chosen projection W becomes ``W + alpha / rank * A B``, and only A and B are trained.

They are a branch "adapters" of the parameter tree, stacked over layers like the rest. The base stays as it is, so it
serves as the frozen reference of a KL term, and the optimiser keeps moments of the adapters alone.
"""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp

from ragen_jax.models.config import ModelConfig
from ragen_jax.types import Params

# How many leading axes of a layer's weight are inputs.
_INPUT_AXES = {"query": 1, "key": 1, "value": 1, "output": 2, "gate": 1, "up": 1, "down": 1}
TARGETS = tuple(_INPUT_AXES)


def with_adapters(config: ModelConfig, *, rank: int, alpha: float) -> ModelConfig:
    """Shapes of a model whose adapters of this rank are scaled by ``alpha / rank``."""
    return dataclasses.replace(config, adapter_scale=alpha / rank)


def add_adapters(params: Params, key: jax.Array, *, rank: int, targets: tuple[str, ...] = TARGETS) -> Params:
    """The tree with a branch of new adapters: A random, B zero, so that the model computes what it did.

    Args:
      params: parameters without adapters.
      key: of the random A.
      rank: r, columns of A and rows of B.
      targets: projections that get one, of ``TARGETS``.

    Raises:
      ValueError: no or an unknown target, or a rank below 1.
    """
    if rank < 1:
        raise ValueError(f"rank={rank} of the adapters must be at least 1")
    unknown = [name for name in targets if name not in _INPUT_AXES]
    if unknown or not targets:
        raise ValueError(f"adapters on {unknown or 'nothing'}: choose from {', '.join(TARGETS)}")
    adapters = {}
    for name, name_key in zip(targets, jax.random.split(key, len(targets)), strict=True):
        weight = params["layers"][name]
        depth, inner, outer = weight.shape[0], *_axes(name, weight.shape[1:])
        first = jax.random.normal(name_key, (depth, *inner, rank), jnp.float32) * math.prod(inner) ** -0.5
        adapters[f"{name}_a"] = first.astype(weight.dtype)
        adapters[f"{name}_b"] = jnp.zeros((depth, rank, *outer), weight.dtype)
    return {**params, "adapters": adapters}


def merge_adapters(params: Params, config: ModelConfig, *, dtype: str = "float32") -> Params:
    """Parameters without adapters that compute the same: ``W + adapter_scale A B``, summed in float32.

    Args:
      params: with adapters; without them they are returned as they are.
      config: shapes and scale.
      dtype: of the sums. The base's own need not do: in bfloat16 most sums round back to W.
    """
    if "adapters" not in params:
        return params
    layers = dict(params["layers"])
    for name in TARGETS:
        if f"{name}_a" not in params["adapters"]:
            continue
        weight = layers[name]
        first, second = (params["adapters"][f"{name}_{part}"].astype(jnp.float32) for part in "ab")
        depth, rank = second.shape[:2]
        change = first.reshape(depth, -1, rank) @ second.reshape(depth, rank, -1)
        merged = weight.astype(jnp.float32) + config.adapter_scale * change.reshape(weight.shape)
        layers[name] = merged.astype(dtype)
    return {**without_adapters(params), "layers": layers}


def without_adapters(params: Params) -> Params:
    """The base: what the model was before adapters."""
    return {name: branch for name, branch in params.items() if name != "adapters"}


def trainable(params: Params) -> Params:
    """What training changes: the adapters where there are some, else everything."""
    adapters: Params = params.get("adapters", params)
    return adapters


def with_trainable(params: Params, changed: Params) -> Params:
    """The tree with its trainable part replaced."""
    return {**params, "adapters": changed} if "adapters" in params else changed


def _axes(name: str, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return shape[: _INPUT_AXES[name]], shape[_INPUT_AXES[name] :]
