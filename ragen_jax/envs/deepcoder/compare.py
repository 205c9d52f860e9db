"""Whether an output is the expected one. Runs in the parent, on values that an untrusted program chose.

Nothing of theirs is hashed: a few ten thousand numbers of one hash value would keep the parent busy for seconds. Sets
and dicts are compared as sorted texts.
"""

from __future__ import annotations

import json
import math
from operator import itemgetter
from typing import Any

TOLERANCE = 1e-6
"""Relative, and absolute below 1, where the expected number is a float."""
_EXACT = 2**53  # whole numbers below this are the same as floats and as integers


def same_value(expected: Any, got: Any) -> bool:
    """Equality of two values in the form of ``runner.pack``, with a tolerance where the expected number is a float.

    An expected integer must be met exactly. Numbers are equal as in Python, whatever their type: 1, 1.0 and True are,
    0.0 and -0.0 too; but an expected NaN is met by a NaN, since no program could pass otherwise. Members of sets and
    keys of dicts are compared exactly. The time is that of sorting the text of the values.

    Args:
      expected: what is right.
      got: any JSON; what ``pack`` does not write equals nothing.

    Raises:
      RecursionError: ``got`` is nested too deeply.
    """
    if isinstance(expected, float) and isinstance(got, (int, float)):
        return _near(expected, got)
    match expected, got:
        case [*parts], [*others]:
            return len(parts) == len(others) and all(map(same_value, parts, others))
        case {"set": [*parts]}, {"set": [*others]}:
            return len(parts) == len(others) and sorted(map(_text, parts)) == sorted(map(_text, others))
        case {"dict": [*pairs]}, {"dict": [*others]}:
            return (
                len(pairs) == len(others)
                and all(isinstance(pair, list) and len(pair) == 2 for pair in others)
                and all(
                    key == other_key and same_value(value, other)
                    for (key, value), (other_key, other) in zip(_by_key(pairs), _by_key(others), strict=True)
                )
            )
        case (list() | dict(), _) | (_, list() | dict()):
            return False
    return bool(expected == got)


def _by_key(pairs: list[list[Any]]) -> list[tuple[str, Any]]:
    return sorted(((_text(key), value) for key, value in pairs), key=itemgetter(0))


def _text(packed: Any) -> str:
    """A text that two packed values share if and only if they are equal; True is 1, and 2.0 is 2."""
    match packed:
        case [*parts]:
            return f"[{','.join(map(_text, parts))}]"
        case {"set": [*parts]}:
            return f"{{{','.join(sorted(map(_text, parts)))}}}"
        case bool() | int() | float() if abs(packed) < _EXACT and packed == int(packed):
            return str(int(packed))
    return json.dumps(packed)


def same_output(expected: str, got: str) -> bool:
    """Equality of two texts of standard output: the same words in the same lines.

    Blanks inside a line count as one, blank lines at the end are ignored. A word with a decimal point is met by a
    number within the tolerance.
    """
    left, right = _lines(expected), _lines(got)
    return len(left) == len(right) and all(
        len(words) == len(others) and all(map(_same_word, words, others))
        for words, others in zip(left, right, strict=True)
    )


def _lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.rstrip().split("\n")]


def _same_word(expected: str, got: str) -> bool:
    if expected == got:
        return True
    if "." not in expected:
        return False
    try:
        return _near(float(expected), float(got))
    except ValueError:
        return False


def _near(expected: float, got: float) -> bool:
    if math.isnan(expected):
        return got != got  # only a NaN differs from itself
    try:
        return math.isclose(expected, got, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    except OverflowError:  # an integer beyond every float
        return False
