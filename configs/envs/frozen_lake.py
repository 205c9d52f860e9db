"""FrozenLake."""

from __future__ import annotations

from configs._change import change, paper_size, tiny_run, use_env
from ragen_jax.config.schema import Config


def frozen_lake(config: Config) -> Config:
    """4x4 lakes, grid and coordinates, 5 turns of 2 moves; the slip rate is the provenance preset's."""
    config = use_env(
        config,
        "frozen_lake",
        size=4,
        observation_format="grid_coord",
        max_turns=5,
        max_actions_per_turn=2,
        max_actions=10,
    )
    return paper_size(config, max_new_tokens=400, max_context=3600)


def frozen_lake_tiny(config: Config) -> Config:
    """One-turn plans on 4x4 lakes for a tiny policy.

    Seven of eight training lakes have a locked goal: their reward is always 0, so beside the format penalty they carry
    no task gradient, and the entropy bonus has them to itself. The share is the dial for the signal-to-noise ratio of
    a batch; validation lakes are never locked. At twice this rate the walk of a filtered run, which sees about one
    prompt a step, is mostly noise (docs/results/quickstart.md).
    """
    config = _tiny_lake(config, locked_share=0.875, max_turns=1, max_actions_per_turn=10)
    config = tiny_run(config, warm_start="frozen_lake_tiny", turns=1, max_new_tokens=32)
    return change(config, algorithm={"entropy_coef": 0.02}, optim={"lr": 2.5e-4})


def frozen_lake_turns_tiny(config: Config) -> Config:
    """Three turns of up to two moves on 4x4 lakes for a tiny policy; the rate is lower than for one-turn plans."""
    config = _tiny_lake(config, locked_share=0.0, max_turns=3, max_actions_per_turn=2)
    config = tiny_run(config, warm_start="frozen_lake_turns_tiny", turns=3, max_new_tokens=32)
    return change(config, algorithm={"entropy_coef": 0.005}, optim={"lr": 3e-4})


def _tiny_lake(config: Config, *, locked_share: float, max_turns: int, max_actions_per_turn: int) -> Config:
    return use_env(
        config,
        "frozen_lake",
        size=4,
        locked_share=locked_share,
        observation_format="compact",
        instructions="terse",
        action_separator=" ",
        max_turns=max_turns,
        max_actions_per_turn=max_actions_per_turn,
        max_actions=max_turns * max_actions_per_turn,
    )
