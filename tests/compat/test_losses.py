"""The policy loss under the reductions of the released code."""

from __future__ import annotations

import json

import jax
import numpy as np
import pytest

from ragen_jax import core
from ragen_jax.compat.ragen import ppo_policy_loss

MODES = ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm")
CLIP = {"clip_low": 0.2, "clip_high": 0.28}


def test_golden_losses(golden_dir):
    golden = json.loads((golden_dir / "ppo_losses.json").read_text())
    arrays = [np.array(golden[name], np.float32) for name in ("log_prob", "old_log_prob", "advantages", "mask")]
    modes = set()
    for case in golden["policy"]:

        def loss_of(log_probs, case=case):
            return ppo_policy_loss(
                log_probs,
                *arrays[1:],
                clip_low=case["clip_low"],
                clip_high=case["clip_high"],
                clip_c=case["clip_ratio_c"],
                aggregation=case["loss_agg_mode"],
            )

        (loss, metrics), gradient = jax.value_and_grad(loss_of, has_aux=True)(arrays[0])
        np.testing.assert_allclose(loss, case["pg_loss"], rtol=1e-5)
        np.testing.assert_allclose(gradient, case["grad_wrt_log_prob"], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(metrics["pg_clipfrac"], case["clipfrac"], rtol=1e-5)
        np.testing.assert_allclose(metrics["pg_clipfrac_lower"], case["clipfrac_lower"], rtol=1e-5)
        np.testing.assert_allclose(metrics["ppo_kl"], case["ppo_kl"], rtol=1e-5)
        modes.add(case["loss_agg_mode"])
    assert modes == set(MODES)


@pytest.mark.parametrize("mode", MODES)
def test_core_has_the_same_value_but_for_the_rows_of_the_norm(mode):
    rng = np.random.default_rng(0)
    arrays = (*rng.normal(size=(3, 3, 5)).astype(np.float32), rng.random((3, 5)) < 0.7)
    assert arrays[3].any(axis=1).all()
    ours, _ = core.ppo_policy_loss(*arrays, **CLIP, aggregation=mode)
    theirs, _ = ppo_policy_loss(*arrays, **CLIP, aggregation=mode)
    np.testing.assert_allclose(theirs, ours * (3 if mode == "seq-mean-token-sum-norm" else 1), rtol=1e-5)


def test_an_empty_row():
    log_probs = np.full((2, 4), -1.0, np.float32)
    mask = np.array([[True] * 4, [False] * 4])

    def loss(mode):
        return float(ppo_policy_loss(log_probs, log_probs, 2 * np.ones((2, 4)), mask, **CLIP, aggregation=mode)[0])

    assert np.isnan(loss("seq-mean-token-mean"))
    assert [loss(mode) for mode in MODES if mode != "seq-mean-token-mean"] == pytest.approx([-2.0, -4.0, -2.0])


def test_refusals_name_the_value():
    one = np.ones((1, 1), np.float32)
    with pytest.raises(ValueError, match="'mean'"):
        ppo_policy_loss(one, one, one, one, **CLIP, aggregation="mean")
    with pytest.raises(ValueError, match=r"clip_dual=0.5"):
        ppo_policy_loss(one, one, one, one, **CLIP, clip_c=0.5)
