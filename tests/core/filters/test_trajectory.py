from __future__ import annotations

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from ragen_jax.core.filters import best_and_worst


@given(
    hnp.arrays(np.float32, (2, 6), elements=st.integers(-2, 2).map(float)),
    hnp.arrays(bool, (2, 6)),
    st.sampled_from([(2, 2), (0, 3), (4, 0), (3, 3)]),
)
def test_keeps_both_ends_of_every_prompt(rewards, valid, numbers):
    best, worst = numbers
    keep = np.asarray(best_and_worst(rewards, best=best, worst=worst, valid=valid))
    for i in range(2):
        ranked = sorted(np.flatnonzero(valid[i]), key=lambda k: -rewards[i, k])
        expected = set(ranked[:best]) | (set(ranked[-worst:]) if worst else set())
        assert set(np.flatnonzero(keep[i])) == expected


def test_ties_go_in_rollout_order():
    keep = best_and_worst(np.ones((1, 5), np.float32), best=2, worst=1)
    assert np.flatnonzero(np.asarray(keep)[0]).tolist() == [0, 1, 4]


@pytest.mark.parametrize(("best", "worst"), [(-1, 2), (0, 0), (4, 3)])
def test_refusals_name_the_values(best, worst):
    with pytest.raises(ValueError, match=f"best={best} and worst={worst}"):
        best_and_worst(np.ones((1, 6), np.float32), best=best, worst=worst)
