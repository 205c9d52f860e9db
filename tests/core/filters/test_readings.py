from __future__ import annotations

import math

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis import given

from ragen_jax.core.filters import READINGS, top_p, top_p_by_reading
from tests.oracles import learning
from tests.oracles import scores as oracle

REWARDS = hnp.arrays(np.float32, (6, 4), elements=st.integers(0, 6).map(lambda n: n / 2))
RHO = st.integers(1, 20).map(lambda n: n / 20)


def kept(result):
    return set(np.flatnonzero(np.asarray(result.keep)).tolist())


def by_hand(rewards, reading, rho):
    """Walk down the ranking until the mass is there; float64."""
    variances = [learning.variance([float(r) for r in row]) for row in rewards]
    flat = [len(set(row.tolist())) == 1 for row in rewards]
    among = [i for i in range(len(variances)) if not flat[i]]
    score = [math.sqrt(v) for v in variances]
    mass = {
        "variance": lambda i: variances[i],
        "std": lambda i: score[i],
        "softmax_std": lambda i: math.exp(score[i]),
        "prompt_fraction": lambda i: 1.0,
    }[reading]
    total = math.fsum(map(mass, among))
    chosen, reached = set(), 0.0
    for i in sorted(among, key=lambda i: -variances[i]):
        if reached >= rho * total - 1e-6 * total:
            break
        chosen.add(i)
        reached += mass(i)
    return chosen


@given(REWARDS, RHO)
def test_readings_are_what_they_say(rewards, rho):
    for reading in READINGS:
        assert kept(top_p_by_reading(rewards, reading=reading, rho=rho)) == by_hand(rewards, reading, rho), reading


@given(REWARDS, RHO)
def test_a_concave_mass_keeps_more_prompts(rewards, rho):
    """The variance is the steepest of the three and a count is level: each keeps a part of what the next one keeps."""
    sets = [kept(top_p_by_reading(rewards, reading=name, rho=rho)) for name in ("variance", "std", "prompt_fraction")]
    assert sets[0] <= sets[1] <= sets[2]


@given(REWARDS, RHO, st.sampled_from([0.25, 8.0]))
def test_only_the_softmax_depends_on_the_scale(rewards, rho, scale):
    for reading in ("variance", "std", "prompt_fraction"):
        same = top_p_by_reading(rewards * np.float32(scale), reading=reading, rho=rho)
        assert kept(same) == kept(top_p_by_reading(rewards, reading=reading, rho=rho))


def test_the_softmax_reading_depends_on_the_scale():
    rewards = np.array([[0, 4], [0, 2], [0, 1], [0, 0.5]], np.float32)
    small, large = (top_p_by_reading(rewards * scale, reading="softmax_std", rho=0.9) for scale in (0.1, 10))
    assert (int(small.kept_count), int(large.kept_count)) == (4, 1)


def test_b4_softmax_keeps_nearly_all_of_binary_rewards():
    """P=8, G=16: whatever the mix of successes, at most one prompt that differs is left out."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        wins = rng.integers(1, 16, 8)
        rewards = (np.arange(16) < wins[:, None]).astype(np.float32)
        assert int(top_p_by_reading(rewards, reading="softmax_std", rho=0.9).kept_count) >= 7


@given(
    st.lists(st.integers(-9, 9).map(float), min_size=7, max_size=7),
    st.lists(st.booleans(), min_size=7, max_size=7),
    RHO,
)
def test_count_takes_the_best_of_those_that_take_part_whatever_the_sign(scores, flat, rho):
    result = top_p(np.array(scores, np.float32), rho=rho, flat=np.array(flat), mass="count")
    assert kept(result) == oracle.kept_by_count(scores, flat, rho)


def test_valid_rows_and_bad_input():
    rewards = np.array([[0, 1, np.nan], [2, 2, 5], [0, 3, 3]], np.float32)
    valid = np.array([[1, 1, 0], [1, 1, 0], [1, 1, 1]], bool)
    assert kept(top_p_by_reading(rewards, reading="variance", rho=1.0, valid=valid)) == {0, 2}
    assert kept(top_p_by_reading(rewards, reading="prompt_fraction", rho=1.0, valid=valid, include_zero=True)) == {
        0,
        1,
        2,
    }
    with pytest.raises(ValueError, match="prompt 0, rollout 2 is nan"):
        top_p_by_reading(rewards, reading="std", rho=0.9)
    with pytest.raises(KeyError, match="did you mean 'variance'"):
        top_p_by_reading(rewards, reading="varianse", rho=0.9, valid=valid)
    with pytest.raises(ValueError, match="rho=0"):
        top_p_by_reading(rewards, reading="std", rho=0, valid=valid)
    with pytest.raises(AssertionError):
        top_p_by_reading(rewards, reading="std", rho=0.9, valid=valid[:2])


@pytest.mark.parametrize("reading", list(READINGS))
def test_batches_without_a_choice(reading):
    def keep(rewards):
        return kept(top_p_by_reading(np.array(rewards, np.float32), reading=reading, rho=0.9))

    assert keep([[0, 1]]) == {0}  # one prompt
    assert keep([[1, 1]]) == set()
    assert keep([[1], [2]]) == set()  # groups of one
    assert keep([[0.1] * 16] * 4) == set()
    none_valid = top_p_by_reading(np.zeros((2, 2), np.float32), reading=reading, rho=0.9, valid=np.zeros((2, 2), bool))
    assert kept(none_valid) == set() and np.isfinite(float(none_valid.kept_mass))


def test_readings_run_inside_jit():
    rewards = np.random.default_rng(0).integers(0, 2, (8, 4)).astype(np.float32)
    for reading in READINGS:
        compiled = jax.jit(lambda r, name=reading: top_p_by_reading(r, reading=name, rho=0.5).keep)
        np.testing.assert_array_equal(compiled(rewards), top_p_by_reading(rewards, reading=reading, rho=0.5).keep)
