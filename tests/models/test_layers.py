"""Attention in blocks of queries."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ragen_jax.models import layers
from ragen_jax.models.layers import attend
from ragen_jax.models.transformer import reads

PROMPTS, SHARE, KV, GROUP, HEAD = 2, 3, 2, 2, 4


def arrays(positions: int, prompt: int) -> tuple[list[jax.Array], list[jax.Array]]:
    """Queries, keys and values of a prompt and of its rows; the masks of both."""
    rng = np.random.default_rng(positions)

    def normal(*shape: int) -> jax.Array:
        return jnp.asarray(rng.normal(size=shape), jnp.float32)

    rows = PROMPTS * SHARE
    values = [
        normal(rows, KV, GROUP * positions, HEAD),
        normal(PROMPTS, KV, HEAD, prompt),
        normal(PROMPTS, KV, prompt, HEAD),
        normal(rows, KV, HEAD, positions),
        normal(rows, KV, positions, HEAD),
    ]
    seen = jnp.arange(prompt) >= jnp.array([[2], [0]])
    return values, [seen[:, None, :], reads(jnp.full((rows, positions), positions))]


def attended(values: list[jax.Array], masks: list[jax.Array]) -> jax.Array:
    query, *kv = values
    return attend(query, [(kv[0], kv[1], masks[0]), (kv[2], kv[3], masks[1])])


@pytest.mark.parametrize("positions", [1, 7, 8])
@pytest.mark.parametrize("bound", [1, 500, 10**9])
def test_blocks_of_queries_change_nothing(positions: int, bound: int, monkeypatch: pytest.MonkeyPatch):
    values, masks = arrays(positions, prompt=5)
    weight = jnp.asarray(np.random.default_rng(0).normal(size=values[0].shape), jnp.float32)

    def total(values: list[jax.Array]) -> jax.Array:
        return (attended(values, masks) * weight).sum()

    def run() -> tuple[jax.Array, list[jax.Array]]:
        return jax.jit(lambda values: (attended(values, masks), jax.grad(total)(values)))(values)

    expected, gradients = run()
    monkeypatch.setattr(layers, "SCORES", bound)
    result, of_blocks = run()
    np.testing.assert_allclose(result, expected, atol=1e-6)
    for got, wanted in zip(of_blocks, gradients, strict=True):
        np.testing.assert_allclose(got, wanted, atol=2e-6)


def test_blocks_bound_the_memory_of_the_backward_pass(monkeypatch: pytest.MonkeyPatch):
    values, masks = arrays(384, prompt=8)

    def temporary_bytes(bound: int) -> int:
        monkeypatch.setattr(layers, "SCORES", bound)
        gradient = jax.jit(jax.grad(lambda values: attended(values, masks).sum()))
        return int(gradient.lower(values).compile().memory_analysis().temp_size_in_bytes)

    scores = 4 * PROMPTS * SHARE * KV * GROUP * 384 * (384 + 8)
    assert temporary_bytes(10**9) > scores
    assert temporary_bytes(2**16) < scores / 4
