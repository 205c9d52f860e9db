"""The command line."""

from __future__ import annotations

import pytest

from ragen_jax.config import Config, compose, flatten, parse, to_json, validate
from ragen_jax.config.keys import key_types
from ragen_jax.config.legacy_keys import LEGACY_KEYS


def config_of(*tokens: str) -> Config:
    return parse(tokens).config


def test_no_tokens_give_the_defaults():
    parsed = parse([])
    assert parsed.config == Config()
    assert parsed.seeds == ()
    assert parsed.rest == {}


@pytest.mark.parametrize(
    ("token", "value"),
    [
        ("steps=7", 7),
        ("folder=runs/a=b", "runs/a=b"),
        ("folder=", ""),
        ("optim.lr=1e-4", 1e-4),
        ("optim.lr=1", 1.0),
        ("rollout.format_penalty=-0.5", -0.5),
        ("rollout.show_rewards=false", False),
        ("rollout.show_rewards=True", True),
        ("filter.score=reward_std", "reward_std"),
        ("algorithm.aggregation=seq-mean-token-mean", "seq-mean-token-mean"),
        ("env.size=5", 5),
        ("env.slip_rate=0", 0.0),
        ("env.action_separator= ", " "),
        ("--steps=7", 7),
    ],
)
def test_values_are_typed(token, value):
    key = token.removeprefix("--").partition("=")[0]
    got = flatten(config_of(token))[key]
    assert got == value
    assert type(got) is type(value)


def test_the_last_of_a_repeated_key_counts():
    assert config_of("steps=1", "steps=2").steps == 2


def test_presets_compose_from_left_to_right():
    config = config_of("preset=frozen_lake_tiny,grpo", "steps=3")
    assert config.algorithm.advantage == "grpo"
    assert config.env.options["observation_format"] == "compact"
    assert config.steps == 3
    assert config.preset == ("frozen_lake_tiny", "grpo")


def test_default_presets_are_replaced_by_preset():
    assert parse([], default_presets=("grpo",)).config == compose("grpo")
    assert parse(["preset=ppo"], default_presets=("grpo",)).config == compose("ppo")


def test_config_file_reloads_exactly(tmp_path):
    config = config_of("preset=paper,sokoban_tiny,ppo", "optim.lr=3e-4", "env.boxes=2")
    path = tmp_path / "config.json"
    path.write_text(to_json(config))
    assert parse([f"config={path}"], default_presets=("grpo",)).config == config
    assert config_of(f"config={path}", "seed=9").seed == 9
    with pytest.raises(ValueError, match="give one of them"):
        parse([f"config={path}", "preset=grpo"])


def test_seeds_and_own_options_are_parsed_apart():
    own = {"smoke": "short run", "filter": "arms", "jobs": "children at a time"}
    parsed = parse(["seeds=0,1,2", "--smoke", "filter=top_p", "filter.value=0.8", "filter.rule=top_p"], own=own)
    assert parsed.seeds == (0, 1, 2)
    assert parsed.rest == {"smoke": "true", "filter": "top_p"}
    assert parsed.config.filter.value == 0.8


@pytest.mark.parametrize(
    ("tokens", "sentence"),
    [
        (["seeds=0,x"], "seeds='x' is not a whole number"),
        (["seeds=0,0"], "names a seed twice"),
        (["seeds=0,1", "seed=3"], "contradict"),
    ],
)
def test_bad_seeds(tokens, sentence):
    with pytest.raises(ValueError, match=sentence):
        parse(tokens)


@pytest.mark.parametrize(
    ("token", "hint"),
    [
        ("clip_ratio_hi=0.28", "algorithm.clip_high"),  # C42
        ("algorithm.clip_hi=0.28", "algorithm.clip_high"),
        ("group_size=4", "rollout.group_size"),
        ("sed=1", "'seed'"),  # and not validation.seed
        ("folde=x", "'folder'"),
        ("filter.rul=top_p", "filter.rule"),
        ("env.siz=3", "env.size"),
        ("rollout_filter_value=0.9", "filter.value"),
        ("actor_rollout_ref.actor.clip_ratio_high=0.28", "algorithm.clip_high"),
        ("trainer.total_training_steps=3", "'steps'"),
        ("env=frozen_lake", "env.name"),
        ("env.options={}", "env.option"),
    ],
)
def test_unknown_keys_name_the_nearest_valid_one(token, hint):
    with pytest.raises(ValueError, match=token.partition("=")[0]) as error:
        parse([token])
    assert hint in str(error.value)


