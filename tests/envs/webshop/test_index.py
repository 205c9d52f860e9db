"""Keyword search."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragen_jax.envs.webshop.index import SearchIndex, terms
from tests.oracles.bm25 import bm25_scores

documents = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=8).map(" ".join), min_size=1, max_size=12)


@given(texts=documents, query=st.lists(st.sampled_from("bcdefghz"), min_size=1, max_size=4, unique=True))
@settings(max_examples=25, deadline=None)
def test_the_order_is_that_of_bm25(texts: list[str], query: list[str]) -> None:
    scores = bm25_scores([terms(text) for text in texts], terms(" ".join(query)), k1=0.9, b=0.4)
    found = SearchIndex(texts).search(" ".join(query), limit=len(texts))
    assert sorted(found) == np.flatnonzero(scores).tolist()
    ranked = scores[list(found)]
    assert np.all(np.diff(ranked) <= 1e-6 * ranked.max(initial=0))


@given(texts=documents, query=st.lists(st.sampled_from("bcdefgh"), min_size=1, max_size=4), limit=st.integers(1, 12))
@settings(max_examples=25, deadline=None)
def test_a_limit_cuts_the_order_and_changes_nothing_else(texts: list[str], query: list[str], limit: int) -> None:
    index = SearchIndex(texts)
    assert index.search(" ".join(query), limit=limit) == index.search(" ".join(query), limit=99)[:limit]


def test_equal_texts_keep_their_order() -> None:
    index = SearchIndex(["red lamp"] * 30 + ["blue lamp"])
    assert index.search("red", limit=5) == (0, 1, 2, 3, 4)
    assert index.search("blue lamp", limit=2) == (30, 0)


@pytest.mark.parametrize("query", ["", "!!", "the of and", "unknown", "\ud800", "\x00"])
def test_queries_without_a_known_word_find_nothing(query: str) -> None:
    assert SearchIndex(["red lamp", "blue chair"]).search(query, limit=5) == ()


@pytest.mark.parametrize("prefix", ["<r>", "<a>", "<c>", "<q>", "title:", "+", "-", "NOT", '"', "[", "*"])
def test_no_sign_or_prefix_has_a_meaning(prefix: str) -> None:
    index = SearchIndex(["red lamp", "blue chair", "red chair"])
    assert index.search(f"{prefix} red lamp", limit=5) == index.search("red lamp", limit=5)


def test_a_word_counts_once_however_often_it_is_said() -> None:
    index = SearchIndex(["red red red chair", "blue lamp", "red lamp"])
    assert index.search("lamp lamp lamp red", limit=5) == index.search("lamp red", limit=5)


@pytest.mark.parametrize(
    ("plural", "singular"),
    [("Lamps", "lamp"), ("boxes", "box"), ("berries", "berry"), ("benches", "bench"), ("glasses", "glass")],
)
def test_plurals_are_found_by_their_singular(plural: str, singular: str) -> None:
    assert SearchIndex([f"two {plural}"]).search(singular, limit=1) == (0,)


@pytest.mark.parametrize("word", ["glass", "bus", "this", "gas", "oasis", "s"])
def test_other_words_in_s_stay(word: str) -> None:
    assert terms(word) in ([word], [])


def test_an_empty_index_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one text"):
        SearchIndex([])


def test_texts_without_a_word_are_never_found() -> None:
    assert SearchIndex(["", "of the"]).search("of the lamp", limit=5) == ()
