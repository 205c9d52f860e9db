"""Meshes, and which axis of which parameter is split over what."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec

from ragen_jax.models.sharding import AXES, make_mesh, put_rows, replicated, shardings
from ragen_jax.models.transformer import init_params
from tests.device_fixtures import MODEL, random_params


def test_every_weight_matrix_has_a_rule_and_norms_are_whole():
    untied = dataclasses.replace(MODEL, tied=False)
    tree = jax.eval_shape(lambda: init_params(untied, jax.random.key(0)))
    specs = jax.tree.map(lambda s: s.spec, shardings(tree, make_mesh(data=1, fsdp=2, tensor=2)))
    assert specs["embedding"] == specs["head"] == PartitionSpec("tensor", None)
    assert specs["final_norm"] == PartitionSpec()
    layers = specs["layers"]
    assert {name for name, spec in layers.items() if spec == PartitionSpec()} == {"attention_norm", "mlp_norm"}
    for name in ("query", "key", "value"):
        assert layers[name] == PartitionSpec(None, "fsdp", "tensor", None)
        assert layers[f"{name}_bias"] == PartitionSpec(None, "tensor", None)
    assert layers["output"] == PartitionSpec(None, "tensor", None, "fsdp")
    assert layers["gate"] == layers["up"] == PartitionSpec(None, "fsdp", "tensor")
    assert layers["down"] == PartitionSpec(None, "tensor", "fsdp")


@pytest.mark.parametrize(
    ("change", "mesh", "message"),
    [
        ({"kv_heads": 1}, {"tensor": 2}, r"layers/key has 1 entries, .* axis tensor=2"),
        ({"width": 14}, {"fsdp": 4}, r"layers/\w+ has 14 entries, .* axis fsdp=4"),
        ({"vocab_rows": 41}, {"tensor": 2}, r"embedding has 41 entries, .* axis tensor=2"),
    ],
)
def test_an_axis_that_does_not_divide_is_named(change: dict[str, int], mesh: dict[str, int], message: str):
    tree = jax.eval_shape(lambda: init_params(dataclasses.replace(MODEL, **change), jax.random.key(0)))
    with pytest.raises(ValueError, match=message):
        shardings(tree, make_mesh(data=1, **mesh))


def test_mesh_shapes():
    assert make_mesh().shape == {"data": 4, "fsdp": 1, "tensor": 1}
    assert make_mesh(fsdp=2).shape == {"data": 2, "fsdp": 2, "tensor": 1}
    assert make_mesh(data=1, tensor=2).devices.size == 2
    assert make_mesh(devices=jax.devices()[:1]).axis_names == AXES


@pytest.mark.parametrize("shape", [{"data": 5}, {"data": 2, "fsdp": 3}, {"fsdp": 8}, {"data": 1, "fsdp": 0}])
def test_meshes_that_do_not_fit_are_refused(shape: dict[str, int]):
    with pytest.raises(ValueError, match=r"needs \d+ devices, 4 are here; lower mesh\.data"):
        make_mesh(**shape)


def test_rows_are_split_and_scalars_are_whole():
    mesh = make_mesh(data=2, fsdp=2)
    rows, scalar = put_rows((np.arange(8.0), np.float32(3)), mesh)
    assert rows.sharding.shard_shape(rows.shape) == (2,)
    assert scalar.sharding == replicated(mesh)


def test_a_parameter_is_spread_over_its_axes():
    mesh = make_mesh(data=1, fsdp=2, tensor=2)
    params = random_params()
    placed = jax.device_put(params, shardings(params, mesh))
    gate = placed["layers"]["gate"]
    assert gate.sharding.shard_shape(gate.shape) == (2, 8, 12)
    np.testing.assert_array_equal(np.asarray(gate), np.asarray(params["layers"]["gate"]))
