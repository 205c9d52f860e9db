"""Train any composition of presets.

python -m experiments.train preset=paper,frozen_lake_tiny,grpo,top_p steps=50 seed=1
python -m experiments.train preset=frozen_lake_turns_tiny,grpo seeds=0,1,2   # side by side, gathered in aggregate.json
python -m experiments.train config=runs/<run>/config.json                    # the same run again
python -m experiments.train resume=runs/<run>                                # go on after its newest checkpoint
"""

from __future__ import annotations

import dataclasses
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments._arms import run_in_folder
from experiments._logging import log_to_stderr
from experiments._main import run_main
from experiments._runner import Variant
from ragen_jax.config import Config, parse, validate
from ragen_jax.training.loop import train
from ragen_jax.training.run_folder import RunFolder


def main(argv: Sequence[str]) -> None:
    """Parse, train, say where the results are.

    Raises:
      SystemExit: the run was interrupted and saved; code 128 + number of the signal.
    """
    log_to_stderr()
    tokens = list(argv)
    resumed = [token.partition("=")[2] for token in tokens if token.startswith("resume=")]
    if resumed:
        tokens.insert(0, f"config={RunFolder.open(resumed[-1]).config_file}")
    parsed = parse(tokens, default_presets=("paper", "frozen_lake_tiny", "grpo"))
    if parsed.seeds:
        sys.stdout.write(f"results in {train_seeds(parsed.config, parsed.seeds)}\n")
        return
    outcome = train(parsed.config)
    sys.stdout.write(f"results in {outcome.folder.path}\n")
    _, interrupted, name = outcome.summary["stop_reason"].partition("interrupted by ")
    if interrupted:  # so that whoever started this process does not take the run for a finished one
        raise SystemExit(128 + signal.Signals[name])


def train_seeds(config: Config, seeds: Sequence[int]) -> Path:
    """One run per seed, in child processes, gathered in ``aggregate.json``; returns the folder that holds them.

    Raises:
      ValueError: a run to resume (it has one seed), or a configuration that contradicts itself.
    """
    if config.resume:
        raise ValueError(f"resume={config.resume} continues one run, which has its seed; leave seeds= out")
    for seed in seeds:  # before a warm start is trained and children start
        validate(dataclasses.replace(config, seed=seed))
    name = "-".join(config.preset) or "custom"
    _, folder = run_in_folder([Variant(name, config)], seeds=seeds, experiment="seeds", preset=name)
    return folder


if __name__ == "__main__":
    run_main(main)
