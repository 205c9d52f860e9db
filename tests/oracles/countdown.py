"""Values that numbers reach, by trying every order of merging two terms; negative and broken values included."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations


def reachable(numbers: tuple[int, ...], *, use_all: bool, operators: str = "+-*/") -> set[Fraction]:
    """All values of expressions over the numbers (over at least two of them when not ``use_all``)."""
    found: set[Fraction] = set()
    sizes = [len(numbers)] if use_all else range(2, len(numbers) + 1)
    for size in sizes:
        for chosen in combinations(numbers, size):
            _merge([Fraction(number) for number in chosen], operators, found)
    return found


def _merge(terms: list[Fraction], operators: str, found: set[Fraction]) -> None:
    if len(terms) == 1:
        found.add(terms[0])
        return
    for i, a in enumerate(terms):
        for j, b in enumerate(terms):
            if i == j:
                continue
            rest = [term for k, term in enumerate(terms) if k not in (i, j)]
            if "+" in operators:
                _merge([*rest, a + b], operators, found)
            if "-" in operators:
                _merge([*rest, a - b], operators, found)
            if "*" in operators:
                _merge([*rest, a * b], operators, found)
            if "/" in operators and b:
                _merge([*rest, a / b], operators, found)
