"""Policy folders: what comes back is what was written, and what does not fit is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from ragen_jax.models.config import model_config
from ragen_jax.models.transformer import init_params
from ragen_jax.training.policy_files import load_policy, save_policy
from tests.learner_fixtures import assert_trees_equal
from tests.training_fixtures import NETWORK

MODEL = model_config(NETWORK)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda t: t.pop("layers/gate"), r"layers/gate: file missing, network \(2, 64, 128\)"),
        (lambda t: t.update(extra=np.zeros(3, np.float32)), r"extra: file \(3,\), network absent"),
        (lambda t: t.update(final_norm=np.zeros(7, np.float32)), r"final_norm: file \(7,\), network \(64,\)"),
    ],
    ids=["missing", "extra", "shape"],
)
def test_a_policy_that_does_not_fit_is_named(spoil: Any, message: str, tmp_path: Path):
    params = jax.device_get(init_params(MODEL, jax.random.key(0)))
    save_policy(tmp_path, params, {})
    assert_trees_equal(load_policy(tmp_path, MODEL), params)
    tensors = load_file(tmp_path / "policy.safetensors")
    spoil(tensors)
    save_file(tensors, tmp_path / "policy.safetensors")
    with pytest.raises(ValueError, match=message):
        load_policy(tmp_path, MODEL)


def test_a_folder_without_a_policy_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match=r"is not a policy folder: policy\.safetensors is missing"):
        load_policy(tmp_path, MODEL)
