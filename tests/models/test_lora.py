"""Adapters: nothing changes at first, merged they compute the same, and only they are trained."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ragen_jax.models.convert import load_model
from ragen_jax.models.lora import (
    TARGETS,
    add_adapters,
    merge_adapters,
    trainable,
    with_adapters,
    with_trainable,
    without_adapters,
)
from ragen_jax.types import Params
from tests.models.hf_fixtures import our_logits, random_checkpoint, some_tokens


def _random_b(params: Params, seed: int = 0) -> Params:
    rng = np.random.default_rng(seed)
    adapters = {
        name: jnp.asarray(rng.standard_normal(leaf.shape) * 0.05, jnp.float32) if name.endswith("_b") else leaf
        for name, leaf in params["adapters"].items()
    }
    return {**params, "adapters": adapters}


@pytest.mark.parametrize("targets", [TARGETS, ("query", "down"), ("output",)])
def test_new_adapters_change_nothing_and_merged_ones_compute_the_same(tmp_path: Path, targets: tuple[str, ...]) -> None:
    config, base = load_model(random_checkpoint(tmp_path / "m", "qwen2_untied"))
    config = with_adapters(config, rank=3, alpha=6.0)
    params = add_adapters(base, jax.random.key(0), rank=3, targets=targets)
    tokens = some_tokens(length=40)
    before = our_logits(config, base, tokens, prompt=20)
    np.testing.assert_array_equal(our_logits(config, params, tokens, prompt=20), before)
    params = _random_b(params)
    after = our_logits(config, params, tokens, prompt=20)
    assert np.abs(after - before).max() > 0.1
    np.testing.assert_allclose(our_logits(config, merge_adapters(params, config), tokens, prompt=20), after, atol=2e-5)
    np.testing.assert_array_equal(our_logits(config, without_adapters(params), tokens, prompt=20), before)


def test_merge_is_the_formula(tmp_path: Path) -> None:
    config, base = load_model(random_checkpoint(tmp_path / "m", "llama_head_dim"))
    config = with_adapters(config, rank=2, alpha=1.0)
    params = _random_b(add_adapters(base, jax.random.key(1), rank=2))
    merged = merge_adapters(params, config)
    a, b = (np.asarray(params["adapters"][f"output_{part}"], np.float64) for part in "ab")
    expected = np.asarray(base["layers"]["output"], np.float64) + 0.5 * np.einsum("lhkr,lrd->lhkd", a, b)
    np.testing.assert_allclose(merged["layers"]["output"], expected, atol=1e-6)
    assert merge_adapters(base, config) is base


def test_c37_merging_keeps_what_is_smaller_than_the_digits_of_the_base(tmp_path: Path) -> None:
    """Adapters of a bfloat16 base move it by less than its spacing, at first nearly everywhere."""
    config, base = load_model(random_checkpoint(tmp_path / "m", "qwen2_untied"), dtype="bfloat16")
    config = with_adapters(config, rank=2, alpha=2.0)
    params = _random_b(add_adapters(base, jax.random.key(1), rank=2))
    params = {**params, "adapters": jax.tree.map(lambda leaf: (leaf * 0.05).astype(jnp.bfloat16), params["adapters"])}
    tokens = some_tokens(length=40)
    before, after = (our_logits(config, tree, tokens, prompt=20) for tree in (base, params))
    assert np.abs(after - before).max() > 2e-3
    merged = merge_adapters(params, config)
    np.testing.assert_allclose(our_logits(config, merged, tokens, prompt=20), after, atol=2e-5)
    assert merged["layers"]["down"].dtype == jnp.float32
    rounded = merge_adapters(params, config, dtype="bfloat16")
    np.testing.assert_array_equal(rounded["layers"]["down"], merged["layers"]["down"].astype(jnp.bfloat16))
    assert np.abs(our_logits(config, rounded, tokens, prompt=20) - after).max() > 100 * 2e-5


def test_what_is_trained(tmp_path: Path) -> None:
    _, base = load_model(random_checkpoint(tmp_path / "m", "qwen3"))
    params = add_adapters(base, jax.random.key(0), rank=2, targets=("value",))
    assert set(trainable(params)) == {"value_a", "value_b"}
    assert trainable(base) is base
    replaced = with_trainable(params, jax.tree.map(jnp.ones_like, trainable(params)))
    assert float(replaced["adapters"]["value_b"].min()) == 1 and replaced["layers"] is params["layers"]
    assert with_trainable(base, {"x": 1}) == {"x": 1}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"rank": 0}, "rank=0"),
        ({"rank": 1, "targets": ("attention",)}, r"adapters on \['attention'\]"),
        ({"rank": 1, "targets": ()}, "adapters on nothing"),
    ],
)
def test_wrong_adapters_are_refused(tmp_path: Path, options: dict, sentence: str) -> None:
    _, base = load_model(random_checkpoint(tmp_path / "m", "qwen3"))
    with pytest.raises(ValueError, match=sentence):
        add_adapters(base, jax.random.key(0), **options)
