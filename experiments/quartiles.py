"""Train on one quartile of the reward variance only (RAGEN-2 Table 6): where does learning come from, where collapse?

    python -m experiments.quartiles --tiny                    # 16 prompts, half of the lakes locked, seeds 0, 1, 2
    python -m experiments.quartiles --tiny seeds=0            # one seed: a few minutes
    python -m experiments.quartiles preset=paper,sokoban,ppo  # any composition; at least 4 prompts a step

Q1 trains each step on the quarter of the prompts whose rewards vary most, Q4 on the quarter whose rewards vary least.
All arms meet the same prompts and divide their loss by the tokens of the whole rollout, so that they differ in the
quarter only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from experiments._arms import ArmsExperiment, run_arms
from experiments._main import run_main
from experiments._runner import Variant
from ragen_jax.config import Config


def arms(config: Config) -> list[Variant]:
    """Four arms, from the largest reward variance to the smallest."""
    variants = []
    for quartile in (1, 2, 3, 4):
        chosen = dataclasses.replace(config.filter, rule="quartile", value=float(quartile), max_empty_steps=0)
        algorithm = dataclasses.replace(config.algorithm, normalizer="rollout")
        variants.append(Variant(f"Q{quartile}", dataclasses.replace(config, filter=chosen, algorithm=algorithm)))
    return variants


EXPERIMENT = ArmsExperiment(
    name="quartiles",
    presets=("paper", "sokoban", "grpo"),
    tiny_presets=("frozen_lake_tiny", "grpo", "quickstart"),
    tiny_keys=(
        "steps=100",
        "rollout.prompts=16",
        "env.locked_share=0.5",
        "validation.every=20",
    ),
    arms=arms,
)


def main(argv: Sequence[str]) -> None:
    """Run the four arms and print the table."""
    run_arms(EXPERIMENT, argv)


if __name__ == "__main__":
    run_main(main)
