"""Presets: each composes and validates; the two provenance presets say what they promise."""

from __future__ import annotations

import importlib
import itertools
import sys

import pytest

from configs import PRESETS
from configs._change import change
from ragen_jax.config import Config, compose, from_json, to_json, validate
from ragen_jax.config.schema import FilterSection
from ragen_jax.core.filters import READINGS
from ragen_jax.envs import env_config
from tests.env_fixtures import LACKS

ENVIRONMENTS = ("frozen_lake", "sokoban", "countdown", "bandit")
CRITIC_FREE = ("grpo", "dr_grpo", "reinforce", "rloo", "reinforce_plus_plus", "reinforce_plus_plus_baseline")
ALGORITHMS = ("ppo", "ppo_bi_level", *CRITIC_FREE, "dapo")


# What a preset asks of its environment.
COMPANIONS = {"replayed_variance": ("frozen_lake_tiny",)}  # noise, and one turn


@pytest.mark.parametrize("name", list(PRESETS))
def test_every_preset_composes_and_validates_alone(name):
    names = (*COMPANIONS.get(name, ()), name)
    config = compose(*names)
    if LACKS.get(config.env.name):
        pytest.skip(LACKS[config.env.name])
    validate(config)
    assert config.preset == names
    assert from_json(to_json(config)) == config


@pytest.mark.parametrize(
    ("provenance", "env", "size", "algorithm"),
    [
        *itertools.product(("paper", "reference_code"), ENVIRONMENTS, ("", "_tiny"), ("ppo", "grpo", "dapo")),
        *itertools.product(("paper", "reference_code"), ENVIRONMENTS[:1], ("", "_tiny"), ALGORITHMS),
    ],
)
def test_every_combination_validates(provenance, env, size, algorithm):
    validate(compose(provenance, env + size, algorithm))
    validate(compose(provenance, env + size, algorithm, "no_filter", "tiny"))
    validate(compose(env + size, algorithm, "top_p", "cpu_debug"))


@pytest.mark.parametrize("env", ENVIRONMENTS)
def test_environment_options_are_those_of_the_environment(env):
    for name in (env, f"{env}_tiny"):
        config = compose(name)
        assert config.env.name == env
        env_config(env, **config.env.options)


def test_presets_do_not_touch_their_argument():
    before = to_json(Config())
    config = Config()
    for name in PRESETS:
        PRESETS[name](config)
    assert to_json(config) == before


def test_later_presets_win_and_environments_do_not_leak():
    assert compose("frozen_lake_tiny", "sokoban").env.options.keys() >= {"boxes"}
    assert "locked_share" not in compose("frozen_lake_tiny", "sokoban").env.options
    assert compose("paper", "base") == compose("base").__class__(preset=("paper", "base"))
    assert compose("top_p", "no_filter").filter == FilterSection()


def test_paper_and_reference_code_differ_where_they_should():
    paper, code = compose("paper"), compose("reference_code")
    assert (paper.filter.score, code.filter.score) == ("reward_variance", "reward_std")
    assert (paper.filter.mass, code.filter.mass) == ("linear", "softmax")
    assert (paper.filter.include_zero, code.filter.include_zero) == (False, True)
    assert (paper.filter.loss_scale, code.filter.loss_scale) == ("rho", "none")
    assert paper.filter.slack == 0.01
    assert (paper.collapse.mix, code.collapse.mix) == ("sequence", "per_token")
    assert (paper.early_stop.window, code.early_stop.window) == (5, 10)
    assert (paper.early_stop.statistic, code.early_stop.statistic) == ("variance", "std")


@pytest.mark.parametrize("order", [("{}", "frozen_lake"), ("frozen_lake", "{}"), ("{}", "frozen_lake_tiny")])
def test_slip_rate_follows_the_provenance_in_either_order(order):
    def slip(provenance: str) -> float:
        config = compose(*(name.format(provenance) for name in order))
        return env_config("frozen_lake", **config.env.options).slip_rate

    assert slip("paper") == 0.02
    assert slip("reference_code") == 0.0
    assert "slip_rate" not in compose("reference_code", "sokoban").env.options


def test_algorithms():
    assert compose("ppo").algorithm.advantage == "gae"
    assert compose("grpo").algorithm.normalize_by_std
    dr_grpo = compose("dr_grpo").algorithm
    assert not dr_grpo.normalize_by_std
    assert dr_grpo.aggregation == "seq-mean-token-sum-norm"
    dapo = compose("paper", "dapo")
    assert (dapo.algorithm.clip_low, dapo.algorithm.clip_high) == (0.2, 0.28)
    assert (dapo.algorithm.aggregation, dapo.algorithm.normalizer) == ("token-mean", "kept")
    assert (dapo.filter.rule, dapo.filter.refill, dapo.filter.count_penalty) == ("nonzero", True, False)
    assert dapo.filter.max_attempts > 1 and dapo.algorithm.kl_coef == 0
    assert compose("countdown_tiny", "dapo").reward.overlong_buffer == 11  # a fifth of its 56 tokens
    assert not compose("paper", "dapo", "top_p").filter.refill  # its rule looks at the whole batch
    # An algorithm after another leaves nothing of it.
    for first, second in itertools.permutations((*ALGORITHMS[:2], *CRITIC_FREE), 2):
        assert compose(first, second).algorithm == compose(second).algorithm


def test_missing_configs_folder_is_said_clearly(monkeypatch):
    real = importlib.import_module

    def without_configs(name: str, *args: object):
        if name == "configs":
            raise ModuleNotFoundError("No module named 'configs'", name="configs")
        return real(name, *args)

    monkeypatch.setattr(importlib, "import_module", without_configs)
    with pytest.raises(ModuleNotFoundError, match="presets live in the folder configs/"):
        compose("paper")
    assert compose() == Config()


def test_a_foreign_configs_package_is_said_clearly(monkeypatch, tmp_path):
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "configs")
    with pytest.raises(ModuleNotFoundError, match="another project's"):
        compose("paper")


FILTER_PRESETS = [name for name in PRESETS if PRESETS._targets[name].startswith("configs.filters:")]


@pytest.mark.parametrize("name", FILTER_PRESETS)
@pytest.mark.parametrize("provenance", ["paper", "reference_code"])
def test_filter_presets_follow_any_provenance(name, provenance):
    validate(compose(provenance, "frozen_lake_tiny", "grpo", name))
    validate(compose(provenance, "frozen_lake_tiny", "dapo", name))


def test_the_absolute_slack_is_the_provenance_presets_only():
    assert compose("paper").filter.slack == 0.01
    for name in FILTER_PRESETS:
        assert compose(name).filter.slack == 0
        if name not in ("top_p", "best_and_worst_4"):  # these leave it alone
            assert compose("paper", name).filter.slack == 0


def test_readings_are_presets():
    for name, (score, mass) in READINGS.items():
        section = compose("reference_code", f"top_p_{name}").filter
        assert (section.rule, section.score, section.mass) == ("top_p", score, mass)
    assert compose("paper", "top_p").filter.score == "reward_variance"


def test_a_rule_without_rho_does_not_scale_the_loss_by_it():
    assert compose("paper", "top_p_std").filter.loss_scale == "rho"
    assert compose("paper", "top_k25").filter.loss_scale == "none"
    kept = change(compose("paper"), filter={"loss_scale": "sqrt", "loss_scale_target": "advantages"})
    section = PRESETS["top_k25"](kept).filter
    assert (section.loss_scale, section.loss_scale_target) == ("sqrt", "advantages")
