"""One mathematical problem, and the gold answer inside a worked solution."""

from __future__ import annotations

import dataclasses
import re

ORIGINAL, REPHRASED, SELF_VERIFYING, BACKWARD = "original", "rephrased", "self_verifying", "backward"
KINDS = (ORIGINAL, REPHRASED, SELF_VERIFYING, BACKWARD)

PHRASE = "The answer is:"
_BOX = re.compile(r"\\f?boxed\s*\{")


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """A problem as the environment needs it.

    Attributes:
      question: what the policy reads.
      answer: the gold answer, as text.
      original: the question that this one was made from, or the question itself; the unit of the split.
      kind: one of ``KINDS``.
      work: the calculations of the worked solution, as text; may be empty.
    """

    question: str
    answer: str
    original: str
    kind: str
    work: str = ""


def gold_answer(solution: str) -> str | None:
    r"""The final answer of a worked solution; None when it names none.

    Looked for in this order, the last occurrence of each: the rest of the line behind "The answer is:", the rest of
    the line behind "####", the content of ``\boxed{...}``.
    """
    for mark in (PHRASE, "####"):
        _, found, rest = solution.rpartition(mark)
        if found:
            lines = rest.strip().splitlines()
            return lines[0].strip() if lines else None
    return boxed(solution)


def boxed(text: str) -> str | None:
    r"""Content of the last ``\boxed{...}`` with balanced braces; None without one, or when it is empty."""
    found = None
    for match in _BOX.finditer(text):
        end = closing_brace(text, match.end() - 1)
        if end is not None:
            found = text[match.end() : end].strip()
    return found or None


def closing_brace(text: str, opening: int) -> int | None:
    """Index of the brace that closes the one at ``opening``; None when none does. An escaped brace does not count."""
    depth, index = 0, opening
    while index < len(text):
        sign = text[index]
        if sign == "\\":
            index += 1
        elif sign == "{":
            depth += 1
        elif sign == "}":
            depth -= 1
            if depth == 0:
                return index
        index += 1
    return None
