"""Whether an output is the expected one. Runs in the parent, on values of plain types only."""

from __future__ import annotations

import math
from typing import Any

TOLERANCE = 1e-6
"""Relative, and absolute below 1, where the expected number is a float."""


def same_value(expected: Any, got: Any) -> bool:
    """Equality of Python values, with a tolerance where the expected number is a float; lists equal tuples.

    An expected integer must be met exactly. Sets and keys of dicts are compared exactly too.
    """
    if isinstance(expected, float) and isinstance(got, (int, float)):
        return _near(expected, got)
    if isinstance(expected, (list, tuple)):
        return (
            isinstance(got, (list, tuple))
            and len(expected) == len(got)
            and all(same_value(left, right) for left, right in zip(expected, got, strict=True))
        )
    if isinstance(expected, dict):
        return (
            isinstance(got, dict)
            and expected.keys() == got.keys()
            and all(same_value(value, got[key]) for key, value in expected.items())
        )
    return bool(expected == got)


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
    try:
        return math.isclose(expected, got, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    except OverflowError:  # an integer beyond every float
        return False
