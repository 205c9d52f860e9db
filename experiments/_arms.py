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
      own: options of the module beside those that all such experiments have, name to help text.
    """

    name: str
    presets: tuple[str, ...]
    tiny_presets: tuple[str, ...]
    tiny_keys: tuple[str, ...]
    arms: Callable[[Config], Sequence[Variant]]
    seeds: tuple[int, ...] = (0, 1, 2)
    own: Mapping[str, str] = dataclasses.field(default_factory=dict)


def plan(experiment: ArmsExperiment, argv: Sequence[str]) -> tuple[list[Variant], tuple[int, ...], Mapping[str, str]]:
    """The arms of a command line, its seeds and the module's own options; every arm is checked.

    Raises:
      ValueError: an unknown key, a run to resume, or an arm that contradicts itself.
      KeyError: an unknown preset.
    """
    options = {**OWN, **experiment.own}
    own = own_options(argv, options)
    tiny = "tiny" in own
    keys = (*(experiment.tiny_keys if tiny else ()), *(SMOKE if "smoke" in own else ()))
    parsed = parse([*keys, *argv], default_presets=experiment.tiny_presets if tiny else experiment.presets, own=options)
    variants = list(experiment.arms(parsed.config))
    check_arms(variants)
    seeds = parsed.seeds or ((parsed.config.seed,) if "smoke" in own else experiment.seeds)
    return variants, seeds, parsed.rest


def own_options(argv: Sequence[str], own: Mapping[str, str]) -> Mapping[str, str]:
    """A module's own options alone; they decide which presets the other keys change, so they are read first."""
    return parse([token for token in argv if token.lstrip("-").partition("=")[0] in own], own=own).rest


def check_arms(variants: Sequence[Variant]) -> None:
    """Refuse a run to resume, and an arm that contradicts itself, with a ValueError that names the arm."""
    for variant in variants:
        if variant.config.resume:
            raise ValueError(
                f"resume={variant.config.resume}: continue the arms one by one, with "
                "experiments.train resume=<folder of one run>"
            )
        try:
            validate(variant.config)
        except ValueError as error:
            raise ValueError(f"arm {variant.name}: {error}") from error


def run_in_folder(
    variants: Sequence[Variant], *, seeds: Sequence[int], experiment: str, preset: str
) -> tuple[dict[str, Any], Path]:
    """Run every arm with every seed, in the folder that the configuration names or in a new one below ``runs``.

    A policy that all runs begin with is made once, before two processes want it.
    """
    config = variants[0].config
    if config.model.init in ("warm_start", "bundled"):
        initial_policy(config)
    folder = Path(config.folder or claim_folder("runs", experiment=experiment, preset=preset, seed=seeds[0]))
    return run_variants(variants, seeds=seeds, folder=folder, jobs=min(2, len(processors()))), folder


def run_arms(experiment: ArmsExperiment, argv: Sequence[str]) -> None:
    """Run every arm with every seed and print the table."""
    log_to_stderr()
    variants, seeds, own = plan(experiment, argv)
    preset = variants[0].config.env.name
    result, folder = run_in_folder(variants, seeds=seeds, experiment=experiment.name, preset=preset)
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
