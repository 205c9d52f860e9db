"""Lengths of messages that are measured before a run, against the messages of a run."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ragen_jax.config import Config, compose
from ragen_jax.rollout.scripted import ScriptedPolicy, ScriptedSession
from ragen_jax.training.build import build
from ragen_jax.training.lengths import measured_lengths
from ragen_jax.training.policies import chat_format


def _small(*presets: str) -> Config:
    config = compose(*presets)
    return dataclasses.replace(
        config,
        rollout=dataclasses.replace(config.rollout, prompts=4, group_size=2, max_new_tokens=100),
        algorithm=dataclasses.replace(config.algorithm, minibatch_groups=0),
        validation=dataclasses.replace(config.validation, prompts=4),
    )


def test_the_messages_of_the_first_batch_are_no_longer_than_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the paper's Sokoban take ten buckets; beside the board they tell rewards and budgets."""
    shown: list[tuple[int, ...]] = []
    observe = ScriptedSession.observe

    def look(self: ScriptedSession, tokens: np.ndarray, mask: np.ndarray) -> None:
        shown.append(tokens.shape)
        observe(self, tokens, mask)

    monkeypatch.setattr(ScriptedSession, "observe", look)
    config = _small("paper", "sokoban", "grpo")
    parts = build(config)
    policy = ScriptedPolicy(parts.chat.tokenizer, lambda row, turn: "so</think><answer>Up</answer>", max_new_tokens=100)
    rollout = parts.training_rollout(policy, step=0)
    sampler = parts.sampler(parts.state.params, version=0)
    parts.close()
    lengths = measured_lengths(config, parts.chat)
    bucket = config.rollout.observation_bucket
    assert rollout.batch.prompt_tokens.shape[1] == lengths.prompt_tokens
    assert len(shown) == 4
    longest = max(width for _, width in shown)
    assert 9 * bucket < longest <= lengths.observation_tokens <= longest + bucket
    assert sampler.settings.observation_room == lengths.observation_tokens


def test_lengths_are_multiples_of_their_buckets_and_at_least_one() -> None:
    config = _small("frozen_lake_tiny", "grpo")
    chat = chat_format(config)
    wide = dataclasses.replace(config.rollout, prompt_bucket=1000, observation_bucket=700)
    lengths = measured_lengths(dataclasses.replace(config, rollout=wide), chat)
    assert (lengths.prompt_tokens, lengths.observation_tokens) == (1000, 700)


def test_a_message_that_tells_rewards_is_longer() -> None:
    config = _small("paper", "sokoban", "grpo")
    chat = chat_format(config)

    def measured(*, show: bool) -> tuple[int, int]:
        rollout = dataclasses.replace(config.rollout, show_rewards=show, prompt_bucket=1, observation_bucket=1)
        lengths = measured_lengths(dataclasses.replace(config, rollout=rollout), chat)
        return lengths.prompt_tokens, lengths.observation_tokens

    with_rewards, without = measured(show=True), measured(show=False)
    line = chat.tokenizer.encode("Your last turn earned -0.1.\n")
    assert with_rewards[0] == without[0]
    assert with_rewards[1] - without[1] == pytest.approx(len(line), abs=2)
