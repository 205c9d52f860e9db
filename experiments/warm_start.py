"""Train, or load from the cache, the supervised start of a tiny preset, and measure it on the validation prompts.

python -m experiments.warm_start preset=countdown_tiny
python -m experiments.warm_start preset=frozen_lake_tiny export=ragen_jax/assets/tiny_policy   # the bundled policy
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

from experiments._logging import log_to_stderr
from experiments._main import run_main
from ragen_jax.config import parse
from ragen_jax.training.build import build
from ragen_jax.training.compilation_cache import configure_compilation_cache
from ragen_jax.training.evaluate import validate_policy
from ragen_jax.training.policies import warm_start_key
from ragen_jax.training.policy_files import save_policy

OWN = {"export": "folder that gets a copy of the policy"}


def main(argv: Sequence[str]) -> None:
    """Train, measure, export."""
    log_to_stderr()
    configure_compilation_cache()
    parsed = parse(argv, default_presets=("frozen_lake_tiny", "grpo", "no_filter"), own=OWN)
    model = dataclasses.replace(parsed.config.model, init="warm_start")
    config = dataclasses.replace(parsed.config, model=model)
    parts = build(config)
    measured = validate_policy(parts, parts.state.params, step=0).metrics
    parts.close()
    wanted = ("success", "valid_format", "episodes", "collapse/mi_sequence_nats", "reasoning_tokens")
    numbers = {name: measured[f"validation/{name}"] for name in wanted if f"validation/{name}" in measured}
    sys.stdout.write(json.dumps({"preset": config.model.warm_start} | numbers, indent=1) + "\n")
    if "export" in parsed.rest:
        target = Path(parsed.rest["export"])
        command = f"python -m experiments.warm_start {' '.join(argv)}"
        params = jax.tree.map(np.asarray, parts.state.params)
        save_policy(target, params, {"key": warm_start_key(config), "seed": 0, "command": command, "measured": numbers})
        sys.stdout.write(f"policy written to {target}\n")


if __name__ == "__main__":
    run_main(main)
