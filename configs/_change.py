"""How presets change a configuration."""

from __future__ import annotations

import dataclasses
from typing import Any

from ragen_jax.config.schema import Config


def change(config: Config, **changes: Any) -> Config:
    """The configuration with some fields changed.

    ``change(config, steps=3, filter={"rule": "top_p"})``: a section takes a dict of fields, a plain field its value.
    """
    values = {
        name: dataclasses.replace(getattr(config, name), **value) if isinstance(value, dict) else value
        for name, value in changes.items()
    }
    return dataclasses.replace(config, **values)


def use_env(config: Config, name: str, **options: Any) -> Config:
    """The configuration with an environment chosen and some of its options set.

    Options that earlier presets set for the same environment stay; those of another environment go.
    """
    kept = config.env.options if config.env.name == name else {}
    return change(config, env={"name": name, "options": {**kept, **options}})


def paper_size(config: Config, *, max_new_tokens: int, max_context: int) -> Config:
    """A step of 8 prompts by 16 rollouts, with so many tokens a turn and a whole row."""
    return change(
        config,
        rollout={"prompts": 8, "group_size": 16, "max_new_tokens": max_new_tokens, "max_context": max_context},
    )


def tiny_run(config: Config, *, warm_start: str, turns: int, max_new_tokens: int) -> Config:
    """Sizes shared by the tiny environments: a warm-started policy of 0.3 M parameters, one CPU core, minutes.

    Early stopping is off, since these runs show what happens after a collapse; validation measures mutual information
    on 32 prompts, so its ceiling is ln 32. Buckets are as wide as the longest usual row: one compiled program serves
    all steps of a one-turn run.
    """
    return change(
        config,
        steps=120,
        model={"init": "warm_start", "warm_start": warm_start},
        rollout={
            "prompts": 8,
            "group_size": 16,
            "max_new_tokens": max_new_tokens,
            "max_context": turns * max_new_tokens + (turns - 1) * 16,
            "prompt_bucket": 32,
            "length_bucket": max_new_tokens if turns == 1 else 64,
            "observation_bucket": 16,
            "show_rewards": False,
        },
        algorithm={"minibatch_groups": 0, "normalizer": "rollout"},
        optim={"lr": 5e-4, "critic_lr": 1e-3, "weight_decay": 0.0},
        collapse={"every": 1, "trajectory": turns > 1},
        validation={"every": 15, "prompts": 32, "samples": 8, "temperature": 1.0, "collapse_samples": 2},
        early_stop={"window": 0, "low_success_validations": 0},
    )
