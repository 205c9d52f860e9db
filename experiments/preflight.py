"""Would a filter on reward variance help here? Play with the starting policy, train nothing, look at the spread.

python -m experiments.preflight preset=frozen_lake_tiny,quickstart
python -m experiments.preflight preset=sokoban_tiny prompts=128 save=preflight.json

The prompts are those of the run's first training steps. Prints one JSON object; ``verdict`` is "helps", "hurts" or
"undecided" by the three settings that RAGEN-2 measured (``core.preflight_verdict``), for rewards as the filter reads
them (``filter.count_penalty``).
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments._logging import log_to_stderr
from experiments._main import run_main
from experiments._options import whole_number
from ragen_jax.config import Config, parse
from ragen_jax.core.dispersion import HELPED, HURT, LEAST_PROMPTS, preflight_verdict
from ragen_jax.core.grouping import group_variance, is_flat
from ragen_jax.files import write_atomically
from ragen_jax.training.build import build
from ragen_jax.training.compilation_cache import configure_compilation_cache
from ragen_jax.training.score_inputs import filter_rewards

OWN = {
    "prompts": f"prompts to play, {LEAST_PROMPTS} or more (default {LEAST_PROMPTS})",
    "save": "file that gets the JSON object too",
}


def main(argv: Sequence[str]) -> None:
    """Play, print, save."""
    log_to_stderr()
    configure_compilation_cache()
    parsed = parse(argv, default_presets=("frozen_lake_tiny", "grpo", "no_filter", "quickstart"), own=OWN)
    prompts = whole_number(parsed.rest, "prompts", default=LEAST_PROMPTS, least=LEAST_PROMPTS)
    record = preflight(parsed.config, prompts=prompts)
    record["command"] = shlex.join(["python", "-m", "experiments.preflight", *argv])
    text = json.dumps(record, indent=1, allow_nan=False) + "\n"
    if "save" in parsed.rest:
        write_atomically(Path(parsed.rest["save"]), text)
    sys.stdout.write(text)


def preflight(config: Config, *, prompts: int) -> dict[str, Any]:
    """Verdict on a configuration from at least so many prompts, in whole batches of its first steps.

    Raises:
      ValueError: groups of one rollout, or an environment that failed in every rollout of a prompt.
    """
    group = config.rollout.group_size
    if group < 2:
        raise ValueError(f"rollout.group_size={group}: a variance needs at least 2 rollouts per prompt")
    parts = build(config)
    try:
        policy = parts.sampler(parts.state.params, version=0)
        batches = [parts.training_rollout(policy, step) for step in range(-(-prompts // config.rollout.prompts))]
    finally:
        parts.close()
    rewards, valid, success = [], [], []
    for rollout in batches:
        rewards.append(filter_rewards(config, rollout.batch))
        valid.append(np.asarray(rollout.batch.valid).reshape(-1, group))
        success += [episode.success for episode in rollout.info.episodes if episode.error is None]
    scores, alive = np.concatenate(rewards), np.concatenate(valid)
    if not alive.any(axis=1).all():
        prompt = int(np.argmin(alive.any(axis=1)))
        raise ValueError(f"the environment failed in every rollout of prompt {prompt}; repair it, then ask again")
    found = preflight_verdict(group_variance(scores, alive))
    return {
        "preset": list(config.preset),
        "verdict": found.verdict,
        "dispersion": {name: float(f"{float(value):.4g}") for name, value in found.dispersion._asdict().items()},
        "measured_points": {"helped": list(HELPED), "hurt": [HURT]},
        "prompts": len(scores),
        "rollouts_per_prompt": group,
        "flat_share": float(np.mean(is_flat(scores, alive))),
        "success": float(np.mean(success)),
    }


if __name__ == "__main__":
    run_main(main)
