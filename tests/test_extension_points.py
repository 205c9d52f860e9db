"""The recipes of docs/architecture.md: one new file and one registry line each.

Every test writes the file of a recipe into a folder, enters its line into the registry, and uses it the way a run does.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
from pathlib import Path

import numpy as np
import pytest

from ragen_jax.config import compose, parse, validate
from ragen_jax.core.advantages import ADVANTAGES
from ragen_jax.core.estimators import ESTIMATORS
from ragen_jax.core.filters import FILTERS, select
from ragen_jax.core.scores import SCORES, ScoreInputs, group_scores
from ragen_jax.envs import ENVS, make_env
from ragen_jax.envs.pool import EnvPool
from ragen_jax.learner.prepare import PrepareConfig, prepare
from ragen_jax.registry import Registry
from ragen_jax.training.measure import measure
from ragen_jax.types import CrossScores, FilterResult, RolloutBatch

PROJECT = Path(__file__).parent.parent

ENVIRONMENT = '''
"""Say the number you see."""
import dataclasses

from ragen_jax.envs.base import Demonstration, EnvConfig, Observation, StepResult, TextEnv
from ragen_jax.envs.instances import draw_instance


@dataclasses.dataclass(frozen=True, kw_only=True)
class EchoConfig(EnvConfig):
    """Options: ``top`` is the largest number."""

    top: int = 99


class Echo(TextEnv):
    """Reward 1 for the number that is shown."""

    name = "echo"
    Config = EchoConfig

    def __init__(self, config):
        self.config = config

    def instructions(self):
        return "" if self.config.instructions == "terse" else "Repeat the number."

    def reset(self, seed, member=0):
        self.number = draw_instance(
            lambda rng: int(rng.integers(self.config.top + 1)), str,
            seed=seed, split=self.config.split, validation_percent=self.config.validation_percent,
        )
        return Observation(str(self.number))

    def step(self, answer):
        right = answer.strip() == str(self.number)
        info = {"success": right, "action_is_valid": answer.strip().isdigit(), "action_is_effective": True}
        return StepResult(Observation("done"), float(right), terminated=True, truncated=False, info=info)

    def canonical(self):
        return str(self.number)

    def demonstrate(self, rng, *, skill):
        return Demonstration(reasoning=f"it says {self.number}", answer=str(self.number))
'''

FILTER = '''
"""Keep the prompts whose score is above a number."""
import jax.numpy as jnp

from ragen_jax.core.filters.result import build_result, candidates


def rule(scores, flat, options):
    keep = candidates(scores, flat, include_zero=options.include_zero) & (scores > options.value)
    return build_result(keep, scores, loss_scale=options.loss_scale)
'''

SCORE = '''
"""The smallest reward of a group."""
import jax.numpy as jnp

from ragen_jax.core.scores import Score


def smallest(values, valid):
    return jnp.min(jnp.where(valid, values, jnp.inf), axis=1)


SMALLEST = Score(smallest, non_negative=False)
'''

ADVANTAGE = '''
"""The sign of the centred reward, on every response token."""
import jax.numpy as jnp

from ragen_jax.core.advantages.grpo import group_advantages, spread_over_tokens


def estimate(inputs, options):
    return spread_over_tokens(
        jnp.sign(group_advantages(inputs.rewards, inputs.valid, normalize_by_std=False)), inputs.response_mask
    )
'''

ESTIMATOR = '''
"""The longest reasoning that was scored."""
import jax.numpy as jnp


def longest(scores):
    return {"longest_reasoning_tokens": jnp.max(jnp.where(scores.valid, scores.lengths, 0))}
'''


@pytest.fixture
def register(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Write a module and enter one line into a registry."""

    def enter(registry: Registry, name: str, module: str, text: str, attribute: str) -> None:
        (tmp_path / f"{module}.py").write_text(text)
        monkeypatch.syspath_prepend(tmp_path)
        importlib.invalidate_caches()
        monkeypatch.setitem(registry._targets, name, f"{module}:{attribute}")

    return enter


def test_an_environment(register) -> None:
    register(ENVS, "echo", "echo_env", ENVIRONMENT, "Echo")
    config = parse(["preset=paper,grpo", "env.name=echo", "env.top=9", "env.max_turns=1"]).config
    validate(config)
    env = make_env("echo", top=9)
    shown = env.reset(3).text
    assert env.step(env.demonstrate(np.random.default_rng(0), skill=1.0).answer).reward == 1.0
    with EnvPool("echo", env.config, groups=2, group_size=3, workers=1) as pool:
        first = pool.reset([3, 4])
        assert [observation.text for observation in first if observation][:3] == [shown] * 3
        results = pool.step([shown] * 6)
        assert [result.reward for result in results if result][:3] == [1.0] * 3
    with EnvPool(ENVS["echo"], env.config, groups=1, group_size=1, workers=1) as pool:  # a class needs no line
        assert pool.name == "echo"


