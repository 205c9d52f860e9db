"""Options that could have no effect, and separators that could not be told from the rest."""

from __future__ import annotations

import dataclasses

import pytest

from ragen_jax.config import compose, validate
from ragen_jax.envs import EnvConfig, env_config, make_env
from ragen_jax.envs.demonstrations import join_actions
from ragen_jax.envs.gymnax_adapter import GymnaxEnv
from ragen_jax.envs.options import refuse_changed
from ragen_jax.envs.parsing import split_actions
from tests.env_fixtures import every_env, make


def test_options_without_an_effect_are_refused() -> None:
    config = dataclasses.replace(EnvConfig(), max_turns=3)
    refuse_changed(config, ("max_actions",), because="of nothing")
    with pytest.raises(ValueError, match="max_turns=3 has no effect because there is a file: leave it at 5"):
        refuse_changed(config, ("max_actions", "max_turns"), because="there is a file")


@pytest.mark.parametrize("separator", ["\n", "\t", "  ", " || ", "a b", "\x00", "\ud800", "\u00a0"])
def test_a_separator_is_one_printable_word_or_a_blank(separator: str) -> None:
    with pytest.raises(ValueError, match="has white space or an unprintable sign"):
        EnvConfig(action_separator=separator)


@pytest.mark.parametrize("separator", ["<", ">", "</answer>", "<answer>", "<think>", "<|im_end|>", "answer>", "->"])
def test_c42_a_separator_is_no_part_of_a_marker(separator: str) -> None:
    with pytest.raises(ValueError, match=r"reads like a marker of the reply, such as </answer>: use '\|\|' or ' '"):
        EnvConfig(action_separator=separator)


@pytest.mark.parametrize(
    ("name", "options", "separators"),
    [
        ("frozen_lake", {}, ["up", "UP", "o", "P", "_", "X", "G", "\N{SQUARE ROOT}", "righ"]),
        ("frozen_lake", {"observation_format": "grid_coord", "vocabulary": "ascii"}, ["W", "w", "_"]),
        ("frozen_lake", {"observation_format": "compact"}, ["P", "G", "O"]),
        ("sokoban", {}, ["left", "#", "_", "S", "\N{SQUARE ROOT}"]),
        ("sokoban", {"vocabulary": "letters"}, [".", "@", "C"]),
        ("game_2048", {}, ["down", ".", "2", "64", "16"]),
        ("rubik", {}, ["U", "'", "f'", "W"]),
        ("sudoku", {}, [",", "3", "(", "|", "row", "at", "."]),
        ("gymnax_four_rooms", {}, ["up", "#"]),
        ("gymnax_cart_pole", {}, ["left", "t"]),
    ],
)
def test_c42_a_separator_is_no_part_of_an_action_or_a_symbol(
    name: str, options: dict[str, object], separators: list[str]
) -> None:
    if name.startswith("gymnax"):
        pytest.importorskip("gymnax", reason="needs the extra: pip install 'ragen_jax[gymnax]'")
    for separator in separators:
        with pytest.raises(ValueError, match=r"action_separator=.* an action or a symbol of this environment: use"):
            env_config(name, action_separator=separator, **options)


def test_names_with_a_blank_exclude_a_blank_between_them() -> None:
    pytest.importorskip("gymnax", reason="needs the extra: pip install 'ragen_jax[gymnax]'")

    class Catch(GymnaxEnv):
        name = "catch"
        actions = ("go left", "stay", "go right")

        def describe(self, state):
            return ""

        def plan(self, state, limit):
            return [0]

    with pytest.raises(ValueError, match="action_separator=' ' stands in 'go left'"):
        env_config(Catch, action_separator=" ")
    assert env_config(Catch, action_separator=",").action_separator == ","


@pytest.mark.parametrize("separator", ["||", " ", ";", "&", "then"])
def test_what_is_allowed_is_read_back(separator: str) -> None:
    names = make_env("frozen_lake", action_separator=separator).words(env_config("frozen_lake"))[:4]
    for case in (str.upper, str.lower):
        pair = [case(names[0]), case(names[2])]
        read = split_actions(join_actions(pair, separator), separator=separator, limit=2, names=names)
        assert read.valid and read.actions == (0, 2)


@every_env
def test_the_usual_separator_is_refused_nowhere(name: str) -> None:
    assert make(name).config.action_separator == "||"


@pytest.mark.parametrize("name", ["bandit", "countdown", "metamathqa_retry", "search_qa", "webshop", "deepcoder"])
def test_c42_a_run_is_refused_before_anything_is_built(name: str) -> None:
    config = compose("paper", "grpo")
    env = dataclasses.replace(config.env, name=name, options={"action_separator": " "})
    with pytest.raises(ValueError, match=rf"env\.name={name}: action_separator=' ' has no effect .* at '\|\|'"):
        validate(dataclasses.replace(config, env=env))


@pytest.mark.parametrize("name", ["frozen_lake", "sokoban"])
@pytest.mark.parametrize("style", ["coord", "compact"])
def test_c42_symbols_that_nobody_sees_are_refused(name: str, style: str) -> None:
    with pytest.raises(ValueError, match=f"vocabulary='ascii' has no effect because observation_format='{style}'"):
        env_config(name, observation_format=style, vocabulary="ascii")


def test_pictures_are_refused_in_a_run_of_a_policy_that_reads_text() -> None:
    config = compose("paper", "grpo", "frozen_lake")
    env = dataclasses.replace(config.env, options={**config.env.options, "render_images": True})
    with pytest.raises(ValueError, match=r"env\.render_images=True: a policy reads text"):
        validate(dataclasses.replace(config, env=env))


def test_a_split_of_everything_has_no_share() -> None:
    with pytest.raises(ValueError, match="validation_percent=20 has no effect because split='all'"):
        env_config("sokoban", split="all", validation_percent=20)
