"""Comparison of short texts."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragen_jax.envs.webshop.matching import COLOURS, colour_of, contains, title_nouns, token_set_ratio, words

VOCABULARY = "large x small xx red blue cotton pack of 2 long sleeve sleeves free gluten"
phrases = st.lists(st.sampled_from(VOCABULARY.split()), max_size=5).map(" ".join)
texts = st.one_of(phrases, st.text(alphabet="abc 12-,.&", max_size=20))


def _longest_common_subsequence(one: str, two: str) -> int:
    """By the textbook table."""
    table = [[0] * (len(two) + 1) for _ in range(len(one) + 1)]
    for i, j in itertools.product(range(len(one)), range(len(two))):
        table[i + 1][j + 1] = table[i][j] + 1 if one[i] == two[j] else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


def _ratio(first: str, second: str) -> float:
    """From the definition in the docstring, without short cuts."""
    one, two = set(words(first)), set(words(second))
    if not one or not two:
        return 0.0
    common = sorted(one & two)
    strings = [" ".join(common), " ".join(common + sorted(one - two)), " ".join(common + sorted(two - one))]
    pairs = [(s, t) for s, t in itertools.combinations(strings, 2) if s and t]
    return 100 * max(2 * _longest_common_subsequence(s, t) / (len(s) + len(t)) for s, t in pairs)


@given(first=texts, second=texts)
@settings(max_examples=25, deadline=None)
def test_the_ratio_is_its_definition(first: str, second: str) -> None:
    assert token_set_ratio(first, second) == pytest.approx(_ratio(first, second))
    assert token_set_ratio(first, second) == token_set_ratio(second, first)
    assert 0 <= token_set_ratio(first, second) <= 100


@given(first=texts, second=texts)
@example(first="large", second="x-large")
@settings(max_examples=25, deadline=None)
def test_the_ratio_is_that_of_rapidfuzz(first: str, second: str) -> None:
    fuzz = pytest.importorskip("rapidfuzz.fuzz", reason="rapidfuzz is an oracle of the extra 'test'")
    utils = pytest.importorskip("rapidfuzz.utils")
    expected = fuzz.token_set_ratio(first, second, processor=utils.default_process)
    assert token_set_ratio(first, second) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("first", "second", "ratio"),
    [
        ("large", "x-large", 100.0),  # why sizes are compared otherwise
        ("Blue, Dark", "dark blue", 100.0),
        ("", "blue", 0.0),
        ("!!", "!!", 0.0),
        ("abc", "xyz", 0.0),
        ("long sleeve", "short sleeve", 100 * 2 * 6 / 17),  # "sleeve" and "sleeve long"
    ],
)
def test_ratios_worked_by_hand(first: str, second: str, ratio: float) -> None:
    assert token_set_ratio(first, second) == pytest.approx(ratio)


@pytest.mark.parametrize(
    ("text", "colour"),
    [
        ("Dark RED stripes", "red"),
        ("rose gold | 38mm", "rose gold"),
        ("gold", "gold"),
        ("layered", "layered"),
        ("navy blue", "navy blue"),
        ("light blue", "blue"),
        ("dark chocolate", "dark chocolate"),
        ("", ""),
    ],
)
def test_a_colour_is_the_first_colour_word(text: str, colour: str) -> None:
    assert colour_of(text) == colour


def test_a_colour_of_two_words_stands_before_its_parts() -> None:
    for index, name in enumerate(COLOURS):
        for earlier in COLOURS[:index]:
            assert not set(earlier) <= set(name), f"{earlier} hides {name}"


def test_nouns_leave_out_what_does_not_name_a_kind() -> None:
    title = "Norvale 2-Pack Machine Washable Cotton T-Shirt for Women, Navy Blue, Large"
    assert title_nouns(title) == {"norvale", "machine", "cotton", "t", "shirt"}
    assert title_nouns("100% red") == frozenset()


def test_a_literal_phrase_may_stand_in_any_text_in_any_case() -> None:
    assert contains(("a", "it is Machine Washable."), "machine washable")
    assert not contains(("machine", "washable"), "machine washable")
    assert not contains((), "x")
