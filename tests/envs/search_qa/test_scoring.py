"""Exact match and F1."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragen_jax.envs.search_qa.scoring import exact_match, normalise, token_f1


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("The  River Orvel.", "river orvel"),
        ("a an the", ""),
        ("Theatre an-other", "theatre another"),
        ("U.S.A.", "usa"),
        ("1,000", "1000"),
        ("\tÉcole\n", "école"),
    ],
)
def test_normalisation(text: str, plain: str) -> None:
    assert normalise(text) == plain


@pytest.mark.parametrize(
    ("answer", "golds", "match", "f1"),
    [
        ("the Orvel!", ["River Orvel", "Orvel"], True, 1.0),
        ("Orvel", ["River Orvel"], False, 2 / 3),
        ("1643 or 1644", ["1643"], False, 0.5),
        ("yes", ["Yes."], True, 1.0),
        ("yes it is", ["yes"], False, 0.0),
        ("no", ["no answer was given"], False, 0.0),
        ("Tal Tal Orn", ["Tal Orn Orn"], False, 2 / 3),
        ("", ["x"], False, 0.0),
        ("the", ["x"], False, 0.0),
        ("alpha", ["beta"], False, 0.0),
        ("alpha gamma", ["beta", "alpha delta", "alpha"], False, 2 / 3),
    ],
)
def test_vectors(answer: str, golds: list[str], match: bool, f1: float) -> None:
    assert exact_match(answer, golds) is match
    assert token_f1(answer, golds) == pytest.approx(f1)


words = st.lists(st.sampled_from(["orn", "tal", "the", "1643", "Orn,", "yes"]), max_size=5).map(" ".join)


@given(first=words, second=words)
@settings(max_examples=25, deadline=None)
def test_f1_is_symmetric_bounded_and_one_for_a_match(first: str, second: str) -> None:
    f1 = token_f1(first, [second])
    assert 0 <= f1 <= 1
    assert f1 == token_f1(second, [first])
    if exact_match(first, [second]):
        assert f1 == 1
