"""Reducers of rollout metrics, on numbers small enough to do by hand."""

from __future__ import annotations

import pytest

from ragen_jax.rollout.metrics import rollout_metrics
from ragen_jax.rollout.prompting import ChatFormat
from tests.rollout.lines import BACK, MOVE, LinePool, play


def test_metrics_by_hand(chat: ChatFormat) -> None:
    script = {0: [MOVE, MOVE], 1: ["bad", BACK], 2: [BACK, BACK], 3: [MOVE, MOVE]}
    rollout, _ = play(chat, LinePool(2, 2, failing=[3]), lambda row, turn: script[row][turn], seeds=[2, 2], max_turns=2)
    metrics = rollout_metrics(rollout.info)
    tokens = [sum(len(turn.token_ids) for turn in episode.turns) for episode in rollout.info.episodes]
    on, back = len(chat.tokenizer.encode("go on")), len(chat.tokenizer.encode("go back"))
    assert metrics == pytest.approx(
        {
            "rollout/invalid_rows": 1,
            "rollout/invalid_share": 1 / 4,
            "rollout/success": 1 / 3,
            "rollout/return": (1.25 + 0.25 + 0.5) / 3,
            "rollout/penalty": -0.1 / 3,
            "rollout/truncated": 2 / 3,
            "rollout/turns": 2,
            "rollout/response_tokens": sum(tokens[:3]) / 3,
            "rollout/valid_format": 5 / 6,
            "rollout/cut_replies": 0,
            "rollout/closed_reasoning": 5 / 6,
            "rollout/reasoning_tokens": (2 * on + 3 * back) / 5,
            "rollout/reward_variance": (0.5 + 0) / 2,
            "rollout/pass_at_group": 1 / 2,
            "env/action_is_valid": (1 + 0.5 + 1) / 3,
            "env/action_is_effective": (1 + 0.5 + 1) / 3,
            "env/steps": 1,
        }
    )


def test_without_a_valid_row_only_the_count_is_known(chat: ChatFormat) -> None:
    rollout, _ = play(chat, LinePool(1, 2, dead=[0, 1]), lambda row, turn: MOVE)
    assert rollout_metrics(rollout.info) == {"rollout/invalid_rows": 2.0, "rollout/invalid_share": 1.0}
