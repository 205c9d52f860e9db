"""Rules across fields, one by one. Each bad configuration differs from a good one in the fields that it names."""

from __future__ import annotations

import logging

import pytest

from ragen_jax.config import VALIDATION_WALK, Config, check_mesh, compose, parse, validate
from ragen_jax.config.validate import _ABOVE_ZERO, _AT_LEAST, _BELOW_ONE, _SHARES


def refused(*tokens: str) -> str:
    config = parse(["preset=grpo,top_p", *tokens]).config
    with pytest.raises(ValueError) as error:
        validate(config)
    return str(error.value)


def accepted(*tokens: str) -> None:
    validate(parse(["preset=grpo,top_p", *tokens]).config)


def test_the_defaults_are_valid():
    validate(Config())
    accepted()


@pytest.mark.parametrize(("key", "low"), sorted(_AT_LEAST.items()))
def test_lower_bounds(key, low):
    assert f"{key}={low - 1}" in refused(f"{key}={low - 1}").replace(f"{low - 1}.0", f"{low - 1}")


@pytest.mark.parametrize("key", _ABOVE_ZERO)
def test_above_zero(key):
    assert f"{key}=0.0 must be above 0" in refused(f"{key}=0")


@pytest.mark.parametrize("key", ["rollout.temperature", "validation.temperature"])
def test_temperatures_that_float32_cannot_follow(key):
    for value in (-1.0, 0.0, 1e-30):
        assert f"{key}={value} is too small" in refused(f"{key}={value}")
    accepted(f"{key}=0.001")


@pytest.mark.parametrize("key", [*_SHARES, *_BELOW_ONE])
def test_shares(key):
    assert f"{key}=1.5" in refused(f"{key}=1.5")
    assert f"{key}=-0.1" in refused(f"{key}=-0.1")


def test_not_finite():
    assert "optim.lr=inf is not finite" in refused("optim.lr=inf")
    assert "format_penalty=-1e+39 is not finite as the float32" in refused("rollout.format_penalty=-1e39")


def test_a_time_that_no_thread_can_wait_is_refused():
    assert "env.step_timeout_s=1e+10 is longer than a thread can wait" in refused("env.step_timeout_s=1e10")
    accepted("env.step_timeout_s=1e6")


@pytest.mark.parametrize("value", ["inf", "nan", "-inf"])
@pytest.mark.parametrize("rule", ["top_p", "top_k", "top_k_count", "min_p", "quartile", "nonzero"])
def test_a_filter_value_that_is_not_finite_is_refused_by_every_rule(rule, value):
    assert f"filter.value={value} is not finite" in refused(f"filter.rule={rule}", f"filter.value={value}")


def test_every_problem_is_named_at_once():
    sentence = refused("validation.top_p=0", "rollout.temperature=0")
    assert "validation.top_p=0.0" in sentence
    assert "rollout.temperature=0.0" in sentence


# --- C42 and batches ---------------------------------------------------------------------------------------------


def test_c42_minibatch_that_does_not_divide_names_both_numbers():
    sentence = refused("rollout.prompts=10", "algorithm.minibatch_groups=4")
    assert "algorithm.minibatch_groups=4" in sentence
    assert "rollout.prompts=10" in sentence


def test_micro_groups_must_divide_what_one_update_reads():
    assert "micro_groups=3 does not divide rollout.prompts=8" in refused("micro_groups=3")
    assert "algorithm.minibatch_groups=2" in refused("micro_groups=4", "algorithm.minibatch_groups=2")
    accepted("micro_groups=2", "algorithm.minibatch_groups=2")


# --- C25 ---------------------------------------------------------------------------------------------------------


def test_c25_overlapping_seed_ranges_are_refused():
    sentence = refused("env.train_seed=100", "validation.seed=200", "steps=200")
    assert "training seeds 100..1699" in sentence
    assert "validation.seed=200" in sentence
    assert "env.train_seed=8392" in sentence  # 200 + 16 * 512
    accepted("env.train_seed=8392", "validation.seed=200", "steps=200")


def test_c25_exact_ends_of_the_ranges():
    walk = 4 * VALIDATION_WALK
    base = ("steps=200", "rollout.prompts=8", "validation.prompts=4", "env.train_seed=1000")
    accepted(*base, "validation.seed=2600")
    refused(*base, "validation.seed=2599")
    accepted(*base, f"validation.seed={1000 - walk}")
    refused(*base, f"validation.seed={1000 - walk + 1}")


def test_seeds_that_a_random_key_cannot_hold_are_refused():
    accepted(f"seed={2**31 - 1}", f"env.train_seed={10**12}")
    assert f"seed={2**31} is too large; use {2**31 - 1} or less" in refused(f"seed={2**31}")


