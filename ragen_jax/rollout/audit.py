"""Does a training row hold exactly what its episode showed and sampled?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ragen_jax.rollout.episodes import Episode
from ragen_jax.rollout.prompting import ChatFormat
from ragen_jax.types import RolloutBatch

ROUNDING = 1e-4  # nats; float32 may put the log-prob of a certain token a little above zero


class _Slot(NamedTuple):
    """What one slot of a row must hold."""

    token: int
    turn: int  # -1 for a shown token
    reward: float


def first_divergence(batch: RolloutBatch, row: int, chat: ChatFormat, episode: Episode) -> str | None:
    """Replay an episode against its row of the arrays.

    The first prompt and later observations are encoded anew from the recorded texts; replies are the recorded ids.
    Compared are ids, attention and response masks, turn numbers, reward slots, and where log-probs stand.

    Args:
      batch: arrays of a rollout.
      row: row in 0..B-1.
      chat: format that the rollout used.
      episode: record of that row.

    Returns:
      A sentence on the first difference, None when there is none.
    """
    text = chat.tokenizer.decode
    group = row * len(batch.prompt_tokens) // len(batch.tokens)
    prompt = batch.prompt_tokens[group][batch.prompt_mask[group]].tolist()
    expected_prompt = chat.tokenizer.encode(episode.prompt)
    for at, (found, expected) in enumerate(zip(prompt, expected_prompt, strict=False)):
        if found != expected:
            return f"row {row}, prompt token {at}: id {found} ({text([found])!r}), but the record shows {expected}"
    if len(prompt) != len(expected_prompt):
        return f"row {row}: prompt of {len(prompt)} tokens, but the record shows {len(expected_prompt)}"

    slots = list(_replay(chat, episode))
    if len(slots) > batch.tokens.shape[1]:
        return f"row {row}: {batch.tokens.shape[1]} slots, but the record has {len(slots)} tokens"
    for at, slot in enumerate(slots):
        where = f"row {row}, slot {at} ({'observation' if slot.turn < 0 else f'reply of turn {slot.turn}'})"
        found = int(batch.tokens[row, at])
        if found != slot.token:
            shown = f"{found} ({text([found])!r})" if 0 <= found < chat.tokenizer.vocab_size else str(found)
            return f"{where}: id {shown}, but the record has {slot.token} ({text([slot.token])!r})"
        difference = _difference(batch, row, at, slot)
        if difference:
            return f"{where}: {difference}"
    end = len(slots)
    for name in ("attention_mask", "response_mask", "token_rewards", "behaviour_log_probs"):
        extra = np.flatnonzero(getattr(batch, name)[row, end:])
        if extra.size:
            return f"row {row}, slot {end + extra[0]}: {name} is not empty, but the record ends at slot {end}"
    return None


def _replay(chat: ChatFormat, episode: Episode) -> Iterator[_Slot]:
    for number, turn in enumerate(episode.turns):
        if number:
            yield from (_Slot(token, -1, 0.0) for token in chat.next_observation(turn.observation))
        *body, last = turn.token_ids
        yield from (_Slot(token, number, 0.0) for token in body)
        yield _Slot(last, number, turn.reward)


def _difference(batch: RolloutBatch, row: int, at: int, slot: _Slot) -> str | None:
    """What is wrong beside the id, None when all is right."""
    sampled = slot.turn >= 0
    log_prob = float(batch.behaviour_log_probs[row, at])
    if not batch.attention_mask[row, at]:
        return "not attended to"
    if bool(batch.response_mask[row, at]) != sampled:
        return f"response mask is {not sampled}, but the token was {'sampled' if sampled else 'shown'}"
    if int(batch.turn_ids[row, at]) != slot.turn:
        return f"turn {int(batch.turn_ids[row, at])}, but the record says {slot.turn}"
    if float(batch.token_rewards[row, at]) != np.float32(slot.reward):
        return f"reward {float(batch.token_rewards[row, at])}, but the record says {slot.reward}"
    if sampled and not (np.isfinite(log_prob) and log_prob < ROUNDING):
        return f"log-prob {log_prob} of a sampled token: it must be finite and not above zero"
    if not sampled and log_prob != 0:
        return f"log-prob {log_prob} on a token that was not sampled"
    return None
