"""Which regulariser erodes the mutual information, and which keeps it (RAGEN-2 Figure 13, each term on its own)?

    python -m experiments.interventions --tiny                 # no filter, eight arms, seeds 0, 1, 2
    python -m experiments.interventions --tiny seeds=0 steps=60
    python -m experiments.interventions preset=paper,sokoban,grpo,no_filter algorithm.kl_coef=0.01

Arms: no regulariser; an entropy bonus; a KL to the first policy as k1 loss, as k3 loss and inside the reward; and the
bonus together with each of them. Nothing else differs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from experiments._arms import ArmsExperiment, run_arms
from experiments._main import run_main
from experiments._runner import Variant
from ragen_jax.config import Config

KL_COEF, ENTROPY_COEF = 0.05, 0.02
KL_FORMS: dict[str, dict[str, Any]] = {
    "k1_loss": {"kl_estimator": "k1", "kl_target": "loss"},
    "k3_loss": {"kl_estimator": "k3", "kl_target": "loss"},
    "kl_in_reward": {"kl_estimator": "k1", "kl_target": "reward"},
}


def arms(config: Config) -> list[Variant]:
    """Eight arms; the coefficients are those of the command line where it sets them."""
    kl = config.algorithm.kl_coef or KL_COEF
    entropy = config.algorithm.entropy_coef or ENTROPY_COEF
    off = {"kl_coef": 0.0, "kl_estimator": "k3", "kl_target": "loss"}
    variants = []
    for bonus in (0.0, entropy):
        for name, form in {"": {}, **KL_FORMS}.items():
            label = "_and_".join(part for part in ("entropy" if bonus else "", name) if part) or "none"
            changes = {**off, "entropy_coef": bonus, **({"kl_coef": kl, **form} if form else {})}
            algorithm = dataclasses.replace(config.algorithm, **changes)
            variants.append(Variant(label, dataclasses.replace(config, algorithm=algorithm)))
    return variants


EXPERIMENT = ArmsExperiment(
    name="interventions",
    presets=("paper", "sokoban", "grpo", "no_filter"),
    tiny_presets=("frozen_lake_tiny", "grpo", "quickstart", "no_filter"),
    tiny_keys=("steps=120", "validation.every=30"),
    arms=arms,
)


def main(argv: Sequence[str]) -> None:
    """Run the arms and print the table."""
    run_arms(EXPERIMENT, argv)


if __name__ == "__main__":
    run_main(main)
