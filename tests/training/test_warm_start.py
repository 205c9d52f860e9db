"""Warm starts: what is imitated, when it is remade, and what a policy folder must hold."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from ragen_jax.config import compose
from ragen_jax.envs import env_config, make_env
from ragen_jax.envs.pool import EnvPool
from ragen_jax.models.config import model_config
from ragen_jax.rollout.actor import collect
from ragen_jax.rollout.audit import first_divergence
from ragen_jax.rollout.prompting import ChatFormat
from ragen_jax.rollout.scripted import ScriptedPolicy
from ragen_jax.rollout.tokenizer import Tokenizer
from ragen_jax.training import warm_start as warm_start_module
from ragen_jax.training.warm_start import (
    TRACE_SEED,
    Recipe,
    demonstrate_episode,
    fit,
    make_traces,
    policy_key,
    recipe,
    warm_start,
)
from tests.learner_fixtures import assert_trees_equal
from tests.training_fixtures import NETWORK

MODEL = model_config(NETWORK)
SHORT = Recipe(steps=12, batch=8, traces=16, lr=6e-3)


@pytest.fixture(scope="module")
def chat() -> ChatFormat:
    return ChatFormat(Tokenizer.tiny())


def options(preset: str) -> dict[str, Any]:
    return dict(compose(preset).env.options)


def split(chat: ChatFormat, tokens: list[int], trained: list[bool]) -> list[list[int]]:
    """The replies of a trace."""
    edges = np.flatnonzero(np.diff(np.pad(np.array(trained, int), 1)))
    return [tokens[start:stop] for start, stop in edges.reshape(-1, 2)]


@pytest.mark.parametrize(
    ("preset", "show_rewards"),
    [("bandit_tiny", False), ("frozen_lake_turns_tiny", False), ("frozen_lake", True), ("countdown_tiny", False)],
)
def test_a_trace_is_the_row_that_a_rollout_of_the_same_replies_makes(preset: str, show_rewards: bool, chat: ChatFormat):
    name = compose(preset).env.name
    chosen = options(preset) | {"locked_share": 0.0} if name == "frozen_lake" else options(preset)
    env = make_env(name, **(chosen | {"split": "train"}))
    seed = TRACE_SEED + 3
    trace = demonstrate_episode(
        env, chat, seed=seed, skill=0.5, rng=np.random.default_rng(1), show_rewards=show_rewards
    )
    replies = split(chat, trace.tokens, trace.trained)
    policy = ScriptedPolicy(chat.tokenizer, lambda row, turn: replies[turn], max_new_tokens=max(map(len, replies)))
    config = env_config(name, **(chosen | {"split": "train"}))
    with EnvPool(name, config, groups=1, group_size=1, workers=1) as pool:
        rollout = collect(
            policy,
            pool,
            chat,
            seeds=[seed],
            max_turns=config.max_turns,
            max_new_tokens=max(map(len, replies)),
            max_context=len(trace.tokens) + max(map(len, replies)),
            prompt_bucket=1,
            length_bucket=1,
            observation_bucket=1,
            format_penalty=-0.1,
            show_rewards=show_rewards,
            seed=(0,),
        )
    batch, episode = rollout.batch, rollout.info.episodes[0]
    assert first_divergence(batch, 0, chat, episode) is None
    assert batch.prompt_tokens[0].tolist() == trace.prompt
    assert batch.tokens[0].tolist() == trace.tokens
    assert batch.response_mask[0].tolist() == trace.trained
    assert all(turn.well_formed for turn in episode.turns) and len(episode.turns) == len(replies)
    assert all(turn.reasoning is not None for turn in episode.turns)


def test_traces_show_training_instances_only(chat: ChatFormat):
    chosen = options("bandit_tiny")
    traces = make_traces("bandit", chosen, chat, dataclasses.replace(SHORT, traces=200), seed=0, show_rewards=False)
    shown = {chat.tokenizer.decode(trace.prompt) for trace in traces}
    for split_name in ("train", "validation"):
        env = make_env("bandit", **(chosen | {"split": split_name}))
        prompts = {chat.first_text(env.instructions(), env.reset(seed).text) for seed in range(300)}
        assert bool(shown & prompts) == (split_name == "train")


def test_the_key_changes_with_every_ingredient(chat: ChatFormat):
    base: dict[str, Any] = {
        "env_name": "bandit",
        "options": options("bandit_tiny"),
        "model": MODEL,
        "settings": SHORT,
        "show_rewards": False,
        "seed": 0,
    }

    def key(**changes: Any) -> str:
        arguments = base | changes
        names = ("env_name", "options", "model")
        return policy_key(*(arguments.pop(name) for name in names), chat, arguments.pop("settings"), **arguments)

    keys = [
        key(),
        key(options=base["options"] | {"risky_probability": 0.5}),
        key(options=base["options"] | {"instructions": "full"}),
        key(env_name="frozen_lake", options=options("frozen_lake_tiny")),
        key(model=model_config("tiny")),
        key(settings=dataclasses.replace(SHORT, steps=13)),
        key(settings=dataclasses.replace(SHORT, skill=0.6)),
        key(show_rewards=True),
        key(seed=1),
    ]
    assert len(set(keys)) == len(keys)
    assert key() == keys[0]


def test_the_share_of_locked_lakes_does_not_change_the_key(chat: ChatFormat):
    """It says how often a lake is met, not how one is played."""
    keys = {
        policy_key(
            "frozen_lake",
            options("frozen_lake_tiny") | {"locked_share": share},
            MODEL,
            chat,
            SHORT,
            show_rewards=False,
            seed=0,
        )
        for share in (0.0, 0.75)
    }
    assert len(keys) == 1


def test_training_lowers_the_loss_and_repeats_bit_for_bit(chat: ChatFormat):
    traces = make_traces("bandit", options("bandit_tiny"), chat, SHORT, seed=0, show_rewards=False)

    def run() -> tuple[dict[str, Any], list[float]]:
        losses: list[float] = []
        params = fit(
            traces,
            MODEL,
            SHORT,
            vocab_size=chat.tokenizer.vocab_size,
            pad_id=chat.tokenizer.pad_id,
            seed=0,
            report=lambda step, loss: losses.append(loss),
        )
        return jax.device_get(params), losses

    first, losses = run()
    assert losses[-1] < 0.8 * losses[0]
    again, repeated = run()
    assert_trees_equal(again, first)
    assert repeated == losses


def test_a_warm_start_is_made_once(chat: ChatFormat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RAGEN_CACHE_DIR", str(tmp_path))
    said: list[str] = []

    def make() -> dict[str, Any]:
        return warm_start("bandit", options("bandit_tiny"), MODEL, chat, SHORT, show_rewards=False, say=said.append)

    first = make()
    assert "from the cache" not in said[-1]
    again = make()
    assert "from the cache" in said[-1] and str(tmp_path / "policies") in said[-1]
    assert_trees_equal(again, first)


def test_a_cache_that_cannot_be_written_is_noticed_before_the_training(
    chat: ChatFormat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RAGEN_CACHE_DIR", str(tmp_path))
    (tmp_path / "policies").write_text("a file where the folder should be")
    monkeypatch.setattr(warm_start_module, "fit", None)
    with pytest.raises(ValueError, match=r"cannot be kept in .*policies .*RAGEN_CACHE_DIR.*model\.init=random"):
        warm_start("bandit", options("bandit_tiny"), MODEL, chat, SHORT, show_rewards=False)


def test_an_unknown_recipe_names_the_nearest():
    assert recipe("bandit_tiny").steps > 0
    with pytest.raises(KeyError, match="bandit_tiny"):
        recipe("bandit_tini")
