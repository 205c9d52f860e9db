"""From the start of a process to its first finished training step, with an empty and with a full compile cache.

    python -m experiments.bench.startup [--quick] [--save]

The tiny model on FrozenLake as the first arm of the quickstart trains it: with its validation at the start, and
without. Wall time, imports included; every start is a fresh process, and its step must have updated the policy. Other
programs count here, so run it on a quiet machine; the CPU seconds beside it do not depend on them.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments._main import run_main
from experiments.bench._report import Target, finish, options, run_bench

TARGETS = {
    "cold_seconds": Target(at_most=20.0),
    "warm_seconds": Target(at_most=8.0),
    "quickstart_warm_over_cold": Target(at_most=1 / 3),  # not with --quick
}
QUICKSTART = ("preset=paper,frozen_lake_tiny,grpo,quickstart,no_filter", "steps=1")
BARE = (*QUICKSTART, "validation.at_start=false")
DONE = "@@ first step "


def first_step(cache: Path, arguments: Sequence[str]) -> dict[str, float]:
    """Seconds until the first step of a new process was done: on the wall, of CPU, and until its imports were done."""
    environment = os.environ | {"RAGEN_COMPILATION_CACHE": str(cache)}
    with tempfile.TemporaryDirectory() as folder:
        began = time.time()
        process = subprocess.run(
            [sys.executable, "-m", "experiments.bench.startup", "--child", f"{folder}/run", *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    lines = [line for line in process.stdout.splitlines() if line.startswith(DONE)]
    if process.returncode or not lines:
        raise RuntimeError(f"the run failed: {process.stderr[-500:]}")
    imported, finished, cpu = map(float, lines[0].removeprefix(DONE).split())
    return {"wall": finished - began, "cpu": cpu, "imports": imported - began}


class Clock:
    """A writer of metrics that notes when the first step was there."""

    def __init__(self) -> None:
        """Nothing has come."""
        self.finished = self.cpu = 0.0

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Note the time of step 1; a step that had nothing to update would not count."""
        if step == 1 and not self.finished:
            self.finished, self.cpu = time.time(), time.process_time()
            if metrics["update/count"] < 1:
                raise ValueError("the first step has no update: choose a configuration whose step has one")

    def close(self) -> None:
        """Nothing is held."""


def child(folder: str, arguments: Sequence[str]) -> None:
    """Train one step; say when the imports and the step were done."""
    from ragen_jax.config import parse
    from ragen_jax.training.loop import train

    imported = time.time()
    clock = Clock()
    config = parse(["mesh.data=1", *arguments, f"folder={folder}"], default_presets=()).config
    train(config, experiment="startup", writers=(clock,))
    sys.stdout.write(f"{DONE}{imported} {clock.finished} {clock.cpu}\n")


def main(argv: Sequence[str]) -> bool:
    """Measure, print, and say whether the targets hold."""
    chosen = options(__doc__, argv)
    rounds = 1 if chosen.quick else 5
    kinds = {"": BARE} if chosen.quick else {"": BARE, "quickstart_": QUICKSTART}
    starts: dict[str, list[dict[str, float]]] = {}
    for _ in range(rounds):
        for name, arguments in kinds.items():
            with tempfile.TemporaryDirectory() as cache:
                for state in ("cold", "warm"):
                    starts.setdefault(f"{name}{state}", []).append(first_step(Path(cache), arguments))
    ratios = {f"{name}_seconds": statistics.median(run["wall"] for run in runs) for name, runs in starts.items()}
    ratios |= {f"{name}_cpu_seconds": statistics.median(run["cpu"] for run in runs) for name, runs in starts.items()}
    for name in kinds:
        pairs = zip(starts[f"{name}cold"], starts[f"{name}warm"], strict=True)
        ratios[f"{name}warm_over_cold"] = statistics.median(warm["wall"] / cold["wall"] for cold, warm in pairs)
    details = {
        "rounds": rounds,
        "starts": {
            name: [{key: round(value, 2) for key, value in run.items()} for run in runs]
            for name, runs in starts.items()
        },
    }
    targets = {name: target for name, target in TARGETS.items() if name in ratios}
    return finish("startup", ratios, targets, argv=argv, save=chosen.save, details=details)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        run_main(lambda argv: child(argv[1], argv[2:]))
    else:
        run_bench(main)
