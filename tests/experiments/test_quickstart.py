"""The two arms of the quickstart differ in the filter only, and every option reaches the arm that it is about."""

from __future__ import annotations

import dataclasses

import pytest

from experiments.quickstart import arms, compare
from ragen_jax.config import flatten
from ragen_jax.training.build import initial_policy
from ragen_jax.training.policies import BUNDLED_POLICY


def _differences(*argv: str) -> set[str]:
    (baseline, filtered), _, _ = arms(argv)
    left, right = flatten(baseline.config), flatten(filtered.config)
    return {name for name in left if left[name] != right[name]}


def test_the_arms_differ_in_the_filter_only() -> None:
    assert _differences() == {"filter.rule", "filter.max_empty_steps"}
    (baseline, filtered), seeds, smoke = arms([])
    assert baseline.config.filter.rule == "none" and filtered.config.filter.rule == "top_p"
    assert (baseline.name, filtered.name, seeds, smoke) == ("no_filter", "top_p-0.9", (0,), False)


@pytest.mark.parametrize("algorithm", ["grpo", "ppo", "dr_grpo", "dapo"])
def test_the_first_arm_never_filters(algorithm: str) -> None:
    (baseline, filtered), _, _ = arms([f"algorithm={algorithm}", "preset=paper,sokoban_tiny,ppo"])
    assert baseline.config.filter.rule == "none" and filtered.config.filter.rule == "top_p"


def test_filter_options_reach_the_second_arm() -> None:
    (baseline, filtered), _, _ = arms(["filter=quartile", "filter.value=2", "filter.loss_scale=linear"])
    assert filtered.name == "quartile-2" and filtered.config.filter.loss_scale == "linear"
    assert baseline.config.filter.loss_scale == "none"


def test_seeds_steps_and_the_short_form() -> None:
    variants, seeds, smoke = arms(["--smoke", "seeds=3,4", "steps=2"])
    assert seeds == (3, 4) and smoke
    assert all(variant.config.steps == 2 and variant.config.validation.prompts == 8 for variant in variants)


@pytest.mark.parametrize(
    ("token", "sentence"),
    [
        ("env=frozenlake", "did you mean 'frozen_lake'"),
        ("algorithm=gpro", "did you mean 'grpo'"),
        ("filter=topp", "top_p"),
        ("filter=none", "two equal arms"),
        ("resume=runs/x", "one by one"),
    ],
)
def test_what_cannot_work_is_refused(token: str, sentence: str) -> None:
    with pytest.raises((ValueError, KeyError), match=sentence):
        arms([token])


def test_the_bundled_policy_fits_the_quickstart_and_nothing_else() -> None:
    (baseline, _), _, _ = arms([])
    assert baseline.config.model.init == "bundled"
    initial_policy(baseline.config)
    assert (BUNDLED_POLICY / "policy.safetensors").stat().st_size <= 1_500_000
    other = dataclasses.replace(
        baseline.config, env=dataclasses.replace(baseline.config.env, options=baseline.config.env.options | {"size": 5})
    )
    with pytest.raises(ValueError, match=r"model\.init=warm_start"):
        initial_policy(other)


def test_words_follow_the_numbers() -> None:
    def fields(ratio: float | None, rise: float = 0.5) -> dict[str, dict[str, float]]:
        return {
            "mi_ratio": {} if ratio is None else {"mean": ratio},
            "conditional_entropy_start": {"mean": 1.0},
            "conditional_entropy_end": {"mean": 1.0 + rise},
            "valid_format_end": {"mean": 0.97},
        }

    assert "template collapse" in compare({"a": fields(0.2)})[0]
    assert "in between" in compare({"a": fields(0.2, rise=-0.1)})[0]
    assert "in between" in compare({"a": fields(0.6)})[0]
    assert "no collapse" in compare({"a": fields(0.9)})[0]
    assert "not measured" in compare({"a": fields(None)})[0]
