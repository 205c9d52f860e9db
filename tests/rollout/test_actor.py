"""The turn loop and the arrays it makes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ragen_jax.envs.base import Ending
from ragen_jax.rollout.assemble import Row, assemble
from ragen_jax.rollout.episodes import Rollout
from ragen_jax.rollout.metrics import rollout_metrics
from ragen_jax.rollout.prompting import ChatFormat
from tests.rollout.lines import BACK, MOVE, LinePool, play, words


def row_ids(rollout: Rollout, row: int) -> list[int]:
    return rollout.batch.tokens[row][rollout.batch.attention_mask[row]].tolist()


def test_groups_of_rows_with_rewards_on_the_last_response_token(chat: ChatFormat) -> None:
    rollout, _ = play(chat, LinePool(2, 2), lambda row, turn: MOVE, seeds=[1, 2])
    batch, info = rollout.batch, rollout.info
    assert batch.returns.tolist() == [1.0, 1.0, 1.25, 1.25]
    assert batch.prompt_tokens.shape[0] == 2
    assert batch.prompt_class.tolist() == [0, 1]
    assert batch.policy_version == 7
    assert [(e.seed, e.member, len(e.turns)) for e in info.episodes] == [(1, 0, 1), (1, 1, 1), (2, 0, 2), (2, 1, 2)]
    assert all(e.success and e.terminated and not e.truncated for e in info.episodes)
    for row, episode in enumerate(info.episodes):
        for turn, record in enumerate(episode.turns):
            slots = np.flatnonzero(batch.turn_ids[row] == turn)
            assert slots.tolist() == list(range(record.start, record.start + len(record.token_ids)))
            assert batch.token_rewards[row, slots[-1]] == record.reward
    assert batch.token_rewards.sum() == batch.returns.sum()
    assert (batch.response_mask == (batch.turn_ids >= 0)).all()
    assert ((batch.behaviour_log_probs != 0) == batch.response_mask).all()


def test_the_context_shown_is_the_row_that_is_trained(chat: ChatFormat) -> None:
    replies = [MOVE, "no answer", BACK, MOVE]
    rollout, policy = play(
        chat, LinePool(2, 2, style="full"), lambda row, turn: replies[(row + turn) % 4], seeds=[3, 4]
    )
    for row in range(4):
        prompt = rollout.batch.prompt_tokens[row // 2][rollout.batch.prompt_mask[row // 2]].tolist()
        assert policy.sessions[0].contexts[row] == prompt + row_ids(rollout, row)


def test_c17_the_end_of_a_turn_is_trained_and_nothing_after_it(chat: ChatFormat) -> None:
    end = chat.tokenizer.end_of_turn_id
    a, b, c, d = words(chat.tokenizer, "P", " 1", " 2", " 3")
    script = {0: [a, b, end, c, d], 1: [a, b, c]}
    rollout, _ = play(chat, LinePool(1, 2), lambda row, turn: script[row], max_turns=1, max_new_tokens=5)
    assert rollout.batch.response_mask[:, :6].astype(int).tolist() == [[1, 1, 1, 0, 0, 0], [1, 1, 1, 0, 0, 0]]
    assert row_ids(rollout, 0) == [a, b, end]
    assert row_ids(rollout, 1) == [a, b, c]
    assert [episode.turns[0].cut for episode in rollout.info.episodes] == [False, True]


def test_c18_pad_id_equals_end_id() -> None:
    row = Row()
    row.add_response([5, 6, 2], [-1.0, -1.0, -1.0], turn=0)
    batch = assemble(
        [[9, 2, 8]],
        [row],
        valid=np.array([True]),
        pad_id=2,
        prompt_bucket=5,
        length_bucket=5,
        policy_version=0,
    )
    assert batch.tokens.tolist() == [[5, 6, 2, 2, 2]]
    assert batch.response_mask.astype(int).tolist() == [[1, 1, 1, 0, 0]]
    assert batch.prompt_tokens.tolist() == [[2, 2, 9, 2, 8]]
    assert batch.prompt_mask.astype(int).tolist() == [[0, 0, 1, 1, 1]]


def test_c20_sampled_ids_are_kept(chat: ChatFormat) -> None:
    tokenizer = chat.tokenizer
    split = [*words(tokenizer, " g", "oal</think><answer>right</answer>"), tokenizer.end_of_turn_id]
    assert tokenizer.encode(tokenizer.decode(split)) != split, "the tokenizer would merge these"
    rollout, _ = play(chat, LinePool(1, 1), lambda row, turn: split, seeds=[2])
    shown = chat.next_observation("P 1")
    assert row_ids(rollout, 0) == split + shown + split
    mask = [1] * len(split) + [0] * len(shown) + [1] * len(split)
    assert rollout.batch.response_mask[0, : len(mask)].astype(int).tolist() == mask
    assert (rollout.batch.behaviour_log_probs[0, : len(mask)] == -np.array(mask)).all()


def test_c23_an_observation_that_leaves_no_room_ends_the_episode(chat: ChatFormat) -> None:
    pool = LinePool(1, 1, long_observation=500)
    rollout, policy = play(chat, pool, lambda row, turn: MOVE, seeds=[5], max_context=64)
    episode = rollout.info.episodes[0]
    assert episode.truncated and not episode.terminated
    assert len(episode.turns) == 1
    assert rollout.batch.returns.tolist() == [0.25]
    assert row_ids(rollout, 0) == list(episode.turns[0].token_ids)
    assert len(policy.sessions[0].contexts[0]) == rollout.batch.prompt_mask.sum() + len(episode.turns[0].token_ids)


def test_c23_an_episode_without_room_is_finished_in_its_environment(chat: ChatFormat) -> None:
    pool = LinePool(1, 2, long_observation=500, ending=Ending(0.5, {"left": 4}))
    rollout, _ = play(chat, pool, lambda row, turn: MOVE, seeds=[5], max_context=64)
    assert pool.finished == [[0, 1]]
    assert rollout.batch.returns.tolist() == [0.75, 0.75]
    for row, episode in enumerate(rollout.info.episodes):
        assert [turn.reward for turn in episode.turns] == [0.75]
        assert rollout.batch.token_rewards[row, len(episode.turns[0].token_ids) - 1] == 0.75
        assert episode.metrics["left"] == 4


def test_an_episode_that_its_environment_ended_is_not_finished_again(chat: ChatFormat) -> None:
    pool = LinePool(1, 2, failing=[1], ending=Ending(0.5))
    rollout, _ = play(chat, pool, lambda row, turn: MOVE)
    assert pool.finished == []
    assert rollout.batch.returns.tolist() == [1.0, 0.0]


def test_c23_the_budget_of_the_next_reply_counts(chat: ChatFormat) -> None:
    first = len(chat.tokenizer.encode(MOVE)) + 1 + len(chat.next_observation("P 4"))
    for spare, turns in ((40, 2), (39, 1)):
        rollout, _ = play(
            chat, LinePool(1, 1), lambda row, turn: MOVE, seeds=[5], max_context=first + spare, max_turns=2
        )
        assert len(rollout.info.episodes[0].turns) == turns


def test_c23_a_cut_reply_is_truncated_and_not_acted_upon(chat: ChatFormat) -> None:
    pool = LinePool(1, 2)
    whole = chat.tokenizer.encode(MOVE)
    rollout, _ = play(chat, pool, lambda row, turn: whole if row == 0 else MOVE, max_new_tokens=len(whole) + 1)
    cut, fine = rollout.info.episodes
    assert cut.truncated and not cut.terminated and cut.turns[0].cut and not cut.turns[0].well_formed
    assert (cut.penalty, fine.penalty) == (-0.1, 0.0)
    assert pool.answers == [[None, "right"]]
    assert rollout.batch.valid.all()


def test_an_unreadable_reply_shows_the_same_observation_again(chat: ChatFormat) -> None:
    pool = LinePool(1, 1)
    rollout, _ = play(chat, pool, lambda row, turn: ["nonsense", MOVE, MOVE][turn], seeds=[2])
    episode = rollout.info.episodes[0]
    assert [record.observation for record in episode.turns] == ["P 2", "P 2", "P 1"]
    assert [record.well_formed for record in episode.turns] == [False, True, True]
    assert pool.answers == [[None], ["right"], ["right"]]
    assert episode.success and episode.penalty == pytest.approx(-0.1)
    assert rollout.batch.penalties.tolist() == pytest.approx([-0.1])
    assert rollout.batch.returns.tolist() == [1.25]
    assert episode.metrics["action_is_valid"] == pytest.approx(2 / 3)
    assert episode.metrics["steps"] == 1.0


def test_c27_two_answers_or_an_unusable_one_are_penalised_once(chat: ChatFormat) -> None:
    double = "a</think><answer>right</answer><answer>left</answer>"
    unknown = "a</think><answer>fly</answer>"
    rollout, _ = play(chat, LinePool(1, 2), lambda row, turn: (double, unknown)[row], seeds=[5], max_turns=1)
    for episode in rollout.info.episodes:
        assert not episode.turns[0].well_formed
        assert episode.penalty == -0.1
    assert [episode.turns[0].answer for episode in rollout.info.episodes] == [None, "fly"]


def test_turns_used_up_is_truncated(chat: ChatFormat) -> None:
    rollout, policy = play(chat, LinePool(1, 1), lambda row, turn: BACK, seeds=[2], max_turns=2)
    episode = rollout.info.episodes[0]
    assert episode.truncated and len(episode.turns) == 2
    assert policy.sessions[0].contexts[0][-1] == chat.tokenizer.end_of_turn_id, "no observation that nobody answers"


def test_failed_rows_are_invalid_and_the_others_go_on(chat: ChatFormat) -> None:
    pool = LinePool(2, 2, failing=[1], dead=[2, 3])
    rollout, _ = play(chat, pool, lambda row, turn: MOVE, seeds=[2, 2])
    assert rollout.batch.valid.tolist() == [True, False, False, False]
    assert [e.error for e in rollout.info.episodes] == [
        None,
        "environment 'line', seed 2, row 1, turn 0: the floor broke",
        "environment 'line', seed 2, row 2, reset: no board",
        "environment 'line', seed 2, row 3, reset: no board",
    ]
    assert row_ids(rollout, 1) == list(rollout.info.episodes[1].turns[0].token_ids)
    assert row_ids(rollout, 2) == []
    assert rollout.batch.prompt_class.tolist() == [0, 1]
    assert rollout.info.episodes[0].success


class BrokenLater(LinePool):
    """Row 1 gives odd numbers in its second turn."""

    def __init__(self, change: dict[str, object]) -> None:
        super().__init__(1, 2)
        self.change = change

    def step(self, answers):
        results = super().step(answers)
        if len(self.answers) == 2:
            info = results[1].info | {name: value for name, value in self.change.items() if name != "reward"}
            reward = self.change.get("reward", results[1].reward)
            results[1] = dataclasses.replace(results[1], reward=reward, info=info)
        return results


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (float("nan"), "reward nan is not finite"),
        (float("-inf"), "reward -inf is not finite"),
        (np.float64("nan"), "reward nan is not finite"),
        (np.float32("inf"), "reward inf is not finite"),
        (1e39, "reward 1e+39 makes the return no finite float32 number"),
        (10**39, "reward 1e+39 makes"),
        (10**400, "reward of 1329 bits is beyond every float"),
        (-(10**5000), "reward of 16610 bits is beyond every float"),  # too long to be written as text
        (True, "reward True of type bool is no number: use a float"),
        (np.bool_(True), "of type bool is no number"),
        (None, "reward None of type NoneType is no number"),
        ("1.0", "reward '1.0' of type str is no number"),
        ("x" * 10_000, "xxx' of type str is no number"),
        (np.array(1.0), "reward of type ndarray is no number"),
        (1 + 0j, "reward of type complex is no number"),
        (np.complex64(1), "reward of type complex64 is no number"),
        ([1.0], "reward of type list is no number"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_reward_that_is_no_finite_number_makes_its_row_invalid(chat: ChatFormat, broken: object, told: str) -> None:
    rollout, _ = play(chat, BrokenLater({"reward": broken}), lambda row, turn: MOVE, seeds=[3])
    assert rollout.batch.valid.tolist() == [True, False]
    assert rollout.batch.returns.tolist() == [1.5, 0.25]  # what it had until then
    assert np.isfinite(rollout.batch.token_rewards).all()
    error = rollout.info.episodes[1].error
    assert len(error) < 200
    for word in ("environment 'line', seed 3, row 1, turn 1: ", told):
        assert word in error
    assert len(rollout.info.episodes[1].turns) == 2
    assert rollout_metrics(rollout.info)["rollout/invalid_rows"] == 1


@pytest.mark.parametrize(
    "number", [2, 0.5, np.int32(2), np.float16(0.5), np.float32(-1), np.int64(10**12), np.uint8(3)]
)
def test_numbers_of_python_and_numpy_are_rewards(chat: ChatFormat, number: object) -> None:
    rollout, _ = play(chat, BrokenLater({"reward": number}), lambda row, turn: MOVE, seeds=[3])
    assert rollout.batch.valid.all()
    record = rollout.info.episodes[1].turns[1]
    assert type(record.reward) is float and record.reward == float(number)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (float("nan"), "speed nan is not finite"),
        (np.float32("inf"), "speed inf is not finite"),
        (10**400, "speed of 1329 bits is beyond every float"),
    ],
)
def test_a_metric_that_is_not_finite_makes_its_row_invalid(chat: ChatFormat, value: object, told: str) -> None:
    rollout, _ = play(chat, BrokenLater({"speed": value}), lambda row, turn: MOVE, seeds=[3])
    assert rollout.batch.valid.tolist() == [True, False]
    assert f"row 1, turn 1: {told}" in rollout.info.episodes[1].error
    assert "speed" not in rollout.info.episodes[1].metrics


def test_what_is_no_number_is_no_metric(chat: ChatFormat) -> None:
    extra = {"note": "x", "nothing": None, "plan": (1, 2), "odd": np.bool_(True), "whole": np.int8(3)}
    rollout, _ = play(chat, BrokenLater(extra), lambda row, turn: MOVE, seeds=[3])
    assert rollout.batch.valid.all()
    metrics = rollout.info.episodes[1].metrics
    assert (metrics["odd"], metrics["whole"]) == (1.0, 3.0)
    assert not {"note", "nothing", "plan"} & metrics.keys()


def test_full_style_shows_turn_and_reward(chat: ChatFormat) -> None:
    for show in (True, False):
        rollout, _ = play(chat, LinePool(1, 1, style="full"), lambda row, turn: MOVE, seeds=[2], show_rewards=show)
        first, second = rollout.info.episodes[0].turns
        assert "turn 1 of 3" in first.observation and "earned" not in first.observation
        assert "6 actions" in first.observation and "4 actions" in second.observation
        assert "turn 2 of 3" in second.observation and ("earned 0.25" in second.observation) == show
        assert "Walk right" in rollout.info.episodes[0].prompt


def test_buckets(chat: ChatFormat) -> None:
    rollout, _ = play(chat, LinePool(1, 1), lambda row, turn: MOVE, prompt_bucket=32, length_bucket=64)
    assert rollout.batch.prompt_tokens.shape == (1, 32)
    assert rollout.batch.tokens.shape == (1, 64)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": [1, 2]}, "2 seeds for 1 groups"),
        ({"max_new_tokens": 500}, "max_new_tokens=500 does not fit in max_context=400"),
        ({"format_penalty": 0.1}, "format_penalty=0.1"),
        ({"length_bucket": 0}, "bucket=0"),
    ],
)
def test_wrong_arguments(chat: ChatFormat, changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        play(chat, LinePool(1, 1), lambda row, turn: MOVE, **changes)


def test_members_must_begin_alike(chat: ChatFormat) -> None:
    class Uneven(LinePool):
        def reset(self, seeds):
            first, second = super().reset(seeds)
            return [first, type(second)(second.text + " 9")]

    with pytest.raises(ValueError, match="members of a group begin with different observations"):
        play(chat, Uneven(1, 2), lambda row, turn: MOVE)
