"""Parts of the replies that solvers write: wording that varies, and answers that hold several actions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

FILLERS = ("hmm", "wait", "okay", "now", "look", "think", "check", "here", "then", "alright")
"""Words without meaning for any task; they give demonstrated reasoning some entropy from the start."""


def with_fillers(parts: Sequence[str], rng: np.random.Generator) -> str:
    """Join the parts of a reasoning with spaces, with zero to two filler words before each part."""
    words: list[str] = []
    counts = rng.integers(0, 3, size=len(parts))
    for part, count in zip(parts, counts, strict=True):
        words += [FILLERS[i] for i in rng.integers(len(FILLERS), size=count)]
        words.append(part)
    return " ".join(words)


def join_actions(names: Sequence[str], separator: str) -> str:
    """Answer text of several actions, as ``parsing.split_actions`` reads it."""
    return (" " if separator == " " else f" {separator} ").join(names)
