"""The auditor is silent on what ``collect`` makes and finds every kind of damage."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragen_jax.rollout.audit import first_divergence
from ragen_jax.rollout.episodes import Rollout
from ragen_jax.rollout.prompting import ChatFormat
from ragen_jax.types import RolloutBatch
from tests.rollout.lines import BACK, MOVE, LinePool, play

REPLIES = (MOVE, BACK, "no form at all", "why</think><answer>fly</answer>", "x" * 99, "</think><answer>right</answer>")


def audit(rollout: Rollout, chat: ChatFormat) -> list[str]:
    found = [first_divergence(rollout.batch, row, chat, episode) for row, episode in enumerate(rollout.info.episodes)]
    return [sentence for sentence in found if sentence is not None]


@settings(max_examples=25, deadline=None)
@given(
    script=st.lists(st.sampled_from(REPLIES), min_size=12, max_size=12),
    style=st.sampled_from(["terse", "full"]),
    max_context=st.sampled_from([40, 90, 400]),
    failing=st.sets(st.integers(0, 3)),
)
def test_collected_rows_are_what_was_shown_and_sampled(
    chat: ChatFormat, script: list[str], style: str, max_context: int, failing: set[int]
) -> None:
    pool = LinePool(2, 2, style=style, failing=sorted(failing))
    rollout, policy = play(chat, pool, lambda row, turn: script[3 * row + turn], seeds=[2, 3], max_context=max_context)
    assert audit(rollout, chat) == []
    assert rollout.batch.attention_mask.sum(1).max() <= max_context
    for row, context in enumerate(policy.sessions[0].contexts):
        prompt = rollout.batch.prompt_tokens[row // 2][rollout.batch.prompt_mask[row // 2]].tolist()
        assert context == prompt + rollout.batch.tokens[row][rollout.batch.attention_mask[row]].tolist()


def set_slot(name: str, value: float, *, shown: bool = False) -> Callable[[RolloutBatch], RolloutBatch]:
    """Put a value on the third response slot of row 1, or on its third observation slot."""

    def damage(batch: RolloutBatch) -> RolloutBatch:
        array = getattr(batch, name).copy()
        kind = ~batch.response_mask[1] & batch.attention_mask[1] if shown else batch.response_mask[1]
        array[1, np.flatnonzero(kind)[2]] = value
        return batch.replace(**{name: array})

    return damage


def damage_prompt(batch: RolloutBatch) -> RolloutBatch:
    tokens = batch.prompt_tokens.copy()
    tokens[0, -2] += 1
    return batch.replace(prompt_tokens=tokens)


def damage_end(batch: RolloutBatch) -> RolloutBatch:
    mask = batch.attention_mask.copy()
    mask[1, mask[1].sum()] = True
    return batch.replace(attention_mask=mask)


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (set_slot("tokens", 3), r"slot 2 \(reply of turn 0\): id 3 .*but the record has"),
        (set_slot("tokens", 3, shown=True), r"slot \d+ \(observation\): id 3"),
        (set_slot("response_mask", False), "response mask is False, but the token was sampled"),
        (set_slot("response_mask", True, shown=True), r"\(observation\): response mask is True"),
        (set_slot("turn_ids", 1), "turn 1, but the record says 0"),
        (set_slot("token_rewards", 5.0), "reward 5.0, but the record says 0.0"),
        (set_slot("behaviour_log_probs", 0.5), "log-prob 0.5 of a sampled token"),
        (set_slot("behaviour_log_probs", float("nan")), "log-prob nan of a sampled token"),
        (set_slot("behaviour_log_probs", -1.0, shown=True), "log-prob -1.0 on a token that was not sampled"),
        (set_slot("attention_mask", False), "not attended to"),
        (damage_prompt, r"row [01], prompt token \d+: id"),
        (damage_end, "attention_mask is not empty, but the record ends at slot"),
        (lambda batch: batch.replace(tokens=batch.tokens[:, :4]), "4 slots, but the record has"),
        (lambda batch: batch.replace(prompt_mask=batch.prompt_mask ^ batch.prompt_mask), "prompt of 0 tokens"),
    ],
)
def test_every_kind_of_damage_is_found(
    chat: ChatFormat, damage: Callable[[RolloutBatch], RolloutBatch], sentence: str
) -> None:
    rollout, _ = play(chat, LinePool(1, 2), lambda row, turn: MOVE, seeds=[2], length_bucket=64)
    assert audit(rollout, chat) == []
    broken = damage(rollout.batch)
    found = first_divergence(broken, 1, chat, rollout.info.episodes[1])
    assert found is not None
    assert re.search(sentence, found), found
