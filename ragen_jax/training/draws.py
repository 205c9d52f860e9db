"""Random draws of a run beside those of the environments and the sampler: one stream for each purpose.

A stream depends on the run's seed, its purpose and the number of the draw only, so no draw shifts another one.
"""

from __future__ import annotations

import enum

import numpy as np


class Stream(enum.Enum):
    """Purpose of a draw; the value ends the spawn key. A new purpose takes the next number."""

    TRAJECTORIES = ()  # (episode, turn) pairs, trajectory first
    NULL = (1,)  # permutations of the columns
    COLUMNS = (2,)  # columns that a reasoning is scored under
    TURNS = (3,)  # (episode, turn) pairs, uniformly
    PROBE = (4,)  # prompts of the gradient probe's MI
    ROLLOUTS = (5,)  # rollouts of a prompt that are scored


def generator(seed: int, stream: Stream, draw: int) -> np.random.Generator:
    """Generator of one draw.

    Args:
      seed: of the run.
      stream: what is drawn.
      draw: which draw of the stream: the number of the step, from 0.
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(draw, *stream.value)))
