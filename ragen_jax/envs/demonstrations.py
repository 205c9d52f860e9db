"""Parts of the replies that solvers write: wording that varies, answers of several actions, and how to write them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ragen_jax.envs.base import EnvConfig

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


def answer_rule(config: EnvConfig, examples: Sequence[str]) -> str:
    """The sentence of the instructions that says what an answer is.

    Args:
      config: how many actions an answer may hold, and what stands between two.
      examples: two actions.
    """
    if config.max_actions_per_turn == 1:
        return f"An answer is one of them, for example: {examples[0]}"
    separator = "a space" if config.action_separator == " " else f'"{config.action_separator}"'
    return (
        f"An answer holds at most {config.max_actions_per_turn} of them, with {separator} between two, "
        f"for example: {join_actions(examples, config.action_separator)}"
    )
