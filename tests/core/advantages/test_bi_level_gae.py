from __future__ import annotations

import json

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis import given

from ragen_jax import core
from ragen_jax.core.advantages import bi_level_gae
from tests.oracles import learning as oracle

NUMBERS = st.integers(-16, 16).map(lambda n: n / 4)
compiled = jax.jit(bi_level_gae, static_argnames=("gamma", "lam", "turn_gamma"))


@pytest.mark.parametrize(("gamma", "lam", "turn_gamma"), [(1.0, 1.0, 0.95), (0.9, 0.8, 0.7), (0.5, 0.0, 1.0)])
@given(
    rewards=hnp.arrays(np.float32, (2, 7), elements=NUMBERS),
    values=hnp.arrays(np.float32, (2, 7), elements=NUMBERS),
    mask=hnp.arrays(bool, (2, 7)),
    turns=hnp.arrays(np.int32, (2, 7), elements=st.integers(0, 2)).map(lambda x: np.sort(x, axis=1)),
)
def test_agrees_with_the_two_passes_of_the_oracle(gamma, lam, turn_gamma, rewards, values, mask, turns):
    options = {"gamma": gamma, "lam": lam, "turn_gamma": turn_gamma}
    expected = oracle.bi_level_gae(rewards, values, mask, turns, **options)
    actual = compiled(rewards, values, mask, np.where(mask, turns, -1).astype(np.int32), **options)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


@given(
    rewards=hnp.arrays(np.float32, (2, 6), elements=NUMBERS),
    values=hnp.arrays(np.float32, (2, 6), elements=NUMBERS),
    mask=hnp.arrays(bool, (2, 6)),
)
def test_one_turn_per_row_is_plain_gae(rewards, values, mask):
    """The reward of a turn stands at its end."""
    last = mask & (np.cumsum(mask[:, ::-1], axis=1)[:, ::-1] == 1)
    rewards = np.where(last, rewards, 0).astype(np.float32)
    turns = np.where(mask, 3, -1).astype(np.int32)
    plain = core.gae(rewards, values, mask, gamma=0.9, lam=0.8)
    np.testing.assert_allclose(
        compiled(rewards, values, mask, turns, gamma=0.9, lam=0.8, turn_gamma=0.5), plain, rtol=1e-5, atol=1e-5
    )


def test_turns_of_reward_zero_end_too():
    """Three turns, the middle one pays nothing; only the discount between turns counts."""
    mask = np.array([[1, 1, 0, 1, 0, 1, 1]], bool)
    turns = np.array([[0, 0, -1, 1, -1, 2, 2]], np.int32)
    rewards = np.array([[0, -1, 0, 0, 0, 0, 4]], np.float32)
    advantages, returns = bi_level_gae(rewards, 0 * rewards, mask, turns, gamma=1.0, lam=1.0, turn_gamma=0.5)
    np.testing.assert_allclose(advantages, [[0, 0, 0, 2, 0, 4, 4]])  # -1 + 0.25 * 4 in the first turn
    np.testing.assert_allclose(returns, advantages)
    # Within a turn the discount per token applies, between turns it does not.
    advantages, _ = bi_level_gae(rewards, 0 * rewards, mask, turns, gamma=0.5, lam=1.0, turn_gamma=1.0)
    np.testing.assert_allclose(advantages, [[1.5, 3, 0, 4, 0, 2, 4]])


def test_what_stands_outside_the_mask_is_not_read():
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=(2, 2, 6)).astype(np.float32)
    mask = np.array([[1, 1, 0, 1, 0, 0], [0, 1, 1, 0, 1, 1]], bool)
    turns = np.array([[0, 0, 9, 1, 9, 9], [9, 0, 0, 9, 1, 1]], np.int32)
    options = {"gamma": 0.9, "lam": 0.8, "turn_gamma": 0.7}
    plain = bi_level_gae(rewards, values, mask, turns, **options)
    wild = [np.where(mask, x, np.nan).astype(np.float32) for x in (rewards, values)]
    np.testing.assert_array_equal(bi_level_gae(*wild, mask, np.where(mask, turns, 0), **options), plain)
    assert not np.asarray(plain)[:, ~mask].any()


def test_golden_after_whitening(golden_dir):
    compared = 0
    for case in json.loads((golden_dir / "advantages.json").read_text())["bi_level_gae"]:
        rewards, values, mask = (np.array(case[name], np.float32) for name in ("token_level_rewards", "values", "mask"))
        mask = mask.astype(bool)
        # There a turn ends at a reward that is not zero; here the masks say it, so that the last turn may pay nothing.
        ends = mask & (rewards != 0)
        turns = np.where(mask, np.cumsum(ends, axis=1) - ends, -1).astype(np.int32)
        advantages, returns = bi_level_gae(
            rewards, values, mask, turns, gamma=case["gamma"], lam=case["lam"], turn_gamma=case["high_level_gamma"]
        )
        assert np.isfinite(advantages).all()
        if case["error"]:  # a last token without reward breaks the released code
            continue
        whitened = np.asarray(core.masked_whiten(advantages, mask))
        np.testing.assert_allclose(whitened[mask], np.array(case["advantages"])[mask], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(np.asarray(returns)[mask], np.array(case["returns"])[mask], rtol=1e-5, atol=1e-5)
        compared += 1
    assert compared >= 3


@pytest.mark.parametrize("name", ["gamma", "lam", "turn_gamma"])
def test_refusals_name_the_value(name):
    x = np.zeros((1, 2), np.float32)
    options = {"gamma": 1.0, "lam": 1.0, "turn_gamma": 1.0} | {name: 1.5}
    with pytest.raises(ValueError, match=rf"{name}=1\.5"):
        bi_level_gae(x, x, x > 0, x.astype(np.int32), **options)