def test_foreign_key_without_counterpart_says_why():
    with pytest.raises(ValueError, match="weight 0"):
        parse(["agent_proxy.batch_adjust_mode=copy"])


def test_legacy_keys_point_to_keys_that_exist():
    known = {*key_types(), "env.max_turns", "env.max_actions", "env.action_separator"}
    assert set(LEGACY_KEYS.values()) <= known


def test_the_kl_in_the_reward_has_a_key_of_its_own():
    with pytest.raises(ValueError, match=r"use_kl_in_reward is called 'algorithm\.kl_target'"):
        parse(["algorithm.use_kl_in_reward=true"])
    with pytest.raises(ValueError, match=r"algorithm\.kl_coef or probe\.every"):
        parse(["actor.use_ref=false"])


@pytest.mark.parametrize(
    ("token", "sentence"),
    [
        ("steps=1e3", "steps='1e3' is not a whole number"),
        ("optim.lr=fast", "optim.lr='fast' is not a number"),
        ("rollout.show_rewards=yes", "not true or false"),
        ("filter.mass=lin", "linear, softmax"),
        ("env.size=big", "env.size='big'"),
    ],
)
def test_values_of_a_wrong_type_are_refused(token, sentence):
    with pytest.raises(ValueError, match=sentence):
        parse([token])


def test_tokens_that_are_no_key_value():
    with pytest.raises(ValueError, match="'grpo' is no key=value"):
        parse(["grpo"])
    with pytest.raises(ValueError, match="'--smoke' is no key=value"):
        parse(["--smoke"])


def test_unknown_names_are_key_errors_with_the_nearest_name():
    with pytest.raises(KeyError, match="did you mean 'paper'"):
        parse(["preset=papr"])
    with pytest.raises(KeyError, match="did you mean 'sokoban'"):
        parse(["env.name=sokobann", "env.boxes=2"])


def test_options_belong_to_the_environment_named_anywhere_on_the_line():
    config = config_of("env.boxes=2", "env.name=sokoban")
    assert config.env.options == {"boxes": 2}
    with pytest.raises(ValueError, match=r"unknown key 'env\.boxes'"):
        parse(["env.boxes=2", "env.name=frozen_lake"])


def test_a_damaged_configuration_file_is_named(tmp_path):
    path = tmp_path / "bad.json"
    for content in (b"", b'{"seed": 1', b"[]", b'{"sed": 1}', b"\xff"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"bad\.json: "):
            parse([f"config={path}"])


def test_help_lists_every_key_and_the_options_of_the_environment(capsys):
    with pytest.raises(SystemExit) as leave:
        parse(["--help", "env.name=sokoban"], own={"smoke": "a short run"})
    assert leave.value.code == 0
    text = capsys.readouterr().out
    for key in set(key_types()) | {"smoke", "boxes", "max_turns"}:
        assert f"{key}=" in text, key
    assert "--steps" not in text
    assert "prompts per step" in text


def test_flatten_uses_the_spelling_of_the_command_line():
    config = config_of("preset=countdown_tiny,dapo,cpu_debug")
    flat = flatten(config)
    flat.pop("preset")
    tokens = [f"{key}={value}" for key, value in flat.items()]
    again = config_of(*tokens)
    assert flatten(again) == flatten(config) | {"preset": ()}


def test_another_environment_drops_the_options_of_the_first() -> None:
    config = parse(["preset=paper,frozen_lake_tiny", "env.name=countdown", "env.max_number=20"]).config
    assert (config.env.name, config.env.options) == ("countdown", {"max_number": 20})
    validate(config)
    same = parse(["preset=paper,frozen_lake_tiny", "env.name=frozen_lake"]).config
    assert same == parse(["preset=paper,frozen_lake_tiny"]).config
