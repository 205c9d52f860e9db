"""Evaluate a saved step of a run on its validation set.

python -m experiments.evaluate run=runs/x                        # the newest complete checkpoint
python -m experiments.evaluate run=runs/x step=60 samples=16
python -m experiments.evaluate run=runs/x seeds=0,1,2            # other samples of the same prompts
python -m experiments.evaluate run=runs/x validation.temperature=0.5 validation.top_p=0.9

Keys that may change: ``validation.*`` and ``seed`` (of the sampling); without them the values of the run count.
``validation.temperature`` is the one that samples and at which cross-scoring reads the policy. The same step with the
same keys gives the same numbers.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from experiments._logging import log_to_stderr
from experiments._main import run_main
from ragen_jax.config import Config, content_hash, flatten, parse
from ragen_jax.config.cli import section_help
from ragen_jax.files import write_atomically
from ragen_jax.learner.checkpoint import Checkpointer
from ragen_jax.models.sharding import shardings
from ragen_jax.report.statistics import mean_interval
from ragen_jax.training.build import build, run_params
from ragen_jax.training.compilation_cache import configure_compilation_cache
from ragen_jax.training.evaluate import successes_by_prompt, validate_policy
from ragen_jax.training.origin import continued
from ragen_jax.training.run_folder import RunFolder
from ragen_jax.training.writers import clean

OWN = {
    "run": "folder of the run",
    "step": "saved step (default: the newest complete one)",
    "samples": "rollouts per validation prompt; short for validation.samples",
}
_OVER_SEEDS = ("success", "return", "valid_format", "collapse/mi_sequence_nats")


def main(argv: Sequence[str]) -> None:
    """Evaluate, print the numbers, say where the file is."""
    log_to_stderr()
    run, config, step, seeds = read_arguments(argv)
    records = [evaluate(run, dataclasses.replace(config, seed=seed), step) for seed in seeds]
    for record in records:
        sys.stdout.write("\n".join([*report(record), f"written to {write(run, record)}"]) + "\n")
    if len(records) > 1:
        sys.stdout.write("\n".join(over_seeds(records)) + "\n")


def read_arguments(argv: Sequence[str]) -> tuple[RunFolder, Config, int, tuple[int, ...]]:
    """Run, configuration of the evaluation, the step to evaluate, and the sampling seeds.

    Raises:
      ValueError: no ``run=``, a folder that is not a run, a key that an evaluation cannot change, a value of a wrong
        type, or a step without a complete checkpoint (lists those that have one).
    """
    values = {key.removeprefix("--"): text for key, _, text in (token.partition("=") for token in argv)}
    if "help" in values or "-h" in argv:
        own = "".join(f"  {name + '=...':<13}  {text}\n" for name, text in OWN.items())
        config = RunFolder.open(values["run"]).config() if values.get("run") else Config()
        hint = (
            "" if values.get("run") else "\n(run=<folder> --help shows the values of a run instead of these defaults)\n"
        )
        sys.stdout.write(f"{__doc__}\n{own}\n{section_help(config, 'validation')}{hint}")
        raise SystemExit(0)
    if not values.get("run"):
        raise ValueError("which run? give run=<folder of a run>, for example run=runs/train-paper-seed0-0")
    run = RunFolder.open(values["run"], write=True)
    for key in values:
        if key not in OWN and key not in ("seed", "seeds") and not key.startswith("validation."):
            raise ValueError(
                f"{key}={values[key]} cannot change in an evaluation: the run was trained with its own; "
                f"free are validation.*, seed, seeds, and {', '.join(OWN)}"
            )
    tokens = [f"config={run.config_file}", *argv]
    if "samples" in values:
        tokens.append(f"validation.samples={values['samples']}")
    parsed = parse(tokens, own=OWN)
    seeds = parsed.seeds or (parsed.config.seed,)
    return run, parsed.config, saved_step(run, parsed.rest.get("step", "")), seeds


def saved_step(run: RunFolder, wanted: str) -> int:
    """The step with this number, or the newest one for an empty text; ValueError when it is not there."""
    if wanted and not wanted.isdecimal():
        raise ValueError(f"step={wanted} is not a whole number")
    keep = run.config().checkpoint.keep
    with Checkpointer(run.checkpoints, keep=keep) as checkpointer:
        steps = checkpointer.complete_steps()
    if not steps:
        raise ValueError(f"{run.path} has no complete checkpoint to evaluate")
    step = int(wanted) if wanted else steps[-1]
    if step not in steps:
        raise ValueError(
            f"{run.path} has no complete checkpoint of step {step}; there are {', '.join(map(str, steps))}"
        )
    return step


def evaluate(run: RunFolder, config: Config, step: int) -> dict[str, Any]:
    """Numbers of a saved step.

    Args:
      run: the run.
      config: its configuration, with the keys of the evaluation changed.
      step: a step with a complete checkpoint.

    Returns:
      A JSON object: run, step, settings, ``validation/...`` metrics, and the success of each prompt.

    Raises:
      ValueError: settings that contradict each other, or a folder that the run needs is gone.
    """
    configure_compilation_cache()
    # Parameters come from the checkpoint; the first ones are needed where they score the reasonings.
    parts = build(continued(config, run, first_params=config.collapse.scorer == "initial"))
    try:
        params = run_params(run, parts.model, step)
        params = jax.device_put(params, shardings(params, parts.mesh))
        validation = validate_policy(parts, params, step=step)
    finally:
        parts.close()
    return {
        "run": run.path.name,
        "step": step,
        "settings": settings(config),
        "metrics": validation.metrics,
        "prompts": [
            {"prompt": prompt, "successes": won, "episodes": played}
            for prompt, (won, played) in successes_by_prompt(validation.episodes).items()
        ],
    }


def over_seeds(records: Sequence[dict[str, Any]]) -> list[str]:
    """Mean and 95 % Student interval over sampling seeds; the prompts are the same for all."""
    lines = [f"mean over {len(records)} sampling seeds (95 % interval)"]
    for name in _OVER_SEEDS:
        values = [record["metrics"].get(f"validation/{name}") for record in records]
        if None not in values:
            mean, low, high = mean_interval(values)
            lines.append(f"  {name:<26}  {mean:.3f} ({low:.3f} to {high:.3f})")
    return lines


def settings(config: Config) -> dict[str, Any]:
    """Keys of a configuration that an evaluation may change, with their values."""
    return {key: value for key, value in flatten(config).items() if key.startswith("validation.") or key == "seed"}


def write(run: RunFolder, record: dict[str, Any]) -> Path:
    """Write an evaluation into its run; the same step with the same settings has the same file."""
    path = run.evaluations / f"step{record['step']}-{content_hash(record['settings'])}.json"
    path.parent.mkdir(exist_ok=True)
    text = json.dumps({**record, "metrics": clean(record["metrics"])}, indent=1, allow_nan=False)
    write_atomically(path, text + "\n")
    return path


def report(record: dict[str, Any]) -> list[str]:
    """The numbers that matter most, one a line."""
    metrics, chosen = record["metrics"], record["settings"]
    lines = [
        f"{record['run']}, step {record['step']}: {metrics['validation/episodes']:.0f} episodes on "
        f"{len(record['prompts'])} prompts, temperature {chosen['validation.temperature']:g}"
    ]
    if "validation/success" not in metrics:
        return [*lines, "  every environment failed"]
    lines += [
        f"  success       {metrics['validation/success']:.3f}  "
        f"(95 % interval {metrics['validation/success_low']:.3f} to {metrics['validation/success_high']:.3f}, "
        "clustered by prompt)",
        f"  return        {metrics['validation/return']:.3f}",
        f"  valid format  {metrics['validation/valid_format']:.3f}",
    ]
    if "validation/collapse/mi_sequence_nats" in metrics:
        family = {key.removeprefix("validation/collapse/"): value for key, value in metrics.items()}
        lines += [
            f"  MI            {family['mi_sequence_nats']:.3f} nats per reasoning "
            f"(ceiling {family['mi_sequence_ceiling_nats']:.3f})",
            f"  H(Z|X)        {family['conditional_entropy_token_nats']:.3f} nats per token",
            f"  retrieval     {family['retrieval_accuracy']:.3f} (chance {family['retrieval_chance']:.3f})",
        ]
    return lines


if __name__ == "__main__":
    run_main(main)
