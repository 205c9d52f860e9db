"""Algorithms beside one another, each without a filter and with top-p (the columns of RAGEN-2 Table 4, in small).

python -m experiments.algorithms --tiny                              # GRPO and PPO, seeds 0, 1, 2
python -m experiments.algorithms --tiny algorithms=ppo,grpo,dr_grpo,dapo
python -m experiments.algorithms preset=paper,sokoban algorithms=ppo,grpo
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from configs import PRESETS
from experiments._arms import ArmsExperiment, own_options, run_arms
from experiments._main import run_main
from experiments._runner import Variant
from ragen_jax.config import Config
from ragen_jax.config.schema import FilterSection

DEFAULT = "grpo,ppo"
OWN = {"algorithms": f"presets of the algorithms, comma separated (default {DEFAULT})"}


def experiment(names: Sequence[str]) -> ArmsExperiment:
    """The experiment with these algorithm presets.

    The filtered arm has top-p; the algorithm's own filter (DAPO has one) is replaced in both arms, and what the presets
    say about aggregation and normaliser is kept alike for all.
    """

    def arms(config: Config) -> list[Variant]:
        variants = []
        for name in names:
            chosen = PRESETS[name](config)
            alike = dataclasses.replace(
                chosen.algorithm, aggregation=config.algorithm.aggregation, normalizer=config.algorithm.normalizer
            )
            bare = FilterSection(count_penalty=config.filter.count_penalty)
            top_p = dataclasses.replace(bare, rule="top_p", value=0.9, max_empty_steps=0)
            for label, section in (("no_filter", bare), ("top_p", top_p)):
                variants.append(
                    Variant(f"{name}-{label}", dataclasses.replace(chosen, algorithm=alike, filter=section))
                )
        return variants

    return ArmsExperiment(
        name="algorithms",
        presets=("paper", "sokoban", "grpo"),
        tiny_presets=("frozen_lake_tiny", "grpo", "quickstart"),
        tiny_keys=("steps=120", "validation.every=30"),
        arms=arms,
        own=OWN,
    )


def main(argv: Sequence[str]) -> None:
    """Run the arms and print the table.

    Raises:
      KeyError: an algorithm that no preset names.
    """
    names = own_options(argv, OWN).get("algorithms", DEFAULT).split(",")
    run_arms(experiment(names), argv)


if __name__ == "__main__":
    run_main(main)
