"""Is an answer right: exact match and token F1 after the normalisation of SQuAD (Rajpurkar et al. 2016)."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CLOSED = frozenset({"yes", "no", "noanswer"})


def normalise(text: str) -> str:
    """Lower case, without ASCII punctuation, without the words a, an and the, with single blanks."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, golds: Sequence[str]) -> bool:
    """True when the normalised answer is one of the normalised gold answers, and not empty."""
    shown = normalise(answer)
    return bool(shown) and any(shown == normalise(gold) for gold in golds)


def token_f1(answer: str, golds: Sequence[str]) -> float:
    """Best F1 over the gold answers, 0 to 1.

    F1 = 2 P R / (P + R) with P and R the shares of common tokens (a multiset) in the answer and in the gold one. Yes,
    no and noanswer, on either side, match as a whole or not at all.
    """
    return max((_f1(normalise(answer), normalise(gold)) for gold in golds), default=0.0)


def _f1(answer: str, gold: str) -> float:
    if answer in _CLOSED or gold in _CLOSED:
        return float(answer == gold)
    given, wanted = answer.split(), gold.split()
    common = sum((Counter(given) & Counter(wanted)).values())
    return 2 * common / (len(given) + len(wanted)) if common else 0.0
