"""What is measured of cross-scores, and draws that do not depend on one another."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ragen_jax.core.collapse import collapse_metrics
from ragen_jax.core.estimators import ESTIMATORS
from ragen_jax.training.draws import Stream, generator
from ragen_jax.training.measure import measure, null_permutations
from ragen_jax.types import CrossScores


def test_every_estimator_is_measured_beside_the_metrics() -> None:
    rng = np.random.default_rng(0)
    scores = CrossScores(
        log_probs=rng.normal(-9.0, 2.0, size=(3, 4, 3)).astype(np.float32),
        lengths=np.full((3, 4), 5, np.int32),
        valid=np.ones((3, 4), bool),
        column_class=np.arange(3, dtype=np.int32),
    )
    plain, _ = collapse_metrics(scores)
    numbers, _ = measure(scores)
    further = {name: value for estimate in ESTIMATORS.values() for name, value in estimate(scores).items()}
    assert numbers.keys() == plain.keys() | further.keys()
    assert not plain.keys() & further.keys()
    for name, value in {**plain, **further}.items():
        assert float(numbers[name]) == pytest.approx(float(value), rel=1e-5, abs=1e-6), name
    assert numbers["mi_sequence_low_nats"] < numbers["mi_sequence_nats"] < numbers["mi_sequence_high_nats"]
    assert numbers["wrong_prompt_mi_sequence_nats"] < 0


def test_permutations_of_a_draw_are_permutations_and_of_that_draw() -> None:
    drawn = null_permutations(5, seed=3, draw=2)
    assert np.sort(drawn, axis=1).tolist() == [list(range(5))] * len(drawn)
    assert (null_permutations(5, seed=3, draw=2) == drawn).all()
    assert (null_permutations(5, seed=3, draw=1) != drawn).any()


def test_every_stream_and_every_draw_is_another_one() -> None:
    keys = list(itertools.product((0, 1), Stream, (0, 1, 2)))
    first = [generator(*key).integers(2**63) for key in keys]
    assert len(set(first)) == len(keys)
    assert [generator(*key).integers(2**63) for key in keys] == first
