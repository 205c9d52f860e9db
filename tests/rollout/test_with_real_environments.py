"""The turn loop over the real pool: every environment, careful and careless replies, one audit of every row."""

from __future__ import annotations

import numpy as np
import pytest

from ragen_jax.envs import env_config
from ragen_jax.envs.pool import EnvPool
from ragen_jax.rollout.actor import collect
from ragen_jax.rollout.audit import first_divergence
from ragen_jax.rollout.metrics import rollout_metrics
from ragen_jax.rollout.prompting import ChatFormat
from ragen_jax.rollout.scripted import ScriptedPolicy
from tests.env_fixtures import every_env, own_options

ROOM = {"deepcoder": (1024, 8_000), "search_qa": (512, 20_000), "webshop": (256, 16_000), "game_2048": (128, 12_000)}
"""Tokens of a reply and of a row, where programs, passages and long names need more than 128 and 4,000."""

ROLL = {
    "max_turns": 5,
    "max_new_tokens": 128,
    "max_context": 8_000,
    "prompt_bucket": 32,
    "length_bucket": 32,
    "observation_bucket": 8,
    "format_penalty": -0.1,
    "show_rewards": True,
    "seed": (0,),
}


@pytest.mark.parametrize("style", ["terse", "full"])
@every_env
def test_episodes_pass_the_audit(chat: ChatFormat, name: str, style: str) -> None:
    rng = np.random.default_rng(0)
    config = env_config(name, instructions=style, **own_options(name))
    max_new_tokens, max_context = ROOM.get(name, (128, 4000))
    with EnvPool(name, config, groups=2, group_size=4, workers=2, step_timeout_s=10.0) as pool:

        def script(row: int, turn: int) -> str:
            if (row + turn) % 4 == 3:
                return "no form at all"
            demonstration = pool.envs[row].demonstrate(rng, skill=1.0)
            return f"{demonstration.reasoning}</think><answer>{demonstration.answer}</answer>"

        rollout = collect(
            ScriptedPolicy(chat.tokenizer, script, max_new_tokens=max_new_tokens),
            pool,
            chat,
            **ROLL
            | {"seeds": [3, 4], "max_turns": config.max_turns}
            | {"max_new_tokens": max_new_tokens, "max_context": max_context},
        )
    for row, episode in enumerate(rollout.info.episodes):
        assert first_divergence(rollout.batch, row, chat, episode) is None
        assert episode.env == name
        assert episode.terminated or episode.truncated
        assert [turn.well_formed for turn in episode.turns] == [(row + n) % 4 != 3 for n in range(len(episode.turns))]
    metrics = rollout_metrics(rollout.info)
    assert metrics["rollout/invalid_rows"] == 0
    assert metrics["rollout/success"] > 0
    assert rollout.batch.prompt_class.tolist() == [0, 1]


@pytest.mark.parametrize("last", ["no form at all", "x</think><answer>" + "1,1,1 || " * 60])
def test_an_unsolved_sudoku_pays_its_share_whatever_the_last_reply_is(chat: ChatFormat, last: str) -> None:
    """Malformed or cut: the reply costs the format penalty, and what was placed before is still paid."""
    config = env_config("sudoku")
    with EnvPool("sudoku", config, groups=1, group_size=2, workers=1) as pool:

        def script(row: int, turn: int) -> str:
            if row == 0 and turn == 4:
                return last
            answer = pool.envs[row].demonstrate(np.random.default_rng(0), skill=1.0).answer if turn == 0 else "9,9,9"
            return f"x</think><answer>{answer}</answer>"

        rollout = collect(
            ScriptedPolicy(chat.tokenizer, script, max_new_tokens=128), pool, chat, **ROLL | {"seeds": [5]}
        )
    odd, usual = rollout.info.episodes
    assert [turn.reward for turn in odd.turns] == [turn.reward for turn in usual.turns] == [0, 0, 0, 0, 0.25]
    assert rollout.batch.returns.tolist() == [0.25, 0.25]


@pytest.mark.parametrize(
    ("name", "keys"),
    [("search_qa", {"answered", "f1", "searches", "gold_recall"}), ("webshop", {"purchased", "score"})],
)
@pytest.mark.parametrize("malformed", [True, False], ids=["a malformed reply", "no room"])
def test_every_episode_reports_its_end(chat: ChatFormat, name: str, keys: set[str], malformed: bool) -> None:
    config = env_config(name)
    answer = {"search_qa": "search[founder]", "webshop": "click[nothing]"}[name]

    def script(row: int, turn: int) -> str:
        return "no form" if malformed and row == turn == 0 else f"x</think><answer>{answer}</answer>"

    room = 30_000 if malformed else 130
    with EnvPool(name, config, groups=1, group_size=2, workers=1) as pool:
        rollout = collect(
            ScriptedPolicy(chat.tokenizer, script, max_new_tokens=128),
            pool,
            chat,
            **ROLL | {"seeds": [3], "max_turns": config.max_turns, "max_context": room},
        )
    for episode in rollout.info.episodes:
        assert episode.error is None and episode.truncated
        assert keys <= episode.metrics.keys()
    whole = rollout.info.episodes[1]
    assert len(whole.turns) == (config.max_turns if malformed else 1)
    if name == "search_qa":
        assert whole.metrics["answered"] == 0 and whole.metrics["searches"] == len(whole.turns)


def test_c27_surplus_actions_run_up_to_the_limit_and_are_penalised(chat: ChatFormat) -> None:
    config = env_config(
        "frozen_lake", max_turns=1, max_actions_per_turn=5, size=8, frozen_share=1.0, slip_rate=0.0, split="all"
    )
    answer = " || ".join(["down"] * 5 + ["up"] * 2)
    with EnvPool("frozen_lake", config, groups=1, group_size=1, workers=1) as pool:
        rollout = collect(
            ScriptedPolicy(chat.tokenizer, lambda row, turn: f"a</think><answer>{answer}</answer>", max_new_tokens=128),
            pool,
            chat,
            seeds=[next(seed for seed in range(100) if off_the_column(pool, seed))],
            **ROLL | {"max_turns": 1, "max_context": 128},
        )
        moved = pool.envs[0].player
    episode = rollout.info.episodes[0]
    assert not episode.turns[0].well_formed
    assert episode.penalty == -0.1
    assert episode.truncated
    row, column = pool.envs[0].lake.start
    assert moved == (min(row + 5, 7), column), "the two moves up were not made"


def off_the_column(pool: EnvPool, seed: int) -> bool:
    """Walking up and down from the start never meets the goal."""
    pool.reset([seed])
    lake = pool.envs[0].lake
    return lake.start[1] != lake.goal[1]
