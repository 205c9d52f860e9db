"""Experiments that compare arms: one command, some seeds, one table with intervals."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments._logging import log_to_stderr
from experiments._runner import Variant, processors, run_variants
from ragen_jax.config import Config, parse, validate
from ragen_jax.training.build import initial_policy
from ragen_jax.training.run_folder import claim_folder

OWN = {
    "tiny": "the miniature: a policy of 0.36 M parameters, minutes on a laptop",
    "smoke": "a few steps that only show that everything works",
    "save": "file for the table as JSON, small enough to keep",
}
SMOKE = ("steps=2", "validation.prompts=8", "validation.samples=2", "validation.every=0")
_COLUMNS = (
    ("mi_ratio", "MI end/start"),
    ("mi_end", "MI end"),
    ("conditional_entropy_end", "H(Z\\|X) end"),
    ("success_before", "success start"),
    ("success_after", "success end"),
    ("valid_format_end", "valid"),
    ("kept_ratio_mean", "kept"),
    ("wall_seconds", "seconds"),
)


@dataclasses.dataclass(frozen=True)
class ArmsExperiment:
    """An experiment whose arms differ in a few keys.

    Attributes:
      name: of the module; part of folder names.
      presets: of the full size.
      tiny_presets: of the miniature.
      tiny_keys: ``key=value`` that the miniature sets before the command line's own.
      arms: makes the arms of a configuration, in the order of the table.
      seeds: when the command line names none.
    """

    name: str
    presets: tuple[str, ...]
    tiny_presets: tuple[str, ...]
    tiny_keys: tuple[str, ...]
    arms: Callable[[Config], Sequence[Variant]]
    seeds: tuple[int, ...] = (0, 1, 2)


def plan(experiment: ArmsExperiment, argv: Sequence[str]) -> tuple[list[Variant], tuple[int, ...], Mapping[str, str]]:
    """The arms of a command line, its seeds and the module's own options; every arm is checked.

    Raises:
      ValueError: an unknown key, a run to resume, or an arm that contradicts itself.
      KeyError: an unknown preset.
    """
    own = parse([token for token in argv if token.lstrip("-").partition("=")[0] in OWN], own=OWN).rest
    tiny = "tiny" in own
    keys = (*(experiment.tiny_keys if tiny else ()), *(SMOKE if "smoke" in own else ()))
    parsed = parse([*keys, *argv], default_presets=experiment.tiny_presets if tiny else experiment.presets, own=OWN)
    if parsed.config.resume:
        raise ValueError(f"resume={parsed.config.resume}: continue the arms one by one, with experiments.train")
    variants = list(experiment.arms(parsed.config))
    for variant in variants:
        try:
            validate(variant.config)
        except ValueError as error:
            raise ValueError(f"arm {variant.name}: {error}") from error
    seeds = parsed.seeds or ((parsed.config.seed,) if "smoke" in own else experiment.seeds)
    return variants, seeds, parsed.rest


def run_arms(experiment: ArmsExperiment, argv: Sequence[str]) -> None:
    """Run every arm with every seed and print the table."""
    log_to_stderr()
    variants, seeds, own = plan(experiment, argv)
    config = variants[0].config
    if config.model.init in ("warm_start", "bundled"):
        initial_policy(config)  # trained once, before two processes want it; a misfit is found here
    folder = (
        Path(config.folder)
        if config.folder
        else claim_folder("runs", experiment=experiment.name, preset=config.env.name, seed=seeds[0])
    )
    result = run_variants(variants, seeds=seeds, folder=folder, jobs=min(2, len(processors())))
    if "save" in own:
        path = Path(own["save"])
        path.parent.mkdir(parents=True, exist_ok=True)
        command = f"python -m experiments.{experiment.name} {' '.join(argv)}".strip()
        path.write_text(json.dumps(small_result(result, command), indent=1) + "\n", encoding="utf-8")
    sys.stdout.write("\n".join([*table(result["variants"]), "", f"all numbers in {folder / 'aggregate.json'}"]) + "\n")


def small_result(result: Mapping[str, Any], command: str) -> dict[str, Any]:
    """What is worth keeping in a repository: the columns of the table, per seed, with mean and interval."""
    names = [name for name, _ in _COLUMNS]
    arms = {arm: {name: fields[name] for name in names if name in fields} for arm, fields in result["variants"].items()}
    return {"command": command, "seeds": list(result["seeds"]), "arms": arms}


def table(variants: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Markdown table: mean over seeds and, where there are several, the 95 % Student interval."""
    lines = ["| arm | " + " | ".join(title for _, title in _COLUMNS) + " |", "|---" * (len(_COLUMNS) + 1) + "|"]
    for arm, fields in variants.items():
        lines.append(f"| {arm} | " + " | ".join(_cell(fields.get(name, {})) for name, _ in _COLUMNS) + " |")
    return lines


def _cell(field: Mapping[str, Any]) -> str:
    if "mean" not in field:
        return "-"
    mean, interval = field["mean"], field.get("interval")
    digits = 0 if abs(mean) >= 10 else 2
    text = f"{mean:.{digits}f}"
    return text if interval is None else f"{text} ({interval[0]:.{digits}f} to {interval[1]:.{digits}f})"
