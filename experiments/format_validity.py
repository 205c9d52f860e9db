"""A filter that drops the groups whose only spread is the format can lose the format: does it, and what helps?

    python -m experiments.format_validity --tiny            # Countdown, seeds 0, 1, 2
    python -m experiments.format_validity preset=paper,countdown,grpo

Arms: no filter; top-p on return plus penalty; top-p on the bare return; and both kinds of top-p with a format penalty
of half a reward instead of a tenth. Watch "valid" beside "kept".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from experiments._arms import ArmsExperiment, run_arms
from experiments._main import run_main
from experiments._runner import Variant
from ragen_jax.config import Config
from ragen_jax.config.schema import FilterSection


def arms(config: Config) -> list[Variant]:
    """Five arms: filter, what it ranks, and the size of the format penalty."""

    def variant(name: str, chosen: FilterSection, penalty: float) -> Variant:
        rollout = dataclasses.replace(config.rollout, format_penalty=penalty)
        return Variant(name, dataclasses.replace(config, filter=chosen, rollout=rollout))

    top_p = FilterSection(rule="top_p", value=0.9, max_empty_steps=0)
    bare = dataclasses.replace(top_p, count_penalty=False)
    return [
        variant("no_filter", FilterSection(), -0.1),
        variant("top_p", top_p, -0.1),
        variant("top_p_bare", bare, -0.1),
        variant("top_p_penalty_.5", top_p, -0.5),
        variant("top_p_bare_penalty_.5", bare, -0.5),
    ]


EXPERIMENT = ArmsExperiment(
    name="format_validity",
    presets=("paper", "countdown", "grpo"),
    tiny_presets=("countdown_tiny", "grpo"),
    tiny_keys=("steps=60", "optim.lr=5e-4", "algorithm.entropy_coef=0.02", "validation.every=30"),
    arms=arms,
)


def main(argv: Sequence[str]) -> None:
    """Run the arms and print the table."""
    run_arms(EXPERIMENT, argv)


if __name__ == "__main__":
    run_main(main)
