"""Countdown."""

from __future__ import annotations

from configs._change import change, paper_size, tiny_run, use_env
from ragen_jax.config.schema import Config


def countdown(config: Config) -> Config:
    """Three or four numbers up to 99, every number used once, one turn."""
    config = use_env(config, "countdown", numbers_min=3, numbers_max=4, max_number=99, max_target=99)
    return paper_size(config, max_new_tokens=400, max_context=3600)


def countdown_tiny(config: Config) -> Config:
    """Three numbers up to 9 for a tiny policy; half of the training targets cannot be reached.

    The negative control: a reasoning that helps must quote the numbers, so it always identifies its prompt.
    """
    config = use_env(
        config,
        "countdown",
        numbers_min=3,
        numbers_max=3,
        max_number=9,
        max_target=60,
        unsolvable_share=0.5,
        observation_format="compact",
        instructions="terse",
    )
    config = tiny_run(config, warm_start="countdown_tiny", turns=1, max_new_tokens=56)
    return change(config, algorithm={"entropy_coef": 0.005}, optim={"lr": 3e-4})
