"""What the diagnosis of every batch costs: its share of a training step of the quickstart, one core, one thread.

    python -m experiments.bench.step_share [--quick] [--save]

Short runs from the bundled policy: without a filter and with the whole matrix at every step; the same with sampled
parts, down to 2 of 16 rollouts under 3 of 8 columns at every second step; and with the top-p filter, whose cheaper
updates make the same diagnosis a larger share. The share is that of all steps together, after the first ones, which
compile; the medians are those of single steps.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence

from experiments.bench._report import Target, finish, options, run_bench
from experiments.bench._workload import pin_to_one_core
from ragen_jax.config import parse
from ragen_jax.training.loop import train
from ragen_jax.training.writers import Memory

TARGETS = {"whole_matrix_share": Target(at_most=0.25), "sampled_share": Target(at_most=0.05)}
RUNS = {
    "whole_matrix": ("no_filter",),
    "sampled_rollouts": ("no_filter", "collapse.rollouts=4"),
    "sampled_columns": ("no_filter", "collapse.columns=3"),
    "sampled": ("no_filter", "collapse.rollouts=2", "collapse.columns=3", "collapse.every=2"),
    "filtered": ("top_p",),
}
COMPILING = 3  # first steps, left out
PARTS = ("rollout_seconds", "cross_score_seconds", "update_seconds", "step_seconds", "cross_score_share")


def shares(preset: str, *settings: str, steps: int) -> dict[str, float]:
    """Median times of a run's steps, the share of all steps and the largest of one."""
    memory = Memory()
    with tempfile.TemporaryDirectory() as folder:
        tokens = [
            f"preset=paper,frozen_lake_tiny,grpo,quickstart,{preset}",
            *settings,
            f"steps={steps + COMPILING}",
            "validation.at_start=false",
            "validation.every=0",
            f"folder={folder}/run",
        ]
        train(parse(tokens, default_presets=()).config, experiment="step_share", writers=(memory,))
    timed = [row for row in memory.rows if f"time/{PARTS[0]}" in row][COMPILING:]
    medians = {name: statistics.median(row[f"time/{name}"] for row in timed) for name in PARTS}
    share = sum(row["time/cross_score_seconds"] for row in timed) / sum(row["time/step_seconds"] for row in timed)
    return medians | {"share": share, "largest_share": max(row["time/cross_score_share"] for row in timed)}


def main(argv: Sequence[str]) -> bool:
    """Measure, print, and say whether the targets hold."""
    chosen = options(__doc__, argv)
    core = pin_to_one_core()
    steps = 8 if chosen.quick else 40
    runs = {name: shares(*arguments, steps=steps) for name, arguments in RUNS.items()}
    ratios = {f"{name}_share": run["share"] for name, run in runs.items()}
    details = {
        "core": core,
        "steps": steps,
        "medians": {
            name: {key: float(f"{value:.3g}") for key, value in numbers.items()} for name, numbers in runs.items()
        },
    }
    return finish("step_share", ratios, TARGETS, argv=argv, save=chosen.save, details=details)


if __name__ == "__main__":
    run_bench(main)
