"""Recorded values that the parts of the system reproduce themselves, without `compat`."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter

import numpy as np
import pytest

from ragen_jax import core
from ragen_jax.config import compose
from ragen_jax.config.keys import set_key
from ragen_jax.core.advantages.bi_level_gae import bi_level_gae
from ragen_jax.envs.base import Demonstration, EnvConfig, Observation, StepResult, TextEnv
from ragen_jax.envs.parsing import split_actions
from ragen_jax.envs.pool import EnvPool
from ragen_jax.rollout.metrics import rollout_metrics
from ragen_jax.rollout.prompting import ChatFormat
from ragen_jax.rollout.reasoning_pairs import first_turn_pairs, trajectory_pairs, turn_uniform_pairs
from ragen_jax.rollout.tokenizer import Tokenizer
from tests.rollout.lines import LinePool, play


@pytest.fixture(scope="module")
def chat() -> ChatFormat:
    return ChatFormat(Tokenizer.tiny())


def test_golden_bi_level_gae(golden_dir):
    for case in json.loads((golden_dir / "advantages.json").read_text())["bi_level_gae"]:
        rewards, values = (np.array(case[name], np.float32) for name in ("token_level_rewards", "values"))
        mask = np.array(case["mask"], bool)
        # There a turn ends where the reward is not 0; for us the turn of a token is recorded.
        turns = np.cumsum(rewards != 0, axis=1) - (rewards != 0)
        advantages, returns = bi_level_gae(
            rewards, values, mask, turns, gamma=case["gamma"], lam=case["lam"], turn_gamma=case["high_level_gamma"]
        )
        assert np.isfinite(np.asarray(advantages)).all()
        if case["error"]:  # a last turn without reward fails there
            continue
        whitened = np.asarray(core.masked_whiten(advantages, mask))
        np.testing.assert_allclose(whitened[mask], np.array(case["advantages"])[mask], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(np.asarray(returns)[mask], np.array(case["returns"])[mask], rtol=1e-5)


def test_golden_seeds(golden_dir):
    golden = json.loads((golden_dir / "env_seeds.json").read_text())
    config = set_key(compose("paper", "frozen_lake_tiny", "grpo"), "rollout.prompts", 2)
    config = set_key(config, "env.train_seed", 10_000)
    for step, name in ((0, "train_first"), (1, "train_second")):
        assert np.repeat(list(config.training_seeds(step)), 2).tolist() == golden[name]
    assert golden["val_first"] == golden["val_second"]  # one fixed set, as ours is


class _ToyEnv(TextEnv):
    """The recorded toy: "Right" ends with reward 1 and success, any other action costs 0.1."""

    name = "toy"
    names = ("Left", "Down", "Up", "Right")

    def __init__(self, config: EnvConfig) -> None:
        self.config = config

    def instructions(self) -> str:
        return "Find the way."

    def reset(self, seed: int, member: int = 0) -> Observation:
        self.left = self.config.max_actions
        return Observation("start")

    def step(self, answer: str) -> StepResult:
        found = split_actions(answer, separator="||", limit=self.config.max_actions_per_turn, names=self.names)
        actions = found.actions[: self.left]
        self.left -= len(actions)
        won = self.names.index("Right") in actions
        return StepResult(
            observation=Observation("next"),
            reward=sum(1.0 if self.names[action] == "Right" else -0.1 for action in actions),
            terminated=won,
            truncated=not won and not self.left,
            info={"success": won, "action_is_valid": found.valid, "action_is_effective": bool(actions)},
        )

    def canonical(self) -> str:
        return "toy"

    def demonstrate(self, rng: np.random.Generator, *, skill: float) -> Demonstration:
        raise NotImplementedError


def test_golden_environment_manager(golden_dir, chat):
    """Actions in any case, unknown ones dropped and penalised once, budgets, who is still active."""
    golden = json.loads((golden_dir / "env_manager.json").read_text())
    answers = [{entry["env_id"]: " || ".join(entry["actions"]) for entry in step["inputs"]} for step in golden["steps"]]
    pool = EnvPool(_ToyEnv, EnvConfig(max_actions=4, max_turns=2), groups=2, group_size=2)
    rollout, _ = play(
        chat,
        pool,
        lambda row, turn: f"r</think><answer>{answers[turn][row]}</answer>",
        seeds=list(dict.fromkeys(golden["seeds_first_reset"])),
        max_turns=2,
        format_penalty=-0.1,
    )
    envs = [env.left for env in pool.envs]
    pool.close()
    for step, record in enumerate(golden["steps"]):
        penalties = [sum(turn.penalty for turn in episode.turns[: step + 1]) for episode in rollout.info.episodes]
        np.testing.assert_allclose(penalties, record["penalties"], atol=1e-6)
        played = [row for row, episode in enumerate(rollout.info.episodes) if len(episode.turns) > step]
        assert set(answers[step]) == set(played)
    for final, episode in zip(golden["final"], rollout.info.episodes, strict=True):
        rewards = [turn.reward for turn in episode.turns]
        np.testing.assert_allclose(rewards, [r for r in final["rewards"] if r is not None], atol=1e-6)
        assert episode.success == bool(final["metrics"]["T/success"])
        assert episode.penalty == pytest.approx(final["penalty"])
        assert envs[final["env_id"]] == final["actions_left"][-1]
    passed = [final["metrics"]["T/pass@2"] for final in golden["final"]]
    assert rollout_metrics(rollout.info)["rollout/pass_at_group"] == np.mean(passed)


def test_golden_samplings(golden_dir, chat):
    """The same turns can be drawn, and as often; draws on trajectories without reasoning are taken anew, not lost."""
    golden = json.loads((golden_dir / "mi_sampling.json").read_text())
    counts = golden["turn_counts"]

    def script(row: int, turn: int) -> str:
        return f"p{row}_{turn}</think><answer>x</answer>" if turn < counts[row] else "never closed"

    rollout, _ = play(chat, LinePool(2, 2), script, seeds=[9, 9])

    def picked(pairs) -> list[str]:
        rows = zip(pairs.reasoning_tokens[:, 0], pairs.reasoning_mask[:, 0], strict=True)
        return [chat.tokenizer.decode(tokens[mask].tolist()) for tokens, mask in rows]

    options = {"prompt_bucket": 8, "bucket": 8}
    drawn = Counter()
    for case in golden["cases"]:
        rng = np.random.default_rng(case["seed"])
        total = sum(counts)
        if case["kind"] == "trajectory_uniform":
            assert case["n_draws"] == min(case["num_samples"] or total, total)
            ours = picked(trajectory_pairs(rollout.batch, rollout.info, draws=600, rng=rng, **options))
            assert set(case["picked"]) <= set(ours)
            drawn.update(ours)
        elif case["kind"] == "turn_uniform":
            draws = case["num_samples"] or total
            ours = picked(turn_uniform_pairs(rollout.batch, rollout.info, draws=draws, rng=rng, **options))
            assert len(ours) == len(set(ours)) == len(case["picked"])
            if draws >= total:
                assert sorted(ours) == sorted(case["picked"])
        else:
            mask = first_turn_pairs(rollout.batch, rollout.info, bucket=8).reasoning_mask
            assert mask.any(axis=2).sum() == len(case["groups"])  # one first turn has no reasoning
    share = {row: sum(n for name, n in drawn.items() if re.match(f"p{row}_", name)) for row in range(4)}
    total_drawn = sum(share.values())
    assert share[1] == 0
    for row in (0, 2, 3):  # trajectories are equally likely, whatever the number of their turns
        assert abs(share[row] / total_drawn - 1 / 3) < 4 * np.sqrt(2 / 9 / total_drawn)


def test_the_toy_counts_its_budget():
    env = _ToyEnv(dataclasses.replace(EnvConfig(), max_actions=3, max_actions_per_turn=2))
    env.reset(0)
    assert not env.step("up || up").truncated
    last = env.step("up || right")
    assert last.truncated
    assert last.reward == pytest.approx(-0.1)
