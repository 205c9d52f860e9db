"""Rows grow while episodes run; finished rows become the padded arrays of a ``RolloutBatch``.

Masks come from recorded lengths. No token value is ever searched for: the padding id may equal an end id.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from ragen_jax.types import Array, RolloutBatch


@dataclasses.dataclass
class Row:
    """Everything behind the first prompt of one episode. Lists have one entry per token.

    Attributes:
      tokens: ids as sampled or shown.
      turns: turn of a sampled id, -1 for shown ids.
      log_probs: log-prob of a sampled id (nats), 0 for shown ids.
      rewards: reward of a turn on its last sampled id, 0 elsewhere.
      penalty: sum of format penalties.
    """

    tokens: list[int] = dataclasses.field(default_factory=list)
    turns: list[int] = dataclasses.field(default_factory=list)
    log_probs: list[float] = dataclasses.field(default_factory=list)
    rewards: list[float] = dataclasses.field(default_factory=list)
    penalty: float = 0.0

    def add_response(self, tokens: Sequence[int], log_probs: Sequence[float], *, turn: int) -> None:
        """Append the sampled ids of a turn, the end-of-turn id included when it was sampled."""
        self._add(tokens, log_probs, turn)

    def add_observation(self, tokens: Sequence[int]) -> None:
        """Append ids that were shown, not sampled."""
        self._add(tokens, [0.0] * len(tokens), -1)

    def add_reward(self, reward: float) -> None:
        """Put a reward on the newest token, which must be a sampled one."""
        self.rewards[-1] += reward

    def _add(self, tokens: Sequence[int], log_probs: Sequence[float], turn: int) -> None:
        self.tokens.extend(tokens)
        self.log_probs.extend(log_probs)
        self.turns.extend([turn] * len(tokens))
        self.rewards.extend([0.0] * len(tokens))


def assemble(
    prompts: Sequence[Sequence[int]],
    rows: Sequence[Row],
    *,
    valid: np.ndarray,
    pad_id: int,
    prompt_bucket: int,
    length_bucket: int,
    policy_version: int,
) -> RolloutBatch:
    """Pad P first prompts to the left and B rows to the right, to multiples of their buckets.

    Args:
      prompts: ids of the first prompt of each group.
      rows: B = P * G rows.
      valid: [B] bool, false for failed rows.
      pad_id: fills unused slots.
      prompt_bucket: tokens.
      length_bucket: tokens.
      policy_version: learner step that sampled the rows.

    Returns:
      The batch, as NumPy arrays.
    """
    prompt_tokens, prompt_mask = pad_left(prompts, bucket=prompt_bucket, pad_id=pad_id)
    tokens, attention_mask = pad_right([row.tokens for row in rows], bucket=length_bucket, pad_id=pad_id)
    turn_ids = _fill(attention_mask, [row.turns for row in rows], np.int32, empty=-1)
    token_rewards = _fill(attention_mask, [row.rewards for row in rows], np.float32)
    return RolloutBatch(
        prompt_tokens=prompt_tokens,
        prompt_mask=prompt_mask,
        prompt_class=classes(prompts),
        tokens=tokens,
        attention_mask=attention_mask,
        response_mask=turn_ids >= 0,
        turn_ids=turn_ids,
        token_rewards=token_rewards,
        returns=np.array([sum(row.rewards) for row in rows], np.float32),
        penalties=np.array([row.penalty for row in rows], np.float32),
        behaviour_log_probs=_fill(attention_mask, [row.log_probs for row in rows], np.float32),
        policy_version=np.array(policy_version, np.int32),
        valid=np.asarray(valid, bool),
    )


def pad_left(sequences: Sequence[Sequence[int]], *, bucket: int, pad_id: int) -> tuple[np.ndarray, np.ndarray]:
    """Ids [N, L] int32 and mask [N, L] bool with the last token of each sequence in the last slot."""
    tokens, mask = pad_right([sequence[::-1] for sequence in sequences], bucket=bucket, pad_id=pad_id)
    return np.ascontiguousarray(tokens[:, ::-1]), np.ascontiguousarray(mask[:, ::-1])


def pad_right(sequences: Sequence[Sequence[int]], *, bucket: int, pad_id: int) -> tuple[np.ndarray, np.ndarray]:
    """Ids [N, L] int32 and mask [N, L] bool; L is the least multiple of the bucket, not zero, that holds them all.

    Raises:
      ValueError: for a bucket below 1.
    """
    if bucket < 1:
        raise ValueError(f"bucket={bucket}: use 1 or more tokens")
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = max(-(-longest // bucket), 1) * bucket
    mask = np.arange(width) < np.array([len(sequence) for sequence in sequences], int)[:, None]
    return _fill(mask, sequences, np.int32, empty=pad_id), mask


def widen(values: Array, width: int, *, empty: int, left: bool = False) -> np.ndarray:
    """The last axis padded with ``empty`` to ``width``, on its right or on its left."""
    values = np.asarray(values)
    missing = width - values.shape[-1]
    pads = [(0, 0)] * (values.ndim - 1) + [(missing, 0) if left else (0, missing)]
    return np.pad(values, pads, constant_values=empty)


def classes(sequences: Sequence[Sequence[int]]) -> np.ndarray:
    """[N] int32: equal numbers for equal sequences, numbered in order of first appearance."""
    first: dict[tuple[int, ...], int] = {}
    return np.array([first.setdefault(tuple(sequence), len(first)) for sequence in sequences], np.int32)


def _fill(
    mask: np.ndarray, sequences: Sequence[Sequence[float]], dtype: type[np.generic], *, empty: float = 0
) -> np.ndarray:
    filled = np.full(mask.shape, empty, dtype)
    filled[mask] = [value for sequence in sequences for value in sequence]
    return filled
