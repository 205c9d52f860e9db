from __future__ import annotations

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis import given

from ragen_jax import core

compiled = jax.jit(core.variance_dispersion)


@given(hnp.arrays(np.float32, 6, elements=st.integers(0, 40).map(lambda n: n / 8)))
def test_agrees_with_leaving_out_by_hand(variances):
    def ratio(x):
        x = x.astype(np.float64)
        return x.std(ddof=1) / x.mean() if x.any() else 0.0

    interval = compiled(variances)
    replicates = [ratio(np.delete(variances, c)) for c in range(6)]
    error = np.sqrt(5 / 6 * np.square(np.subtract(replicates, np.mean(replicates))).sum())
    np.testing.assert_allclose(interval.estimate, ratio(variances), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(interval.std_error, error, rtol=1e-3, atol=1e-5)


def test_scale_cancels():
    variances = np.array([0.1, 0.4, 0.2, 0.9], np.float32)
    np.testing.assert_allclose(
        np.array(core.variance_dispersion(100 * variances)), np.array(core.variance_dispersion(variances)), rtol=1e-5
    )


def test_flat_batches_have_none():
    assert np.array(core.variance_dispersion(np.zeros(8, np.float32))).tolist() == [0.0] * 4


def test_two_prompts_are_refused():
    with pytest.raises(ValueError, match="2 prompts"):
        core.variance_dispersion(np.ones(2, np.float32))
