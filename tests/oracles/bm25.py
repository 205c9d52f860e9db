"""BM25 in float64, written from the formula of Lucene's variant (Kamphuis et al. 2020)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np


def bm25_scores(documents: Sequence[Sequence[str]], query: Sequence[str], *, k1: float = 1.5, b: float = 0.75):
    """Score [N] of each document: sum over query words of ln(1 + (N - n + .5)/(n + .5)) * f / (f + k1(1 - b + b d))."""
    counts = [Counter(document) for document in documents]
    lengths = np.array([len(document) for document in documents], dtype=np.float64)
    scores = np.zeros(len(documents))
    for word in query:
        frequency = np.array([count[word] for count in counts], dtype=np.float64)
        containing = np.count_nonzero(frequency)
        if containing:
            rarity = np.log(1 + (len(documents) - containing + 0.5) / (containing + 0.5))
            scores += rarity * frequency / (frequency + k1 * (1 - b + b * lengths / lengths.mean()))
    return scores