# --- environment -------------------------------------------------------------------------------------------------


def test_environment_names_and_options():
    assert "did you mean 'frozen_lake'" in refused("env.name=frozenlake")
    config = compose("grpo")
    for options, words in (
        ({"siz": 4}, ("siz", "size")),
        ({"size": "big"}, ("size", "big")),
        ({"size": 1}, ("size", "1")),
        ({"split": "train"}, ("env.split=train",)),
        ({"validation_percent": 0}, ("env.validation_percent=0",)),
    ):
        bad = with_options(config, options)
        with pytest.raises(ValueError) as error:
            validate(bad)
        for word in words:
            assert word in str(error.value)


def test_a_step_has_the_time_that_its_environment_may_take():
    message = refused("env.name=deepcoder", "env.total_limit_s=60", "env.step_timeout_s=60")
    assert "env.step_timeout_s=60: one step of deepcoder may take 64 seconds by its own limits" in message
    accepted("env.name=deepcoder", "env.total_limit_s=60", "env.step_timeout_s=64")


def with_options(config: Config, options: dict) -> Config:
    import dataclasses

    return dataclasses.replace(config, env=dataclasses.replace(config.env, options=options))


# --- rollout -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", ["rollout.top_p=0.9", "actor_rollout_ref.rollout.top_k=5"])
def test_truncated_sampling_is_refused_in_training(token):
    with pytest.raises(ValueError, match="training samples from the whole distribution"):
        parse([token])
    accepted("validation.top_p=0.9", "validation.top_k=5")
    assert "validation.top_p=1.5" in refused("validation.top_p=1.5")


def test_one_reply_must_fit():
    sentence = refused("rollout.max_new_tokens=65", "rollout.max_context=64")
    assert "rollout.max_new_tokens=65" in sentence
    assert "rollout.max_context=64" in sentence
    accepted("rollout.max_new_tokens=64", "rollout.max_context=64")


def test_format_penalty_is_no_reward():
    assert "rollout.format_penalty=0.1" in refused("rollout.format_penalty=0.1")


# --- filter ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["top_p", "reverse_top_p", "top_k", "min_p"])
@pytest.mark.parametrize("value", [0.0, -0.5, 1.5])
def test_shares_of_filters(rule, value):
    assert f"filter.value={value}" in refused(f"filter.rule={rule}", f"filter.value={value}")
    accepted(f"filter.rule={rule}", "filter.value=1")


def test_counts_and_quartiles():
    refused("filter.rule=top_k_count", "filter.value=0.5")
    refused("filter.rule=top_k_count", "filter.value=9")
    accepted("filter.rule=top_k_count", "filter.value=8")
    refused("filter.rule=quartile", "filter.value=0")
    refused("filter.rule=quartile", "filter.value=1", "rollout.prompts=2")
    accepted("filter.rule=quartile", "filter.value=4")


def test_filter_names():
    assert "did you mean 'top_p'" in refused("filter.rule=topp")


@pytest.mark.parametrize(
    "tokens",
    [
        ("filter.rule=none", "filter.value=0.5"),
        ("filter.rule=top_k", "filter.mass=softmax"),
        ("filter.mass=softmax", "filter.slack=0.01"),
        ("filter.rule=top_k", "filter.slack=0.01"),
        ("filter.rule=none", "filter.loss_scale=linear"),
        ("filter.rule=top_k", "filter.loss_scale=rho"),
        ("filter.rule=none", "filter.score=reward_std"),
        ("filter.rule=nonzero", "filter.score=length"),
        ("filter.rule=nonzero", "filter.value=0.5"),
        ("filter.rule=nonzero", "filter.include_zero=true"),
        ("filter.rule=quartile", "filter.value=1", "filter.include_zero=true"),
        ("filter.rule=min_p", "filter.mass=count"),
        ("filter.mass=count", "filter.slack=0.01"),
        ("filter.replays=4",),
        ("filter.loss_scale_target=advantages",),
        ("filter.best_and_worst=8",),
        ("filter.best_and_worst=9",),
    ],
)
def test_filter_options_without_effect_are_refused(tokens):
    sentence = refused(*tokens)
    assert any(token.partition("=")[0] in sentence for token in tokens)


def test_score_names():
    assert "did you mean 'reward_std'" in refused("filter.score=reward_stdev")


@pytest.mark.parametrize("score", ["reward_mean", "reward_sum", "reward_max"])
@pytest.mark.parametrize("rule", ["top_p", "reverse_top_p", "min_p"])
def test_scores_that_a_penalty_pulls_below_zero_have_no_mass(score, rule):
    tokens = (f"filter.rule={rule}", f"filter.score={score}")
    sentence = refused(*tokens)
    assert f"filter.score={score}" in sentence and "rollout.format_penalty=-0.1" in sentence
    accepted(*tokens, "filter.count_penalty=false")
    accepted(*tokens, "rollout.format_penalty=0")
    assert f"filter.score={score}" in refused(
        *tokens, "rollout.format_penalty=0", "reward.overlong_buffer=8", "rollout.max_new_tokens=64"
    )
    accepted("filter.rule=top_k", f"filter.score={score}")
    if rule == "top_p":
        accepted(*tokens, "filter.mass=softmax")


