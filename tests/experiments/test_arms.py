"""Experiments with arms: what differs between the arms, what a command line changes, and the table."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from experiments import _arms, aggregation, algorithms, format_validity, interventions, quartiles
from experiments._arms import ArmsExperiment, plan, run_in_folder, small_result, table
from experiments._runner import Variant
from ragen_jax.config import flatten


def _differences(variants: list[Variant]) -> set[str]:
    rows = [flatten(variant.config) for variant in variants]
    return {name for name in rows[0] if len({str(row[name]) for row in rows}) > 1}


def test_quartile_arms_differ_in_the_quartile_only() -> None:
    variants, seeds, _ = plan(quartiles.EXPERIMENT, ["--tiny"])
    assert [variant.name for variant in variants] == ["Q1", "Q2", "Q3", "Q4"]
    assert _differences(variants) == {"filter.value"}
    assert seeds == (0, 1, 2)
    assert variants[0].config.rollout.prompts == 16


def test_the_command_line_goes_before_the_miniature() -> None:
    variants, seeds, _ = plan(quartiles.EXPERIMENT, ["--tiny", "--smoke", "steps=3", "seed=5", "rollout.prompts=8"])
    assert seeds == (5,)
    assert variants[3].config.steps == 3 and variants[3].config.rollout.prompts == 8


def test_an_arm_that_contradicts_itself_is_named() -> None:
    with pytest.raises(ValueError, match=r"arm Q1: .*at least 4 prompts"):
        plan(quartiles.EXPERIMENT, ["--tiny", "rollout.prompts=2", "micro_groups=1"])


def test_a_policy_that_all_runs_begin_with_is_made_before_they_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variants, _, _ = plan(quartiles.EXPERIMENT, ["--tiny", f"folder={tmp_path / 'out'}"])
    calls: list[str] = []
    monkeypatch.setattr(_arms, "initial_policy", lambda config: calls.append(config.model.init))
    monkeypatch.setattr(_arms, "run_variants", lambda variants, **arguments: calls.append(str(arguments["folder"])))
    run_in_folder(variants, seeds=(0,), experiment="quartiles", preset="frozen_lake")
    model = dataclasses.replace(variants[0].config.model, init="random")
    bare = Variant("a", dataclasses.replace(variants[0].config, model=model))
    run_in_folder([bare], seeds=(0,), experiment="quartiles", preset="frozen_lake")
    assert calls == ["bundled", str(tmp_path / "out"), str(tmp_path / "out")]


def test_resuming_is_refused() -> None:
    experiment = ArmsExperiment("x", (), ("frozen_lake_tiny", "grpo"), (), lambda config: [Variant("a", config)])
    with pytest.raises(ValueError, match="one by one"):
        plan(experiment, ["--tiny", "resume=runs/x"])


def test_table_and_small_result() -> None:
    field = {"mean": 0.5, "interval": [0.25, 0.75], "n": 3, "per_seed": {"0": 0.5}}
    result = {"seeds": (0,), "variants": {"Q1": {"mi_ratio": field, "stop_reason": {"per_seed": {"0": "finished"}}}}}
    assert table(result["variants"])[2].startswith("| Q1 | 0.50 (0.25 to 0.75) | - |")
    assert small_result(result, "python -m x")["arms"] == {"Q1": {"mi_ratio": field}}


def test_interventions_differ_in_the_regularisers_only() -> None:
    variants, _, _ = plan(interventions.EXPERIMENT, ["--tiny", "algorithm.kl_coef=0.1"])
    assert [variant.name for variant in variants] == [
        "none",
        "k1_loss",
        "k3_loss",
        "kl_in_reward",
        "entropy",
        "entropy_and_k1_loss",
        "entropy_and_k3_loss",
        "entropy_and_kl_in_reward",
    ]
    assert _differences(variants) == {
        f"algorithm.{name}" for name in ("kl_coef", "kl_estimator", "kl_target", "entropy_coef")
    }
    assert {variant.config.algorithm.kl_coef for variant in variants} == {0.0, 0.1}


def test_algorithms_share_aggregation_and_differ_in_the_filter() -> None:
    variants, _, _ = plan(algorithms.experiment(["grpo", "ppo"]), ["--tiny"])
    assert [variant.name for variant in variants] == ["grpo-no_filter", "grpo-top_p", "ppo-no_filter", "ppo-top_p"]
    assert {variant.config.algorithm.aggregation for variant in variants} == {"token-mean"}
    assert _differences(variants[:2]) == {"filter.rule", "filter.max_empty_steps"}
    options = ["--tiny", "algorithms=grpo,ppo"]
    assert plan(algorithms.experiment(["grpo", "ppo"]), options)[2]["algorithms"] == "grpo,ppo"
    with pytest.raises(KeyError, match="gpro"):
        plan(algorithms.experiment(["gpro"]), ["--tiny"])


def test_aggregation_arms_differ_in_the_aggregation_only() -> None:
    variants, _, _ = plan(aggregation.EXPERIMENT, ["--tiny"])
    assert _differences(variants) == {"algorithm.aggregation", "algorithm.center_tokens"}


def test_format_arms_differ_in_filter_and_penalty_only() -> None:
    variants, _, _ = plan(format_validity.EXPERIMENT, ["--tiny"])
    expected = {"filter.rule", "filter.max_empty_steps", "filter.count_penalty", "rollout.format_penalty"}
    assert _differences(variants) == expected
    assert len({variant.name for variant in variants}) == 5
