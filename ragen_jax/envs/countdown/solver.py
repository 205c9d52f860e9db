"""Exact solver: every target that a set of numbers reaches, and with which operators."""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations

from ragen_jax.envs.countdown.expressions import Expression, Number, Operation

OPERATORS = "+-*/"
MAX_NUMBERS = 5  # the work grows about thirty-fold with each further number

# Numerator and denominator of a value in lowest terms, and the operators used, bit i for OPERATORS[i].
_Key = tuple[int, int, int]
_PLUS, _MINUS, _TIMES, _DIVIDE = 1, 2, 4, 8


def solve(numbers: tuple[int, ...], *, low: int, high: int, use_all: bool) -> dict[int, dict[str, Expression]]:
    """Solutions for every whole target that can be reached.

    No intermediate result is negative. That loses no target: where a difference is negative, the swapped difference
    and the opposite operation above it give the same value.

    Args:
      numbers: 2 to ``MAX_NUMBERS`` numbers, zero or more.
      low: smallest target of interest, zero or more.
      high: largest target of interest.
      use_all: a solution uses every number once; else each at most once, and at least two of them.

    Returns:
      For each reachable target one solution per set of operators (its text in the order of ``OPERATORS``).

    Raises:
      ValueError: for too few or too many numbers.
    """
    count = len(numbers)
    if not 2 <= count <= MAX_NUMBERS:
        raise ValueError(f"{count} numbers: use 2 to {MAX_NUMBERS}")
    tables: dict[int, dict[_Key, Expression]] = {
        1 << index: {(number, 1, 0): Number(number)} for index, number in enumerate(numbers)
    }
    found: dict[int, dict[str, Expression]] = {}
    everything = (1 << count) - 1
    for size in range(2, count + 1):
        for chosen in combinations(range(count), size):
            subset = sum(1 << index for index in chosen)
            # Of the whole set only targets matter, which saves most of the work.
            table = _combine(tables, subset, low=low, high=high) if subset == everything else _combine(tables, subset)
            tables[subset] = table
            if subset == everything or not use_all:
                for (numerator, denominator, used), expression in table.items():
                    if denominator == 1 and low <= numerator <= high:
                        found.setdefault(numerator, {}).setdefault(_names(used), expression)
    return found


def smallest(solutions: dict[str, Expression]) -> str:
    """The smallest of several operator sets; of equal ones the first in the order of ``OPERATORS``."""
    return min(solutions, key=lambda used: (len(used), [OPERATORS.index(symbol) for symbol in used]))


def is_additive(used: str) -> bool:
    """True when an operator set has neither multiplication nor division."""
    return set(used) <= {"+", "-"}


def _combine(
    tables: dict[int, dict[_Key, Expression]], subset: int, *, low: int = 0, high: int | None = None
) -> dict[_Key, Expression]:
    """Values of a subset of the numbers; with ``high`` only the whole ones from ``low`` to ``high``."""
    table: dict[_Key, Expression] = {}

    def add(numerator: int, denominator: int, used: int, operator: str, left: Expression, right: Expression) -> None:
        if high is not None and (numerator % denominator or not low <= numerator // denominator <= high):
            return
        divisor = math.gcd(numerator, denominator)
        key = (numerator // divisor, denominator // divisor, used)
        if key not in table:
            table[key] = Operation(operator, left, right)

    for part in _splits(subset):
        for (n, d, used_left), left in tables[part].items():
            for (m, e, used_right), right in tables[subset ^ part].items():
                used = used_left | used_right
                add(n * e + m * d, d * e, used | _PLUS, "+", left, right)
                if n * e >= m * d:
                    add(n * e - m * d, d * e, used | _MINUS, "-", left, right)
                else:
                    add(m * d - n * e, d * e, used | _MINUS, "-", right, left)
                add(n * m, d * e, used | _TIMES, "*", left, right)
                if m:
                    add(n * e, d * m, used | _DIVIDE, "/", left, right)
                if n:
                    add(m * d, e * n, used | _DIVIDE, "/", right, left)
    return table


@cache
def _splits(subset: int) -> tuple[int, ...]:
    """One half of every split in two; large halves first, so that solutions with few brackets are found first."""
    lowest = subset & -subset
    halves = [part for part in range(1, subset) if part & subset == part and part & lowest]
    return tuple(sorted(halves, key=lambda part: (-part.bit_count(), part)))


def _names(used: int) -> str:
    return "".join(symbol for index, symbol in enumerate(OPERATORS) if used >> index & 1)
