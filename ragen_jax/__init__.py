"""RL training of multi-turn language agents that shows whether their reasoning still depends on the input.

The names below are imported on first use, so ``import ragen_jax`` is quick and loads no jax.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# public name -> "module" or "module:object"
_PUBLIC = {
    "EnvPool": "ragen_jax.envs.pool:EnvPool",
    "build": "ragen_jax.training.build:build",
    "collapse_metrics": "ragen_jax.core.collapse:collapse_metrics",
    "collect": "ragen_jax.rollout.actor:collect",
    "compat": "ragen_jax.compat",
    "compose": "ragen_jax.config.compose:compose",
    "config": "ragen_jax.config",
    "core": "ragen_jax.core",
    "cross_score": "ragen_jax.learner.cross_score:cross_score",
    "draw_columns": "ragen_jax.rollout.reasoning_pairs:draw_columns",
    "env_config": "ragen_jax.envs:env_config",
    "envs": "ragen_jax.envs",
    "first_turn_pairs": "ragen_jax.rollout.reasoning_pairs:first_turn_pairs",
    "load_policy": "ragen_jax.training.policy_files:load_policy",
    "make_env": "ragen_jax.envs:make_env",
    "rollout": "ragen_jax.rollout",
    "run_params": "ragen_jax.training.build:run_params",
    "score_pairs": "ragen_jax.training.measure:score_pairs",
    "train": "ragen_jax.training.loop:train",
    "trajectory_pairs": "ragen_jax.rollout.reasoning_pairs:trajectory_pairs",
    "turn_uniform_pairs": "ragen_jax.rollout.reasoning_pairs:turn_uniform_pairs",
    "types": "ragen_jax.types",
    "validate_policy": "ragen_jax.training.evaluate:validate_policy",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; public names: {', '.join(_PUBLIC)}")
    module, _, attribute = _PUBLIC[name].partition(":")
    value = importlib.import_module(module)
    value = getattr(value, attribute) if attribute else value
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Public names, imported or not."""
    return sorted({*globals(), *_PUBLIC})
