"""What every registered environment must hold: a new entry is tested by being registered."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ragen_jax
from experiments._env_policies import sheet
from ragen_jax.envs import ENVS, EnvConfig, TextEnv, env_config, make_env
from ragen_jax.envs.instances import distinct_seeds
from ragen_jax.envs.parsing import parse_reply
from tests.env_fixtures import INSTALLED, every_env, make, own_options

TEXTS_OF_ALL_ENVS = """
import json, sys
from ragen_jax.envs import make_env
import numpy as np
for name, options in json.loads(sys.argv[1]).items():  # games of gymnax come last
    for instructions in ("full", "terse"):
        env = make_env(name, instructions=instructions, **options)
        for seed in (7, 8, 9):
            for member in range(2):
                print(name, seed, member, env.reset(seed, member).text, env.instructions(), env.canonical())
                print(env.demonstrate(np.random.default_rng(seed), skill=0.5))
        print(env.step(env.demonstrate(np.random.default_rng(1), skill=1.0).answer))
    if not name.startswith("gymnax_"):
        assert "jax" not in sys.modules, "an environment loaded jax"
"""


def _play(env: TextEnv, seed: int, rng: np.random.Generator, skill: float, member: int = 0) -> bool:
    """Success of one episode played by demonstrations; checks the contract of every step."""
    env.reset(seed, member)
    for turn in range(1, env.config.max_turns + 1):
        demonstration = env.demonstrate(rng, skill=skill)
        reply = parse_reply(f"<think>{demonstration.reasoning}</think><answer>{demonstration.answer}</answer>")
        assert reply.well_formed
        result = env.step(demonstration.answer)
        assert isinstance(result.reward, float)
        assert result.info["action_is_valid"]
        assert all(isinstance(result.info[key], bool) for key in ("success", "action_is_valid", "action_is_effective"))
        assert not (result.terminated and result.truncated)
        if result.done:
            return bool(result.info["success"])
        assert turn < env.config.max_turns, "the turn budget did not end the episode"
    raise AssertionError("no turn was played")


@every_env
@pytest.mark.parametrize("instructions", ["full", "terse"])
def test_smoke(name: str, instructions: str) -> None:
    env = make(name, instructions=instructions)
    assert env.name == name
    assert isinstance(env.config, EnvConfig)
    assert env.reset(0).text.strip()
    assert len(env.instructions().split()) > 20 if instructions == "full" else len(env.instructions().split()) <= 8
    rng = np.random.default_rng(0)
    for seed in range(5):
        _play(env, seed, rng, skill=0.5)
    env.close()


@every_env
def test_skill_is_the_share_of_right_demonstrations(name: str) -> None:
    """One-turn plans where an environment has them, so that one demonstration decides an episode.

    That is, where an answer may hold several actions and the usual number of turns is not the environment's own.
    """
    usual = env_config(name)
    own_turns = "max_actions_per_turn" in usual.fixed or usual.max_turns != EnvConfig().max_turns
    options = {} if own_turns else {"max_turns": 1, "max_actions_per_turn": 10}
    options |= {"slip_rate": 0.0} if name == "frozen_lake" else {}
    options |= {"max_turns": 50, "max_actions": 50} if name == "game_2048" else {}  # luck decides in 40 slides
    env = make(name, **options)
    rng = np.random.default_rng(0)
    assert np.mean([_play(env, seed, rng, skill=1.0) for seed in range(30)]) == 1
    assert np.mean([_play(env, seed, rng, skill=0.0) for seed in range(30)]) < 0.5


@every_env
def test_demonstrations_vary_in_wording(name: str) -> None:
    env = make(name)
    env.reset(1)
    rng = np.random.default_rng(0)
    reasonings = {env.demonstrate(rng, skill=1.0).reasoning for _ in range(40)}
    assert len(reasonings) > 20


@every_env
def test_a_reset_is_a_function_of_config_seed_and_member(name: str) -> None:
    env, other = make(name), make(name)
    first = [env.reset(seed).text for seed in range(12)]
    assert len(set(first)) > 6
    assert [other.reset(seed, member=5).text for seed in reversed(range(12))] == first[::-1]


@every_env
def test_c25_splits_are_disjoint_by_content(name: str) -> None:
    canonical: dict[str, set[str]] = {}
    for split, first in (("train", 10_000), ("validation", 10_000)):  # the same seeds on purpose
        env = make(name, split=split)
        canonical[split] = set()
        for seed in range(first, first + 120):
            env.reset(seed)
            canonical[split].add(env.canonical())
    assert len(canonical["train"]) > 10
    assert len(canonical["validation"]) > 10
    assert canonical["train"].isdisjoint(canonical["validation"])


@every_env
def test_validation_prompts_are_distinct_or_the_repeats_are_counted(name: str) -> None:
    found = distinct_seeds(lambda: make(name, split="validation"), first_seed=123, count=64)
    env = make(name, split="validation")
    texts = set()
    for seed in found.seeds:
        env.reset(seed)
        texts.add(env.canonical())
    assert len(texts) == found.distinct
    assert found.distinct + found.repeated == len(set(found.seeds)) == 64
    assert (found.repeated > 0) == (name in ("bandit", "deepcoder", "game_2048"))


@every_env
@given(
    text=st.one_of(st.text(), st.text(alphabet="0123456789+-*/()= |updownlefrigh")),
    separator=st.sampled_from(["||", " "]),
)
@settings(max_examples=25, deadline=None)
def test_any_answer_is_an_action_or_invalid(name: str, text: str, separator: str) -> None:
    options = {} if "action_separator" in env_config(name).fixed else {"action_separator": separator}
    env = make(name, **options)
    env.reset(3)
    result = env.step(text)
    assert np.isfinite(result.reward)
    assert isinstance(result.observation.text, str)


@every_env
@pytest.mark.parametrize(
    "text", ["", "\x00", "\ud800", "\u0661\u0662", "9" * 200_000, "(" * 200_000, "1" + "+1" * 100_000]
)
def test_huge_and_odd_answers_are_quickly_worth_nothing(name: str, text: str) -> None:
    env = make(name)
    env.reset(3)
    start = time.process_time()
    result = env.step(text)
    assert time.process_time() - start < 1
    assert not result.info["success"]
    assert result.reward <= 0


def test_c24_texts_do_not_depend_on_the_process() -> None:
    """Fresh interpreters with two hash seeds print the same texts, and load no jax before a game of gymnax asks."""
    digests = set()
    options = {name: own_options(name) for name in sorted(INSTALLED, key=lambda name: name.startswith("gymnax_"))}
    for hash_seed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-c", TEXTS_OF_ALL_ENVS, json.dumps(options)],
            env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr.decode()
        assert len(run.stdout) > 10_000
        digests.add(hashlib.sha256(run.stdout).hexdigest())
    assert len(digests) == 1


def test_unknown_names_name_the_nearest() -> None:
    with pytest.raises(KeyError, match="did you mean 'frozen_lake'"):
        make_env("frozenlake")
    with pytest.raises(ValueError, match="option of environment 'frozen_lake' 'slip_rat'; did you mean 'slip_rate'"):
        make_env("frozen_lake", slip_rat=0.1)
    with pytest.raises(KeyError, match=r"unknown environment 'xyzzy'\. Known: bandit, countdown"):
        make_env("xyzzy")


@pytest.mark.parametrize(
    ("field", "value", "kind"),
    [
        ("size", 4.0, "a whole number"),
        ("size", True, "a whole number"),
        ("slip_rate", "0.1", "a number"),
        ("slip_rate", False, "a number"),
        ("render_images", 1, "true or false"),
        ("split", None, "text"),
    ],
)
def test_a_wrong_type_names_field_and_type(field: str, value: object, kind: str) -> None:
    with pytest.raises(ValueError, match=f"frozen_lake: {field}={value!r} is not {kind}"):
        env_config("frozen_lake", **{field: value})


def test_an_int_serves_as_a_float() -> None:
    assert env_config("frozen_lake", slip_rate=0).slip_rate == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("split", "test"),
        ("validation_percent", 101),
        ("instructions", "long"),
        ("max_turns", 0),
        ("action_separator", ""),
    ],
)
@every_env
def test_common_fields_are_checked(name: str, field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field):
        env_config(name, **{field: value})


def test_a_class_bears_the_name_it_is_registered_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENVS._targets, "machines", "ragen_jax.envs.bandit:Bandit")
    with pytest.raises(ValueError, match="environment 'machines' is class Bandit, whose name is 'bandit': use one"):
        make_env("machines")


def _class_with(**attributes: object) -> type[TextEnv]:
    return type("Mine", (ENVS["bandit"],), attributes)


class _Plain:
    most = 3


class _Undecorated(EnvConfig):
    most: int = 3


@pytest.mark.parametrize(
    ("attributes", "fault"),
    [
        ({"name": None}, "environment class Mine has no name"),
        ({"Config": None}, "environment 'bandit': Mine has no Config, a class that extends EnvConfig"),
        ({"Config": _Plain}, "Mine has no Config, a class that extends EnvConfig"),
        ({"Config": _Undecorated}, "_Undecorated is no dataclass, so its own options are not seen"),
    ],
)
def test_a_class_that_is_not_complete_is_told(attributes: dict[str, object], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        make_env(_class_with(**attributes), most=4)


def test_a_fixed_option_is_an_option() -> None:
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Misspelt(EnvConfig):
        fixed: ClassVar = {"max_turnss": "one is enough"}

    with pytest.raises(ValueError, match=r"Misspelt\.fixed: unknown option 'max_turnss'; did you mean 'max_turns'"):
        Misspelt()


def test_a_class_needs_no_registration() -> None:
    env = make_env(ENVS["bandit"], safe_reward=0.2)
    assert env.config == env_config("bandit", safe_reward=0.2)


def test_every_public_name_resolves() -> None:
    assert set(ragen_jax.__all__) <= set(dir(ragen_jax))
    for name in ragen_jax.__all__:
        assert getattr(ragen_jax, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'make_environment'"):
        _ = ragen_jax.make_environment


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize(
    ("name", "field"),
    [("bandit", "risky_reward"), ("bandit", "safe_reward"), ("frozen_lake", "slip_rate"), ("sudoku", "partial_score")],
)
def test_options_are_finite(name: str, field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field}={value}: use an ordinary number"):
        env_config(name, **{field: value})


def test_common_options_without_effect_are_refused() -> None:
    with pytest.raises(ValueError, match="validation_percent=20 has no effect"):
        env_config("bandit", validation_percent=20)
    with pytest.raises(ValueError, match="shared_dynamics=True has no effect because slip_rate=0"):
        env_config("frozen_lake", slip_rate=0.0, shared_dynamics=True)
    assert env_config("frozen_lake", slip_rate=0.1, shared_dynamics=True).shared_dynamics
    assert env_config("frozen_lake", slip_rate=0.0).slip_rate == 0


@pytest.mark.parametrize("name", ["search_qa", "metamathqa", "deepcoder", "webshop", "countdown"])
def test_skip_malformed_needs_a_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGEN_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("RAGEN_CACHE_DIR", str(tmp_path))
    with pytest.raises(ValueError, match="skip_malformed=True has no effect"):
        make(name, skip_malformed=True).reset(0)


SHARED = ("shared_dynamics", "render_images", "observation_format", "vocabulary")
"""Options of several environments, beside those of ``EnvConfig``."""
OTHER_VALUES = {
    "split": ["validation"],
    "validation_percent": [60],
    "instructions": ["terse"],
    "action_separator": [" ", ";"],
    "shared_dynamics": [True],
    "render_images": [True],
    "observation_format": ["grid", "coord", "grid_coord", "compact", "full"],
    "vocabulary": ["ascii", "letters"],
}


def _behaviour(env: TextEnv, *, told: bool) -> list[object]:
    """What a policy sees, and how its replies are taken: first states, then whole episodes of several ways to play."""
    seen: list[object] = [env.instructions() if told else ""]
    for seed in range(25):
        observation = env.reset(seed, member=1)
        seen.append((observation.text, observation.image is None))
    noisy = {"frozen_lake": 40}.get(env.name, 3)  # slips are rare
    for way in ("nonsense", "nothing", "random", "again", "several", "spaced"):
        for seed in range(1 if env.name == "deepcoder" else noisy):
            env.reset(seed, member=1)
            rng, shown, done = np.random.default_rng(seed), "", False
            first = env.demonstrate(rng, skill=1.0).answer
            name = first.replace("||", " ").replace(";", " ").split(" ")[0]
            answers = {"nonsense": "no such action", "nothing": "", "again": first}
            answers |= {"several": "||".join([name] * 3), "spaced": " ".join([name] * 3)}
            while not done:
                result = env.step(answers[way] if way in answers else sheet(env.name).random.act(env, shown, rng))
                done = result.done
                seen.append((result.observation.text, result.reward, done, result.info["action_is_valid"]))
    return seen


@every_env
def test_c42_every_common_option_has_an_effect_or_is_refused(name: str) -> None:
    """Effect: another first state, or other results of the same answers; only the wording is told by instructions."""
    usual = env_config(name)
    changes = OTHER_VALUES | {
        "max_turns": [usual.max_turns + 1],
        "max_actions_per_turn": [usual.max_actions_per_turn + 1],
        "max_actions": [usual.max_actions - 1 or 2],
    }
    options = [field.name for field in dataclasses.fields(EnvConfig)]
    options += [option for option in SHARED if hasattr(usual, option)]
    before = {told: _behaviour(make(name), told=told) for told in (True, False)}
    refused = set()
    for option in options:
        for value in changes[option]:
            if value == getattr(usual, option):
                continue
            told = option == "instructions"
            try:
                env = make(name, **{option: value})
            except ValueError as error:
                assert re.search(rf"\b{option}={re.escape(repr(value))}|max_solution_len=10", str(error)), error
                refused.add(option)
                continue
            assert _behaviour(env, told=told) != before[told], f"{option}={value!r} changes nothing"
    assert usual.fixed.keys() <= refused
