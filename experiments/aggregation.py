"""How token losses become one number, where successes end early (several turns): what holds a filtered run together?

    python -m experiments.aggregation --tiny               # FrozenLake in three turns, top-p, seeds 0, 1, 2
    python -m experiments.aggregation preset=paper,frozen_lake,grpo,top_p

Failures hold more tokens than successes, so under a token mean a group pushes the tokens that all its rollouts share
down on balance (``advantage/net_token_weight``). Arms: the token mean; the token mean with advantages centred over the
tokens of each group; the mean over rollouts of their token means.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from experiments._arms import ArmsExperiment, run_arms
from experiments._main import run_main
from experiments._runner import Variant
from ragen_jax.config import Config

ARMS: dict[str, dict[str, Any]] = {
    "token_mean": {"aggregation": "token-mean", "center_tokens": False},
    "token_mean_centred": {"aggregation": "token-mean", "center_tokens": True},
    "row_mean": {"aggregation": "seq-mean-token-mean", "center_tokens": False},
}


def arms(config: Config) -> list[Variant]:
    """Three arms that differ in the aggregation only."""
    return [
        Variant(name, dataclasses.replace(config, algorithm=dataclasses.replace(config.algorithm, **changes)))
        for name, changes in ARMS.items()
    ]


EXPERIMENT = ArmsExperiment(
    name="aggregation",
    presets=("paper", "frozen_lake", "grpo", "top_p"),
    tiny_presets=("frozen_lake_turns_tiny", "grpo", "top_p"),
    tiny_keys=(
        "steps=60",
        "env.locked_share=0.5",
        "algorithm.entropy_coef=0.02",
        "filter.max_empty_steps=0",
        "validation.every=30",
        "validation.samples=16",
    ),
    arms=arms,
)


def main(argv: Sequence[str]) -> None:
    """Run the arms and print the table."""
    run_arms(EXPERIMENT, argv)


if __name__ == "__main__":
    run_main(main)
