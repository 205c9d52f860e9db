from __future__ import annotations

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis import given

from ragen_jax.core.checks import check_rewards
from ragen_jax.core.scores import SCORES, ScoreInputs, group_scores
from tests.oracles import scores as oracle

P, G, K = 3, 5, 4
VALUES = st.integers(-8, 8).map(lambda n: n / 4)


def arrays(shape, elements=VALUES):
    return hnp.arrays(np.float32, shape, elements=elements)


def seen(name, inputs, prompt):
    """The numbers of one group that a score is about."""
    rows = np.flatnonzero(inputs.valid[prompt])
    values = getattr(inputs, SCORES[name].needs)[prompt][rows].astype(np.float64)
    return (values.mean(axis=1) if values.ndim == 2 else values).tolist()


@given(
    arrays((P, G)),
    hnp.arrays(bool, (P, G)),
    arrays((P, G), st.integers(0, 60).map(float)),
    arrays((P, G), st.integers(0, 16).map(lambda n: n / 8)),
    arrays((P, G, K)),
)
def test_scores_are_what_their_names_say(rewards, valid, lengths, entropies, replays):
    inputs = ScoreInputs(rewards=rewards, valid=valid, lengths=lengths, entropies=entropies, replays=replays)
    assert set(oracle.SCORES) == set(SCORES)
    for name, expected in oracle.SCORES.items():
        got = np.asarray(group_scores(name, inputs))
        assert got.dtype == np.float32 and got.shape == (P,)
        for prompt in range(P):
            np.testing.assert_allclose(got[prompt], expected(seen(name, inputs, prompt)), atol=1e-5, err_msg=name)
        if SCORES[name].non_negative:
            assert (got >= 0).all()


@pytest.mark.parametrize("name", list(SCORES))
def test_scores_run_inside_jit_and_ignore_what_is_not_valid(name):
    rng = np.random.default_rng(0)
    inputs = ScoreInputs(
        rewards=rng.normal(size=(P, G)).astype(np.float32),
        valid=np.arange(G) < np.array([[5], [2], [0]]),
        lengths=rng.integers(1, 9, (P, G)).astype(np.float32),
        entropies=rng.random((P, G)).astype(np.float32),
        replays=rng.normal(size=(P, G, K)).astype(np.float32),
    )
    compiled = jax.jit(lambda inputs: group_scores(name, inputs))
    scores = compiled(inputs)
    np.testing.assert_allclose(scores, group_scores(name, inputs), rtol=1e-6)
    broken = {
        field: np.where(inputs.valid if value.ndim == 2 else inputs.valid[..., None], value, np.nan)
        for field, value in inputs._asdict().items()
        if field != "valid"
    }
    np.testing.assert_array_equal(compiled(inputs._replace(**broken)), np.asarray(scores))
    assert scores[2] == 0  # nothing is known of a group without valid rows


def test_a_group_of_one_has_no_variance():
    inputs = ScoreInputs(rewards=np.ones((2, 1), np.float32), valid=np.ones((2, 1), bool))
    assert group_scores("reward_variance", inputs).tolist() == [0.0, 0.0]
    assert group_scores("reward_mean", inputs).tolist() == [1.0, 1.0]


def test_missing_inputs_are_named():
    inputs = ScoreInputs(rewards=np.zeros((2, 2), np.float32), valid=np.ones((2, 2), bool))
    for name, part in (("entropy", "entropies"), ("length", "lengths"), ("replayed_variance", "replays")):
        with pytest.raises(ValueError, match=f"'{name}' reads {part}"):
            group_scores(name, inputs)
    with pytest.raises(KeyError, match="did you mean 'entropy'"):
        group_scores("entrpy", inputs)
    with pytest.raises(AssertionError):
        group_scores("length", inputs._replace(lengths=np.zeros((2, 3), np.float32)))
    with pytest.raises(AssertionError):
        group_scores("reward_mean", inputs._replace(valid=np.ones((2, 3), bool)))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_broken_rewards_are_named(bad):
    rewards = np.zeros((3, 4), np.float32)
    rewards[1, 2] = bad
    with pytest.raises(ValueError, match=rf"prompt 1, rollout 2 is {bad}"):
        check_rewards(rewards)
    with pytest.raises(ValueError, match="prompt 1, rollout 2"):
        check_rewards(jax.numpy.asarray(rewards), np.ones((3, 4), bool))
    valid = np.ones((3, 4), bool)
    valid[1, 2] = False
    check_rewards(rewards, valid)
    jax.jit(lambda r: [check_rewards(r), r][1])(rewards)  # nothing can be known inside jit
