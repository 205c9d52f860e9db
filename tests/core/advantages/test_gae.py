from __future__ import annotations

import json

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis import given

from ragen_jax import core
from tests.oracles import learning as oracle

MASK = np.array([[1, 1, 0, 0, 1]], bool)
REWARDS = np.array([[0, 0, 0, 0, 1]], np.float32)
NUMBERS = st.integers(-16, 16).map(lambda n: n / 4)
compiled = jax.jit(core.gae, static_argnames=("gamma", "lam"))


@pytest.mark.parametrize(
    ("values", "gamma", "lam", "expected"),
    [
        ([0, 0, 0, 0, 0], 1.0, 0.5, [0.25, 0.5, 0, 0, 1]),
        ([0, 0, 7, -7, 0], 1.0, 0.5, [0.25, 0.5, 0, 0, 1]),
        ([0.5, 0.5, 9, 9, 0.5], 0.9, 1.0, [0.31, 0.4, 0, 0, 0.5]),
    ],
)
def test_c12_observations_are_skipped(values, gamma, lam, expected):
    advantages, returns = core.gae(REWARDS, np.array([values], np.float32), MASK, gamma=gamma, lam=lam)
    np.testing.assert_allclose(advantages, [expected], atol=1e-6)
    np.testing.assert_allclose(returns, np.where(MASK, np.add(expected, values), 0.0), atol=1e-6)


@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 1.0), (0.9, 0.8), (0.0, 0.5), (0.95, 0.0)])
@given(
    rewards=hnp.arrays(np.float32, (2, 6), elements=NUMBERS),
    values=hnp.arrays(np.float32, (2, 6), elements=NUMBERS),
    mask=hnp.arrays(bool, (2, 6)),
)
def test_agrees_with_the_oracle(gamma, lam, rewards, values, mask):
    expected = oracle.gae(rewards, values, mask, gamma=gamma, lam=lam)
    np.testing.assert_allclose(compiled(rewards, values, mask, gamma=gamma, lam=lam), expected, rtol=1e-5, atol=1e-5)


@given(
    rewards=hnp.arrays(np.float32, (2, 6), elements=NUMBERS), values=hnp.arrays(np.float32, (2, 6), elements=NUMBERS)
)
def test_without_discount_it_is_reward_to_go_minus_value(rewards, values):
    advantages, _ = compiled(rewards, values, np.ones((2, 6), bool), gamma=1.0, lam=1.0)
    to_go = np.cumsum(rewards[:, ::-1], axis=1)[:, ::-1]
    np.testing.assert_allclose(advantages, to_go - values, atol=1e-5)


def test_padding_changes_nothing():
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=(2, 3, 5)).astype(np.float32)
    mask = rng.random((3, 5)) < 0.7
    plain = core.gae(rewards, values, mask, gamma=0.9, lam=0.9)
    pad = [(0, 0), (0, 3)]
    padded = core.gae(
        np.pad(rewards, pad, constant_values=np.nan),
        np.pad(values, pad, constant_values=np.nan),
        np.pad(mask, pad),
        gamma=0.9,
        lam=0.9,
    )
    np.testing.assert_allclose(np.asarray(padded)[:, :, :5], plain, rtol=1e-6)
    assert not np.asarray(padded)[:, :, 5:].any()


def test_golden_after_whitening(golden_dir):
    golden = json.loads((golden_dir / "advantages.json").read_text())["gae"]
    rewards, values, mask = (np.array(golden[k], np.float32) for k in ("token_level_rewards", "values", "mask"))
    mask = mask.astype(bool)
    for case in golden["cases"]:
        if case["fn"] == "masked_whiten":
            whitened = np.asarray(core.masked_whiten(np.array(case["values"], np.float32), mask))
            np.testing.assert_allclose(whitened[mask], np.array(case["out"])[mask], rtol=1e-5, atol=1e-5)
            continue
        advantages, returns = core.gae(rewards, values, mask, gamma=case["gamma"], lam=case["lam"])
        whitened = core.masked_whiten(advantages, mask)
        np.testing.assert_allclose(np.asarray(whitened)[mask], np.array(case["advantages"])[mask], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(np.asarray(returns)[mask], np.array(case["returns"])[mask], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("gamma", "lam", "named"), [(1.5, 0.5, "gamma=1.5"), (1.0, -0.1, "lam=-0.1")])
def test_refusals_name_the_value(gamma, lam, named):
    with pytest.raises(ValueError, match=named):
        core.gae(REWARDS, REWARDS, MASK, gamma=gamma, lam=lam)
