"""The length penalty of a batch: part of its penalties, apart from its returns."""

from __future__ import annotations

import dataclasses
import functools

import jax
import numpy as np

from ragen_jax.config.schema import Config
from ragen_jax.core.rewards import overlong_penalties, turn_lengths
from ragen_jax.rollout.episodes import Rollout
from ragen_jax.types import Array, RolloutBatch


def overlong_of_rows(batch: RolloutBatch, config: Config, *, max_turns: int) -> np.ndarray:
    """Sum over turns of the length penalty of each reply, [B] float32, zero or negative.

    The budget of a reply is ``rollout.max_new_tokens``. A row whose environment failed has none.
    """
    reward, budget = config.reward, config.rollout.max_new_tokens
    penalties = _overlong(
        batch.turn_ids, batch.response_mask, max_turns, budget, reward.overlong_buffer, reward.overlong_penalty
    )
    return np.where(np.asarray(batch.valid), jax.device_get(penalties), np.float32(0))


def add_overlong(rollout: Rollout, config: Config, *, max_turns: int) -> Rollout:
    """The batch with the length penalty added to its penalties; the episodes' records keep the format penalty alone."""
    penalties = np.asarray(rollout.batch.penalties) + overlong_of_rows(rollout.batch, config, max_turns=max_turns)
    return dataclasses.replace(rollout, batch=dataclasses.replace(rollout.batch, penalties=penalties))


@functools.partial(jax.jit, static_argnums=(2, 3, 4, 5))
def _overlong(
    turn_ids: Array, response_mask: Array, max_turns: int, budget: int, buffer: int, penalty: float
) -> jax.Array:
    lengths = turn_lengths(turn_ids, response_mask, max_turns=max_turns)
    return overlong_penalties(lengths, budget=budget, buffer=buffer, penalty=penalty).sum(axis=1)
