from __future__ import annotations

import collections

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis import given

from ragen_jax import core

rows_of = jax.jit(core.repeated_rows, static_argnames=("dominance", "least_tokens"))


def test_c40_one_repeated_symbol_and_ordinary_rollouts():
    everything, valid = np.ones((16, 64), bool), np.ones(16, bool)
    same = np.full((16, 64), 11, np.int32)
    assert float(core.repeated_share(same, everything, valid)) == 1.0
    ordinary = np.random.default_rng(0).integers(0, 200, (16, 64)).astype(np.int32)
    assert float(core.repeated_share(ordinary, everything, valid)) == 0.0


@given(
    tokens=hnp.arrays(np.int32, (4, 12), elements=st.integers(0, 3)),
    mask=hnp.arrays(bool, (4, 12)),
)
def test_agrees_with_counting(tokens, mask):
    found = rows_of(tokens, mask, dominance=0.75, least_tokens=4)
    for row, said, repeated in zip(tokens, mask, np.asarray(found), strict=True):
        kept = row[said].tolist()
        most = collections.Counter(kept).most_common(1)[0][1] if kept else 0
        assert bool(repeated) == (len(kept) >= 4 and most >= 0.75 * len(kept))


def test_what_the_policy_did_not_say_and_rows_that_failed_do_not_count():
    tokens = np.full((4, 64), 5, np.int32)
    mask = np.ones((4, 64), bool)
    mask[0, 8:] = False  # eight tokens: too short to be called repetitive
    tokens[1, :32] = np.arange(32)  # an observation between the replies
    mask[1, :32] = False
    valid = np.array([True, True, True, False])
    assert rows_of(tokens, mask).tolist() == [False, True, True, True]
    np.testing.assert_allclose(core.repeated_share(tokens, mask, valid), 2 / 3, rtol=1e-6)
    assert float(core.repeated_share(tokens, mask, np.zeros(4, bool))) == 0.0


def test_refusals():
    with pytest.raises(ValueError, match=r"dominance=0.5"):
        core.repeated_rows(np.zeros((1, 4), np.int32), np.ones((1, 4), bool), dominance=0.5)
    with pytest.raises(AssertionError):
        core.repeated_rows(np.zeros((1, 4), np.int32), np.ones((1, 5), bool))
