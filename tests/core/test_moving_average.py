from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from ragen_jax import core


def test_first_value_initialises_and_later_ones_decay():
    state = core.empty_moving_average()
    expected = None
    for value in (2.0, 1.0, 4.0):
        state = core.update_moving_average(state, jnp.float32(value), jnp.float32(10 * value), decay=0.9)
        expected = value if expected is None else 0.9 * expected + 0.1 * value
        np.testing.assert_allclose([state.ema_std, state.ema_std_sequence], [expected, 10 * expected], rtol=1e-6)
    assert int(state.count) == 3


def test_decay_outside_its_range_is_refused():
    with pytest.raises(ValueError, match=r"decay=1.0"):
        core.update_moving_average(core.empty_moving_average(), jnp.float32(1), jnp.float32(1), decay=1.0)