def test_a_filter(register) -> None:
    register(FILTERS, "above", "above_rule", FILTER, "rule")
    config = compose("paper", "frozen_lake_tiny", "grpo", "no_filter")
    validate(dataclasses.replace(config, filter=dataclasses.replace(config.filter, rule="above", value=2.5)))
    scores, flat = np.array([1.0, 3.0, 0.0, 4.0], np.float32), np.array([False, False, True, False])
    result = select(scores, flat, rule="above", value=2.5)
    assert result.keep.tolist() == [False, True, False, True]


def test_a_score(register) -> None:
    register(SCORES, "reward_min", "min_score", SCORE, "SMALLEST")
    config = compose("paper", "frozen_lake_tiny", "grpo", "top_k25")
    validate(dataclasses.replace(config, filter=dataclasses.replace(config.filter, score="reward_min")))
    inputs = ScoreInputs(rewards=np.array([[1.0, 3.0], [0.0, 4.0]]), valid=np.array([[True, True], [False, True]]))
    assert group_scores("reward_min", inputs).tolist() == [1.0, 4.0]


def test_an_advantage(register) -> None:
    register(ADVANTAGES, "sign", "sign_advantage", ADVANTAGE, "estimate")
    config = compose("paper", "frozen_lake_tiny", "grpo")
    validate(dataclasses.replace(config, algorithm=dataclasses.replace(config.algorithm, advantage="sign")))
    settings = PrepareConfig(
        group_size=2,
        algorithm=dataclasses.replace(config.algorithm, advantage="sign"),
        constant_length=1.0,
        scale_advantages=False,
    )
    mask = np.ones((4, 3), bool)
    batch = RolloutBatch(
        prompt_tokens=np.zeros((2, 2), np.int32),
        prompt_mask=np.ones((2, 2), bool),
        prompt_class=np.arange(2, dtype=np.int32),
        tokens=np.zeros((4, 3), np.int32),
        attention_mask=mask,
        response_mask=mask,
        turn_ids=np.zeros((4, 3), np.int32),
        token_rewards=np.zeros((4, 3), np.float32),
        returns=np.array([5.0, 1.0, 0.0, 0.0], np.float32),
        penalties=np.zeros(4, np.float32),
        behaviour_log_probs=np.zeros((4, 3), np.float32),
        policy_version=np.int32(0),
        valid=np.ones(4, bool),
    )
    kept = FilterResult(
        keep=np.ones(2, bool),
        scores=np.zeros(2, np.float32),
        kept_count=np.int32(2),
        kept_mass=np.float32(1),
        loss_scale=np.float32(1),
    )
    advantages = prepare(batch, kept, settings).batch.advantages
    assert advantages[:, :, 0].tolist() == [[1.0, -1.0], [0.0, 0.0]]


def test_a_collapse_estimator(register) -> None:
    register(ESTIMATORS, "longest", "longest_estimator", ESTIMATOR, "longest")
    scores = CrossScores(
        log_probs=np.full((2, 2, 2), -3.0, np.float32),
        lengths=np.array([[4, 7], [2, 9]], np.int32),
        valid=np.array([[True, True], [True, False]]),
        column_class=np.arange(2, dtype=np.int32),
    )
    # The program of another test may have been traced before the line was there.
    metrics, _ = measure.__wrapped__(scores)
    assert metrics["longest_reasoning_tokens"] == 7


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("ragen_jax/envs/__init__.py", '("my_env", "ragen_jax.envs.my_env:MyEnv")'),
        ("ragen_jax/core/filters/__init__.py", '("my_rule", "ragen_jax.core.filters.my_rule:rule")'),
        ("ragen_jax/core/scores.py", '("my_score", "ragen_jax.core.my_score:SCORE")'),
        ("ragen_jax/core/estimators.py", '("my_metric", "ragen_jax.core.my_metric:estimate")'),
        (
            "ragen_jax/core/advantages/__init__.py",
            '("my_adv", "ragen_jax.core.advantages.my_adv:estimate")',
        ),
    ],
)
def test_the_page_shows_the_lines_in_the_form_of_their_tables(place: str, line: str) -> None:
    page = (PROJECT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert line in page
    assert place in page
    package = line.split('"')[3].partition(":")[0].rpartition(".")[0]
    entry = rf'^        \("\w+", "{re.escape(package)}\.[\w.]+:\w+"\),$'
    assert re.search(entry, (PROJECT / place).read_text(encoding="utf-8"), re.MULTILINE)
