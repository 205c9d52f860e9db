"""One mesh (data, fsdp, tensor), and where each array lives on it.

Parameters follow (name pattern -> axes) rules, batches are split over ``data`` and ``fsdp`` along their first axis
(prompts, or rows in group order), scalars are replicated. A mesh of one device is the ordinary case, not a special one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from ragen_jax.types import Array

AXES = ("data", "fsdp", "tensor")
ROWS = PartitionSpec(("data", "fsdp"))
RULES: tuple[tuple[str, PartitionSpec], ...] = (
    (r"(embedding|head)$", PartitionSpec("tensor", None)),
    (r"layers/(query|key|value)$", PartitionSpec(None, "fsdp", "tensor", None)),
    (r"layers/(query|key|value)_bias$", PartitionSpec(None, "tensor", None)),
    (r"layers/output$", PartitionSpec(None, "tensor", None, "fsdp")),
    (r"layers/(gate|up)$", PartitionSpec(None, "fsdp", "tensor")),
    (r"layers/down$", PartitionSpec(None, "tensor", "fsdp")),
)


def make_mesh(*, data: int = 0, fsdp: int = 1, tensor: int = 1, devices: list[jax.Device] | None = None) -> Mesh:
    """Mesh of data x fsdp x tensor devices; ``data=0`` takes what the other two leave.

    Raises:
      ValueError: the product does not fit the devices.
    """
    devices = jax.devices() if devices is None else devices
    if data == 0:
        data = max(len(devices) // (fsdp * tensor), 1)
    wanted = data * fsdp * tensor
    if wanted > len(devices) or wanted < 1:
        raise ValueError(
            f"mesh data={data} x fsdp={fsdp} x tensor={tensor} needs {wanted} devices, {len(devices)} are here; "
            "lower mesh.data, mesh.fsdp or mesh.tensor"
        )
    return Mesh(np.array(devices[:wanted]).reshape(data, fsdp, tensor), AXES)


def shardings(tree: Any, mesh: Mesh | AbstractMesh) -> Any:
    """Shardings of a tree of parameters, of an optimiser state or of a whole train state, by leaf path.

    Raises:
      ValueError: an axis does not divide over its mesh axis; names the parameter.
    """
    return jax.tree_util.tree_map_with_path(lambda path, leaf: _leaf_sharding(path, leaf, mesh), tree)


def placement(mesh: Mesh) -> Callable[[str, np.ndarray], jax.Array]:
    """A function that puts one parameter, named by its path, on its devices: what a loader calls leaf by leaf."""
    return lambda name, leaf: jax.device_put(leaf, _named_sharding(name, leaf, mesh))


def _leaf_sharding(path: tuple[Any, ...], leaf: Any, mesh: Mesh | AbstractMesh) -> NamedSharding:
    name = "/".join(str(getattr(key, "key", getattr(key, "name", key))) for key in path)
    return _named_sharding(name, leaf, mesh)


def _named_sharding(name: str, leaf: Any, mesh: Mesh | AbstractMesh) -> NamedSharding:
    for pattern, spec in RULES:
        if not re.search(pattern, name) or len(leaf.shape) != len(spec):
            continue
        for size, axis in zip(leaf.shape, spec, strict=True):
            parts = 1 if axis is None else mesh.shape[axis]
            if size % parts:
                raise ValueError(f"{name} has {size} entries, which do not divide over mesh axis {axis}={parts}")
        return NamedSharding(mesh, spec)
    return NamedSharding(mesh, PartitionSpec())


def row_sharding(mesh: Mesh) -> NamedSharding:
    """Sharding of arrays whose first axis is prompts or rows."""
    return NamedSharding(mesh, ROWS)


def activations_on(mesh: Mesh | None) -> AbstractContextManager[Any]:
    """Inside a program: lay the activations of the networks out on these devices (``lay_out``); None: XLA decides.

    Left to itself XLA splits the width of the residual stream as the parameters are split over ``fsdp``, and gathers
    the activations of all rows in every layer; with this it gathers the parameters of a layer. The former is right
    where rows have one token each (decoding), the latter everywhere else.
    """
    return nullcontext() if mesh is None else jax.sharding.use_abstract_mesh(mesh.abstract_mesh)


def lay_out(x: Array, *axes: str | None) -> jax.Array:
    """Split activations over the devices of ``activations_on``; without it they stay as they are.

    Args:
      x: activations.
      axes: for each axis of ``x`` "rows" (split over data and fsdp), "tensor", or None for an axis that is not split.
    """
    if jax.sharding.get_abstract_mesh().empty:
        return jnp.asarray(x)
    spec = PartitionSpec(*(ROWS[0] if axis == "rows" else axis for axis in axes))
    return jax.lax.with_sharding_constraint(x, spec)


def split_rows(x: jax.Array, mesh: Mesh, *, axis: int) -> jax.Array:
    """Inside a program: split an array over the devices along its axis of rows, however it is split along others."""
    return _constrained(x, mesh, axis, ROWS[0])


def join_rows(x: jax.Array, mesh: Mesh, *, axis: int) -> jax.Array:
    """Inside a program: give every device all rows of an array, however it is split along other axes."""
    return _constrained(x, mesh, axis, None)


def _constrained(x: jax.Array, mesh: Mesh, axis: int, over: Any) -> jax.Array:
    spec: list[Any] = [PartitionSpec.UNCONSTRAINED] * x.ndim
    spec[axis] = over
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, PartitionSpec(*spec)))


def row_shards(mesh: Mesh | AbstractMesh) -> int:
    """Parts that rows are split into, one for each device of the data and fsdp axes."""
    return int(mesh.shape["data"] * mesh.shape["fsdp"])


def group_parts(groups: int, *, group_size: int, shards: int) -> int:
    """Fewest parts of equal size that the rows of each group are split into so that the parts divide over the shards.

    Raises:
      ValueError: the rows of all groups together do not divide over the shards.
    """
    if groups * group_size % shards:
        raise ValueError(
            f"{groups} groups of {group_size} rows do not divide over {shards} devices: their product must be a "
            "multiple of mesh.data * mesh.fsdp"
        )
    return shards // math.gcd(groups, shards)


def replicated(mesh: Mesh) -> NamedSharding:
    """Sharding of arrays that every device holds whole."""
    return NamedSharding(mesh, PartitionSpec())


def put_rows(tree: Any, mesh: Mesh) -> Any:
    """Move host arrays to the mesh, split along their first axis; arrays without axes are replicated."""
    return jax.device_put(tree, jax.tree.map(lambda x: row_sharding(mesh) if np.ndim(x) else replicated(mesh), tree))
