from __future__ import annotations

import json

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis import given

from ragen_jax import core
from ragen_jax.core.advantages import returns_to_go
from tests.oracles import learning as oracle

NUMBERS = st.integers(-16, 16).map(lambda n: n / 4)
compiled = jax.jit(returns_to_go, static_argnames=("gamma",))


@pytest.mark.parametrize("gamma", [1.0, 0.9, 0.0])
@given(rewards=hnp.arrays(np.float32, (2, 6), elements=NUMBERS), mask=hnp.arrays(bool, (2, 6)))
def test_rewards_to_go_agree_with_the_oracle(gamma, rewards, mask):
    expected = oracle.returns_to_go(rewards, mask, gamma=gamma)
    np.testing.assert_allclose(compiled(rewards, mask, gamma=gamma), expected, rtol=1e-5, atol=1e-5)


def test_golden_rewards_to_go_and_whitening(golden_dir):
    """Without holes: there an observation cuts the sum off, so that no later reward reaches the turns before it."""
    golden = json.loads((golden_dir / "advantages.json").read_text())["others"]
    case = next(case for case in golden["cases"] if case["fn"] == "reinforce_plus_plus")
    mask, returns = np.array(golden["mask"], bool), np.array(case["returns"], np.float32)
    rewards = np.zeros(mask.shape, np.float32)
    rewards[:, -1] = golden["scores"]
    whole = [row for row in range(len(mask)) if mask[row, -1] and not (np.diff(mask[row].astype(int)) < 0).any()]
    assert len(whole) >= 3
    ours = np.asarray(returns_to_go(rewards, mask, gamma=case["gamma"]))
    np.testing.assert_allclose(ours[whole], (returns * mask)[whole], rtol=1e-5)
    whitened = core.masked_whiten(returns, mask)
    np.testing.assert_allclose(whitened, np.array(case["advantages"]) * mask, rtol=1e-5, atol=1e-6)


def test_golden_baseline_form(golden_dir):
    golden = json.loads((golden_dir / "advantages.json").read_text())["others"]
    case = next(case for case in golden["cases"] if case["fn"] == "reinforce_plus_plus_baseline")
    scores, ids = np.array(golden["scores"], np.float32), np.array(golden["index"])
    mask = np.array(golden["mask"], bool)
    centred = np.asarray(core.group_advantages_by_id(scores, ids, num_groups=len(ids), normalize_by_std=False))
    single = np.bincount(ids)[ids] == 1
    assert not centred[single].any()
    # There a group of one keeps its raw score, which then takes part in the whitening of all.
    centred = np.where(single, scores, centred)
    whitened = core.masked_whiten(centred[:, None] * mask, mask)
    np.testing.assert_allclose(whitened, np.array(case["advantages"]), rtol=1e-5, atol=1e-6)
