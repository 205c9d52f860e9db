"""Streams, content split and distinct instances."""

from __future__ import annotations

import itertools
import logging

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragen_jax.envs import make_env
from ragen_jax.envs.instances import (
    content_hash,
    distinct_seeds,
    draw_instance,
    dynamics_rng,
    in_split,
    layout_rng,
)


def test_content_hash_is_sha256() -> None:
    assert content_hash("abc") == 0xBA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])), st.integers(0, 100))
def test_each_instance_is_in_exactly_one_split(text: str, percent: int) -> None:
    train = in_split(text, split="train", validation_percent=percent)
    validation = in_split(text, split="validation", validation_percent=percent)
    assert train != validation
    assert in_split(text, split="all", validation_percent=percent)
    assert validation == (content_hash(text) % 100 < percent)


def test_unknown_split_is_refused() -> None:
    with pytest.raises(ValueError, match="split='test'"):
        in_split("a", split="test", validation_percent=10)


@given(st.integers(-(2**70), 2**70), st.integers(0, 1000))
def test_streams_repeat_and_differ(seed: int, index: int) -> None:
    assert layout_rng(seed, index).random() == layout_rng(seed, index).random()
    draws = {
        layout_rng(seed, index).random(),
        layout_rng(seed, index + 1).random(),
        layout_rng(seed + 1, index).random(),
        layout_rng(-seed - 1, index).random(),
        dynamics_rng(seed, index).random(),
        dynamics_rng(seed, index + 1).random(),
    }
    assert len(draws) == 6


def test_members_are_not_correlated() -> None:
    draws = np.array([dynamics_rng(3, member).random(2000) for member in range(8)])
    correlation = np.corrcoef(draws) - np.eye(8)
    assert np.abs(correlation).max() < 5 / np.sqrt(2000)


def _number(rng: np.random.Generator) -> int:
    return int(rng.integers(200))


def test_the_first_instance_in_the_split_is_drawn() -> None:
    for seed in range(20):
        drawn = draw_instance(_number, str, seed=seed, split="validation", validation_percent=20)
        numbers = (_number(layout_rng(seed, attempt)) for attempt in itertools.count())
        assert drawn == next(n for n in numbers if in_split(str(n), split="validation", validation_percent=20))


def test_unusable_draws_are_drawn_again() -> None:
    def odd(rng: np.random.Generator) -> int | None:
        number = _number(rng)
        return number if number % 2 else None

    drawn = [draw_instance(odd, str, seed=seed, split="all", validation_percent=0) for seed in range(20)]
    assert all(number % 2 for number in drawn)


@pytest.mark.parametrize(("split", "percent"), [("validation", 0), ("train", 100)])
def test_an_empty_split_is_refused_at_once(split: str, percent: int) -> None:
    with pytest.raises(ValueError, match=f"split='{split}' is empty with validation_percent={percent}"):
        draw_instance(_number, str, seed=0, split=split, validation_percent=percent)


def test_hopeless_options_are_given_up() -> None:
    with pytest.raises(ValueError, match="no instance of split 'train' in 50 attempts"):
        draw_instance(lambda rng: None, str, seed=0, split="train", validation_percent=10, attempts=50)


def test_rows_of_data_without_one_for_the_split_are_said_to_be_few() -> None:
    with pytest.raises(ValueError, match=r"'train' in 50 draws from 3 rows of data; .*_percent=10: use more"):
        draw_instance(lambda rng: None, str, seed=0, split="train", validation_percent=10, attempts=50, rows=3)


def test_distinct_seeds_are_new_instances() -> None:
    env = make_env("frozen_lake", split="validation")
    found = distinct_seeds(lambda: make_env("frozen_lake", split="validation"), first_seed=123, count=200)
    texts = []
    for seed in found.seeds:
        env.reset(seed)
        texts.append(env.canonical())
    assert len(set(texts)) == found.distinct == 200
    assert found.repeated == 0
    assert list(found.seeds) == sorted(set(found.seeds))


def test_few_instances_are_repeated_and_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found = distinct_seeds(lambda: make_env("bandit", split="validation"), first_seed=0, count=40)
    assert (found.distinct, found.repeated) == (16, 24)  # 8 pairs in two orders
    assert len(set(found.seeds)) == 40
    assert "only 16 distinct instances" in caplog.text


@pytest.mark.parametrize("arguments", [{"count": 0}, {"count": 1, "walk": 0}])
def test_bad_counts_are_refused(arguments: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="use 1 or more"):
        distinct_seeds(lambda: make_env("bandit"), first_seed=0, **arguments)
