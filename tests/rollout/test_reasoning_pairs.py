"""Exact ids of contexts and reasonings."""

from __future__ import annotations

import numpy as np
import pytest

from ragen_jax.rollout.episodes import Rollout
from ragen_jax.rollout.prompting import ChatFormat
from ragen_jax.rollout.reasoning_pairs import (
    draw_columns,
    draw_rollouts,
    first_turn_pairs,
    trajectory_pairs,
    turn_uniform_pairs,
)
from ragen_jax.types import ReasoningPairs
from tests.rollout.lines import LinePool, play

SCRIPT = {
    0: ["go on</think><answer>right</answer>", "then</think><answer>right</answer>"],
    1: ["never closed", "now</think><answer>right</answer>", "ok</think><answer>right</answer>"],
    2: ["</think><answer>right</answer>"] * 3,
    3: ["first</think> then</think><answer>right</answer>"] * 3,
}


@pytest.fixture
def rollout(chat: ChatFormat) -> Rollout:
    return play(chat, LinePool(2, 2), lambda row, turn: SCRIPT[row][turn], seeds=[2, 2])[0]


def texts(chat: ChatFormat, pairs: ReasoningPairs) -> list[list[str]]:
    return [
        [chat.tokenizer.decode(tokens[mask].tolist()) for tokens, mask in zip(*group, strict=True)]
        for group in zip(pairs.reasoning_tokens, pairs.reasoning_mask, strict=True)
    ]


def contexts(chat: ChatFormat, pairs: ReasoningPairs) -> list[str]:
    return [
        chat.tokenizer.decode(tokens[mask].tolist())
        for tokens, mask in zip(pairs.prompt_tokens, pairs.prompt_mask, strict=True)
    ]


def test_first_turn(chat: ChatFormat, rollout: Rollout) -> None:
    pairs = first_turn_pairs(rollout.batch, rollout.info, bucket=8)
    assert pairs.reasoning_tokens.shape == pairs.reasoning_mask.shape == (2, 2, 8)
    assert texts(chat, pairs) == [["go on", ""], ["", "first"]]
    assert pairs.reasoning_mask.any(2).tolist() == [[True, False], [False, True]]
    assert contexts(chat, pairs) == [chat.first_text("", "P 2")] * 2
    assert pairs.column_class.tolist() == [0, 0]


def test_first_turn_of_rows_without_a_turn(chat: ChatFormat) -> None:
    rollout, _ = play(chat, LinePool(1, 2, dead=[0]), lambda row, turn: SCRIPT[0][turn], seeds=[2])
    pairs = first_turn_pairs(rollout.batch, rollout.info, bucket=4)
    assert texts(chat, pairs) == [["", "go on"]]


def test_trajectory_draws_are_turns_under_their_own_context(chat: ChatFormat, rollout: Rollout) -> None:
    pairs = trajectory_pairs(
        rollout.batch, rollout.info, draws=60, rng=np.random.default_rng(0), prompt_bucket=16, bucket=8
    )
    assert pairs.reasoning_tokens.shape == (60, 1, 8)
    first = chat.first_text("", "P 2")
    expected = {
        (first, "go on"),
        (first + SCRIPT[0][0] + "<|im_end|>" + chat.next_text("P 1"), "then"),
        (first + SCRIPT[1][0] + "<|im_end|>" + chat.next_text("P 2"), "now"),
        (
            first
            + SCRIPT[1][0]
            + "<|im_end|>"
            + chat.next_text("P 2")
            + SCRIPT[1][1]
            + "<|im_end|>"
            + chat.next_text("P 1"),
            "ok",
        ),
    }
    drawn = list(zip(contexts(chat, pairs), (row[0] for row in texts(chat, pairs)), strict=True))
    assert expected <= set(drawn)
    assert {reasoning for _, reasoning in set(drawn) - expected} == {"first"}
    by_class = {}
    for label, context in zip(pairs.column_class.tolist(), contexts(chat, pairs), strict=True):
        assert by_class.setdefault(label, context) == context
    assert len(by_class) == len(set(contexts(chat, pairs)))


def test_trajectories_are_drawn_uniformly_then_turns(chat: ChatFormat, rollout: Rollout) -> None:
    """Rows 0, 1 and 3 have closed reasoning; row 0 has two turns with it, so each of them comes in 1/6 of the draws."""
    draws = 3000
    pairs = trajectory_pairs(
        rollout.batch, rollout.info, draws=draws, rng=np.random.default_rng(1), prompt_bucket=16, bucket=8
    )
    said = [row[0] for row in texts(chat, pairs)]
    for reasoning, share in {"go on": 1 / 6, "then": 1 / 6, "now": 1 / 6, "ok": 1 / 6, "first": 1 / 3}.items():
        assert said.count(reasoning) / draws == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / draws))


def test_nothing_to_score(chat: ChatFormat) -> None:
    rollout, _ = play(chat, LinePool(1, 2), lambda row, turn: "no form", seeds=[2])
    pairs = trajectory_pairs(
        rollout.batch, rollout.info, draws=3, rng=np.random.default_rng(0), prompt_bucket=8, bucket=4
    )
    assert not pairs.reasoning_mask.any()
    assert contexts(chat, pairs) == [chat.first_text("", "P 2")] * 3
    with pytest.raises(ValueError, match="draws=0"):
        trajectory_pairs(rollout.batch, rollout.info, draws=0, rng=np.random.default_rng(0), prompt_bucket=8, bucket=4)


def turn_draws(rollout: Rollout, draws: int, seed: int) -> ReasoningPairs:
    return turn_uniform_pairs(
        rollout.batch, rollout.info, draws=draws, rng=np.random.default_rng(seed), prompt_bucket=16, bucket=8
    )