def test_replays_need_noise_and_one_turn():
    lake = ("filter.score=replayed_variance", "env.max_actions_per_turn=10")
    accepted(*lake, "env.max_turns=1", "filter.replays=4")
    accepted(*lake, "env.max_turns=1", "env.slip_rate=0")
    assert "env.max_turns=5" in refused(*lake)
    for env in ("sokoban", "countdown"):
        sentence = refused("filter.score=replayed_variance", f"env.name={env}", "env.max_turns=1")
        assert f"env.name={env}" in sentence and "reward_variance" in sentence
    accepted("filter.score=replayed_variance", "env.name=bandit")


def test_best_and_worst_take_less_than_the_group():
    accepted("filter.best_and_worst=7")
    accepted("filter.rule=none", "filter.best_and_worst=3")


# --- model ---------------------------------------------------------------------------------------------------------


def test_model_names_and_starts(tmp_path):
    assert "did you mean 'tiny'" in refused("model.preset=tinny")
    assert "model.critic_preset" in refused("model.critic_preset=nothing")
    assert "model.warm_start" in refused("model.init=warm_start")
    assert "is no folder" in refused("model.init=warmstart")
    accepted(f"model.init={tmp_path}")
    accepted("model.init=warm_start", "model.warm_start=frozen_lake_tiny")
    accepted("model.warm_start=frozen_lake_tiny")  # the recipe stays when a preset's start is replaced


# --- validation and mesh -----------------------------------------------------------------------------------------


def test_validation_can_only_score_what_it_sampled():
    sentence = refused("validation.samples=1", "validation.collapse_samples=2")
    assert "validation.samples=1" in sentence
    assert "validation.collapse_samples=2" in sentence
    refused("validation.prompts=1", "validation.collapse_samples=1")


def mesh(*tokens: str) -> Config:
    return parse(["preset=grpo", *tokens]).config


def test_mesh_against_devices(caplog):
    check_mesh(mesh(), 1)
    check_mesh(mesh("mesh.fsdp=2"), 4)  # micro_groups=0 settles itself
    check_mesh(mesh("micro_groups=4"), 4)
    check_mesh(mesh("micro_groups=2", "mesh.tensor=2"), 4)
    with pytest.raises(ValueError, match="does not divide 4 devices"):
        check_mesh(mesh("mesh.fsdp=3"), 4)
    with pytest.raises(ValueError, match="needs 8 devices, there are 4"):
        check_mesh(mesh("mesh.data=8"), 4)
    check_mesh(mesh("mesh.fsdp=2", "micro_groups=1"), 4)  # devices share the rows of a group
    with pytest.raises(ValueError, match=r"micro_groups=1 groups of rollout.group_size=6 rows do not .*multiple of 2"):
        check_mesh(mesh("mesh.fsdp=2", "micro_groups=1", "rollout.group_size=6"), 4)
    with pytest.raises(
        ValueError, match=r"rollout.prompts=6 does not divide over .*mesh.fsdp=2; use rollout.prompts=8"
    ):
        check_mesh(mesh("mesh.fsdp=2", "rollout.prompts=6"), 4)
    with caplog.at_level(logging.WARNING):
        check_mesh(mesh("mesh.data=1"), 4)
    assert "1 of 4 devices" in caplog.text


# --- options that would do nothing -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["trajectory", "turn_uniform"])
def test_contexts_of_a_diagnosis_that_never_runs(name):
    sentence = refused("collapse.every=0", f"collapse.{name}=true")
    assert f"collapse.{name}=True has no effect with collapse.every=0" in sentence
    accepted("collapse.every=1", f"collapse.{name}=true")


def test_draws_of_contexts_that_are_not_drawn():
    assert "collapse.trajectory_samples=8 has no effect" in refused("collapse.trajectory_samples=8")
    for name in ("trajectory", "turn_uniform"):
        accepted("collapse.trajectory_samples=8", f"collapse.{name}=true")


def test_early_stops_that_cannot_come():
    assert "early_stop.fraction=0 with early_stop.window=5" in refused("early_stop.fraction=0")
    accepted("early_stop.fraction=0", "early_stop.window=0")
    assert "early_stop.low_success_validations=5" in refused("early_stop.low_success=0")
    accepted("early_stop.low_success=0", "early_stop.low_success_validations=0")
