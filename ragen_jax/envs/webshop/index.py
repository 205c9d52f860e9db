"""Keyword search over the products: an inverted index with BM25 weights, shared read-only by all environments."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from ragen_jax.envs.webshop.matching import words

K1, B = 0.9, 0.4  # the usual values of the engine that WebShop was published with
_COMMON = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was
will with
"""
_STOP = frozenset(_COMMON.split())


class SearchIndex:
    """BM25 in the form of Lucene.

    The weight of term t in text d is ``idf(t) * f / (f + k1 * (1 - b + b * |d| / mean |d|))`` with ``idf(t) = ln(1 +
    (N - n + 0.5) / (n + 0.5))``; f counts t in d, n the texts with t, |d| the terms of d. Weights are worked out once;
    a search adds up one slice per term.
    """

    def __init__(self, texts: Sequence[str], *, k1: float = K1, b: float = B) -> None:
        """Index the texts; a search answers with their positions.

        Raises:
          ValueError: there is no text.
        """
        if not texts:
            raise ValueError("an index needs at least one text")
        self._size = len(texts)
        postings: dict[str, list[tuple[int, int]]] = {}
        lengths = np.zeros(len(texts))
        for position, text in enumerate(texts):
            counts = Counter(terms(text))
            lengths[position] = counts.total()
            for term, count in counts.items():
                postings.setdefault(term, []).append((position, count))
        scale = k1 * (1 - b + b * lengths / max(float(lengths.mean()), 1.0))
        self._postings: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        for term, entries in postings.items():
            positions, found = np.array(entries, dtype=np.int32).T
            idf = math.log(1 + (len(texts) - len(entries) + 0.5) / (len(entries) + 0.5))
            self._postings[term] = positions, (idf * found / (found + scale[positions])).astype(np.float32)

    def search(self, query: str, *, limit: int) -> tuple[int, ...]:
        """Positions of the best texts, best first; of equal ones the earlier. Texts without any term are left out.

        Every text is a plain query: no word or sign in it has a special meaning. A repeated word counts once.
        """
        scores = np.zeros(self._size, np.float32)
        for term in dict.fromkeys(terms(query)):
            if term in self._postings:
                positions, weights = self._postings[term]
                scores[positions] += weights
        found = np.flatnonzero(scores)
        if len(found) > limit:  # all that could be among the best, ties of the last place included
            found = found[scores[found] >= np.partition(scores[found], -limit)[-limit]]
        best = found[np.argsort(-scores[found], kind="stable")][:limit]
        return tuple(best.tolist())


def terms(text: str) -> list[str]:
    """Index terms of a text: words without the commonest ones, plural endings taken off."""
    return [_singular(word) for word in words(text) if word not in _STOP]


def _singular(word: str) -> str:
    """A light stemmer for English plurals: "berries" becomes "berry", "boxes" and "box" stay apart from "boss"."""
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("xes", "ches", "shes", "sses", "zes")):
        return word[:-2]
    return word[:-1]