def test_turns_are_drawn_uniformly_and_once(chat: ChatFormat, rollout: Rollout) -> None:
    """Seven turns have closed reasoning: two of row 0, two of row 1, three of row 3."""
    everything = turn_draws(rollout, 60, 0)
    said = [row[0] for row in texts(chat, everything)]
    assert sorted(said) == sorted(["go on", "then", "now", "ok", "first", "first", "first"])
    assert everything.reasoning_tokens.shape == (7, 1, 8)
    repetitions = 1500
    drawn = [row[0] for seed in range(repetitions) for row in texts(chat, turn_draws(rollout, 2, seed))]
    for reasoning, turns in {"go on": 1, "then": 1, "now": 1, "ok": 1, "first": 3}.items():
        share = turns / 7
        spread = np.sqrt(share * (1 - share) / (2 * repetitions))
        assert drawn.count(reasoning) / len(drawn) == pytest.approx(share, abs=4 * spread)


def test_turn_draws_stand_under_their_own_context(chat: ChatFormat, rollout: Rollout) -> None:
    pairs = turn_draws(rollout, 7, 3)
    by_reasoning = dict(zip([row[0] for row in texts(chat, pairs)], contexts(chat, pairs), strict=True))
    first = chat.first_text("", "P 2")
    assert by_reasoning["go on"] == first
    assert by_reasoning["then"] == first + SCRIPT[0][0] + "<|im_end|>" + chat.next_text("P 1")


def test_no_turn_to_draw(chat: ChatFormat) -> None:
    rollout, _ = play(chat, LinePool(1, 2), lambda row, turn: "no form", seeds=[2])
    pairs = turn_draws(rollout, 3, 0)
    assert pairs.reasoning_mask.shape[:2] == (3, 1) and not pairs.reasoning_mask.any()
    with pytest.raises(ValueError, match="draws=0"):
        turn_draws(rollout, 0, 0)


def test_rollouts_are_a_uniform_draw_of_each_prompt() -> None:
    # Reasoning k of prompt i holds the one token 10 i + k, and those of k = 4 nothing.
    tokens = (10 * np.arange(3)[:, None, None] + np.arange(5)[:, None]).astype(np.int32)
    pairs = ReasoningPairs(
        prompt_tokens=np.zeros((3, 2), np.int32),
        prompt_mask=np.ones((3, 2), bool),
        reasoning_tokens=tokens,
        reasoning_mask=np.broadcast_to((np.arange(5) < 4)[:, None], tokens.shape),
        column_class=np.arange(3),
    )
    draws = [draw_rollouts(pairs, sample=2, rng=np.random.default_rng(seed)) for seed in range(1000)]
    drawn = np.stack([draw.reasoning_tokens[..., 0] for draw in draws])
    assert drawn.shape == (1000, 3, 2) and (drawn // 10 == np.arange(3)[:, None]).all()
    assert (drawn[..., 0] != drawn[..., 1]).all()
    assert all((d.reasoning_mask[..., 0] == (d.reasoning_tokens[..., 0] % 10 < 4)).all() for d in draws)
    for prompt in range(3):
        shares = np.bincount(drawn[:, prompt].ravel() % 10, minlength=5) / 1000
        np.testing.assert_allclose(shares, 0.4, atol=4 * np.sqrt(0.24 / 1000))
    both = ((drawn[:, 0] == 1).any(axis=1) & (drawn[:, 1] == 11).any(axis=1)).mean()
    assert both == pytest.approx(0.16, abs=4 * np.sqrt(0.16 * 0.84 / 1000))  # prompts draw independently
    for sample in (0, 6):
        with pytest.raises(ValueError, match=f"sample={sample} of 5 rollouts"):
            draw_rollouts(pairs, sample=sample, rng=np.random.default_rng(0))


def test_columns_are_the_own_and_a_uniform_draw_of_others() -> None:
    draws = np.stack([draw_columns(np.arange(5), sample=3, rng=np.random.default_rng(seed)) for seed in range(2000)])
    assert (draws[:, :, 0] == np.arange(5)).all()
    assert all(len(set(row)) == 3 for draw in draws for row in draw.tolist())
    for prompt in range(5):
        shares = np.bincount(draws[:, prompt, 1:].ravel(), minlength=5) / 2000
        np.testing.assert_allclose(np.delete(shares, prompt), 0.5, atol=4 * np.sqrt(0.25 / 2000))
        assert shares[prompt] == 0
    # Two prompts draw independently: both draw column 2 in a quarter of the cases.
    both = ((draws[:, 0, 1:] == 2).any(axis=1) & (draws[:, 1, 1:] == 2).any(axis=1)).mean()
    assert both == pytest.approx(0.25, abs=4 * np.sqrt(0.25 * 0.75 / 2000))
    # Of equal contexts one is drawn; with all classes there, further columns fill the row.
    for seed in range(20):
        one = draw_columns(np.array([0, 1, 0, 2, 1, 3]), sample=3, rng=np.random.default_rng(seed))
        classes = np.array([0, 1, 0, 2, 1, 3])[one]
        assert all(len(set(row)) == 3 for row in classes.tolist()) and (one[:, 0] == np.arange(6)).all()
        full = draw_columns(np.array([0, 1, 0, 0, 1, 0]), sample=4, rng=np.random.default_rng(seed))
        assert all(len(set(row)) == 4 for row in full.tolist())
    assert sorted(draw_columns(np.arange(4), sample=4, rng=np.random.default_rng(0))[1].tolist()) == [0, 1, 2, 3]
    for sample in (1, 6):
        with pytest.raises(ValueError, match=f"sample={sample} of 5 columns"):
            draw_columns(np.arange(5), sample=sample, rng=np.random.default_rng(0))
