"""Sokoban."""

from __future__ import annotations

from configs._change import change, paper_size, tiny_run, use_env
from ragen_jax.config.schema import Config


def sokoban(config: Config) -> Config:
    """6x6 rooms with one box, grid and coordinates, 5 turns of 2 moves."""
    config = use_env(
        config,
        "sokoban",
        height=6,
        width=6,
        boxes=1,
        observation_format="grid_coord",
        max_turns=5,
        max_actions_per_turn=2,
        max_actions=10,
    )
    return paper_size(config, max_new_tokens=400, max_context=3600)


def sokoban_tiny(config: Config) -> Config:
    """One-turn plans of up to four moves for a tiny policy; half of the training rooms cannot be solved.

    At higher rates the plan is lost before the reasoning is, so the rate and the entropy bonus are low.
    """
    config = use_env(
        config,
        "sokoban",
        height=6,
        width=6,
        boxes=1,
        max_solution_len=4,
        unsolvable_share=0.5,
        observation_format="compact",
        instructions="terse",
        action_separator=" ",
        max_turns=1,
        max_actions_per_turn=4,
        max_actions=4,
    )
    config = tiny_run(config, warm_start="sokoban_tiny", turns=1, max_new_tokens=40)
    return change(config, algorithm={"entropy_coef": 0.005}, optim={"lr": 1.5e-4})
