"""One line of the table of the theory checks, and the two kinds of statement that are compared."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

ROUNDING = 1e-9  # relative, for float64
HOLDS, FAILS, MEASURED = "holds", "fails", "measured"


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line of the table.

    Attributes:
      claim: short name.
      statement: the inequality or identity.
      method: how it was checked.
      expected: "holds" (a violation is an error), "fails" (a counter-example must be found) or "measured".
      draws: cases looked at.
      violations: cases in which the statement was false.
      tightest: of an inequality the largest left / right among the cases that hold, of an identity the largest
        deviation, of a failure the worst case; what it is stands in ``note``.
      note: in words.
    """

    claim: str
    statement: str
    method: str
    expected: str
    draws: int
    violations: int
    tightest: float
    note: str

    @property
    def as_expected(self) -> bool:
        """False when a statement that must hold was violated, or no counter-example was found where one exists."""
        return self.expected == MEASURED or (self.violations > 0) == (self.expected == FAILS)


def inequality(
    claim: str, statement: str, method: str, low: list[Any], high: list[Any], note: str, expected: str
) -> Finding:
    """``low <= high`` up to rounding."""
    small, large = np.concatenate([np.ravel(x) for x in low]), np.concatenate([np.ravel(x) for x in high])
    wrong = ~(small <= large * (1 + ROUNDING) + 1e-14)  # NaN counts as a violation
    ratio = small / np.maximum(large, 1e-300)
    tightest = float(ratio.max()) if expected == FAILS else float(ratio[~wrong].max(initial=0.0))
    return Finding(claim, statement, method, expected, len(small), int(wrong.sum()), tightest, note)


def identity(claim: str, statement: str, method: str, deviations: np.ndarray, note: str) -> Finding:
    size = np.abs(deviations)
    return Finding(claim, statement, method, HOLDS, size.size, int((~(size <= 1e-9)).sum()), float(size.max()), note)
