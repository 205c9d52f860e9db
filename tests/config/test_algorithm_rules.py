"""Rules about rewards, advantages and loss: each bad configuration differs from a good one in the fields it names."""

from __future__ import annotations

import logging

import pytest

from ragen_jax.config import parse, validate
from ragen_jax.core.advantages import ADVANTAGES, NEEDS_CRITIC, TOKEN_LEVEL

GROUP = [name for name in ADVANTAGES if name not in TOKEN_LEVEL]


def refused(*tokens: str) -> str:
    config = parse(["preset=grpo,top_p", *tokens]).config
    with pytest.raises(ValueError) as error:
        validate(config)
    return str(error.value)


def accepted(*tokens: str) -> None:
    validate(parse(["preset=grpo,top_p", *tokens]).config)


@pytest.mark.parametrize("advantage", GROUP)
def test_c42_group_of_one_with_a_group_relative_advantage(advantage):
    sentence = refused("rollout.group_size=1", f"algorithm.advantage={advantage}")
    assert "rollout.group_size=1" in sentence
    assert f"algorithm.advantage={advantage}" in sentence
    assert "at least 2" in sentence


@pytest.mark.parametrize("advantage", sorted(TOKEN_LEVEL))
def test_group_of_one_is_fine_where_no_group_is_compared(advantage):
    accepted("preset=ppo,no_filter", "rollout.group_size=1", f"algorithm.advantage={advantage}")
    assert "a variance needs at least 2" in refused(
        "preset=ppo,top_p", "rollout.group_size=1", f"algorithm.advantage={advantage}"
    )


def test_advantage_names():
    assert "did you mean 'grpo'" in refused("algorithm.advantage=grop")


@pytest.mark.parametrize("advantage", sorted(NEEDS_CRITIC))
def test_a_critic_is_needed(advantage):
    assert "model.critic_preset" in refused(f"algorithm.advantage={advantage}", "model.critic_preset=")
    accepted("model.critic_preset=")


@pytest.mark.parametrize(
    "tokens",
    [
        ("algorithm.normalize_by_std=false", "algorithm.advantage=gae"),
        ("algorithm.normalize_by_std=false", "algorithm.advantage=rloo"),
        ("algorithm.lam=0.9",),
        ("algorithm.lam=0.9", "algorithm.advantage=reinforce_plus_plus"),
        ("algorithm.gamma=0.9", "algorithm.advantage=rloo"),
        ("algorithm.turn_gamma=0.5", "algorithm.advantage=gae"),
        ("algorithm.value_clip=0.3",),
        ("algorithm.whiten=false",),
        ("algorithm.whiten_over=all",),
        ("algorithm.whiten_over=all", "algorithm.advantage=gae", "algorithm.whiten=false"),
        ("algorithm.kl_estimator=k2",),
        ("algorithm.kl_target=reward",),
        ("algorithm.equal_updates=true",),
        ("algorithm.equal_updates=true", "algorithm.minibatch_groups=8", "rollout.prompts=8"),
        ("algorithm.equal_updates=true", "algorithm.minibatch_groups=2", "preset=grpo,no_filter"),
        ("reward.grouping=batch",),
        ("reward.normalize=mean",),
        ("reward.normalize=mean_std",),
        ("reward.normalize=mean_std", "reward.grouping=batch"),
        ("reward.normalize=mean", "algorithm.advantage=rloo"),
        ("reward.normalize=mean_std", "reward.grouping=batch", "algorithm.advantage=reinforce_plus_plus_baseline"),
        ("reward.normalize=mean_std", "reward.grouping=batch", "algorithm.advantage=reinforce_plus_plus"),
        ("reward.normalize=mean", "reward.grouping=batch", "algorithm.advantage=reinforce_plus_plus"),
        ("reward.overlong_penalty=0.5",),
        ("filter.refill=true", "preset=grpo,nonzero"),
    ],
    ids=" ".join,
)
def test_options_without_effect_are_refused(tokens):
    sentence = refused(*tokens)
    assert "has no effect" in sentence
    assert tokens[0].partition("=")[0] in sentence


@pytest.mark.parametrize(
    "tokens",
    [
        ("algorithm.lam=0.9", "algorithm.advantage=gae"),
        ("algorithm.gamma=0.9", "algorithm.advantage=reinforce_plus_plus"),
        ("algorithm.turn_gamma=0.5", "algorithm.advantage=bi_level_gae"),
        ("algorithm.whiten_over=all", "algorithm.advantage=reinforce_plus_plus_baseline"),
        ("algorithm.equal_updates=true", "algorithm.minibatch_groups=2"),
        ("algorithm.center_tokens=true", "algorithm.aggregation=token-mean"),
        ("algorithm.kl_target=reward", "algorithm.kl_coef=0.1", "algorithm.kl_estimator=k1"),
        ("reward.normalize=asym_clip",),
        ("reward.normalize=mean_std", "algorithm.normalize_by_std=false"),
        ("reward.normalize=mean", "algorithm.advantage=gae"),
        ("reward.normalize=mean", "reward.grouping=batch", "algorithm.advantage=gae"),
        ("reward.normalize=mean_std", "reward.grouping=batch", "algorithm.advantage=rloo"),
        ("reward.overlong_buffer=400",),
        ("filter.refill=true", "filter.max_attempts=2", "preset=grpo,nonzero"),
    ],
    ids=" ".join,
)
def test_combinations_that_mean_something_are_accepted(tokens):
    accepted(*tokens)


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (("algorithm.clip_dual=0.5",), ("algorithm.clip_dual=0.5", "above 1")),
        (("algorithm.center_tokens=true",), ("seq-mean-token-mean", "aggregation=token-mean")),
        (("algorithm.center_tokens=true", "algorithm.advantage=gae"), ("center_tokens", "advantage=gae")),
        (
            ("algorithm.kl_target=reward", "algorithm.kl_coef=0.1", "algorithm.advantage=bi_level_gae"),
            ("kl_target=reward", "bi_level_gae"),
        ),
        (
            ("reward.normalize=mean", "rollout.group_size=1", "preset=ppo,no_filter"),
            ("reward.normalize=mean", "rollout.group_size=1"),
        ),
        (("reward.overlong_buffer=401",), ("reward.overlong_buffer=401", "rollout.max_new_tokens=400")),
        (("reward.overlong_buffer=4", "reward.overlong_penalty=-1"), ("reward.overlong_penalty=-1.0",)),
        (("filter.refill=true", "filter.max_attempts=3"), ("filter.rule=top_p", "filter.rule=nonzero")),
    ],
)
def test_contradictions_name_the_fields(tokens, words):
    sentence = refused(*tokens)
    for word in words:
        assert word in sentence


def test_the_dual_clip_may_be_off():
    accepted("algorithm.clip_dual=0")


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (("algorithm.kl_estimator=k1",), "zero on average"),
        (("algorithm.kl_estimator=k3", "algorithm.kl_target=reward"), "k1 does"),
        (("algorithm.kl_estimator=k1", "algorithm.kl_target=reward"), ""),
        ((), ""),
    ],
)
def test_estimators_in_the_wrong_place_are_a_choice_with_a_warning(caplog, tokens, words):
    with caplog.at_level(logging.WARNING):
        accepted("algorithm.kl_coef=0.01", *tokens)
    assert (words in caplog.text) if words else not caplog.text
