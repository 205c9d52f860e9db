"""What all benches share: options, timing, and one JSON object as the last line printed.

A bench compares ratios of times (or times in a stated unit) with targets, so that its verdict can be read by a program:

    {"bench": "core", "ratios": {...}, "targets": {...}, "holds": true, "versions": {...}, "command": "..."}
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import json
import math
import os
import platform
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from experiments._main import run_main

RESULTS = Path(__file__).parent.parent.parent / "docs" / "results" / "bench"
_PACKAGES = ("jax", "jaxlib", "numpy", "flax", "optax")


@dataclasses.dataclass(frozen=True)
class Target:
    """What a measured number is held to.

    Attributes:
      at_most: largest value that holds, or None.
      at_least: smallest value that holds, or None.
    """

    at_most: float | None = None
    at_least: float | None = None

    def holds(self, value: float) -> bool:
        """Whether a value meets the target; a value that is not a number does not."""
        return (self.at_most is None or value <= self.at_most) and (self.at_least is None or value >= self.at_least)

    def __str__(self) -> str:
        """In words, for the printed object."""
        limits = [("<=", self.at_most), (">=", self.at_least)]
        return " and ".join(f"{sign} {limit:g}" for sign, limit in limits if limit is not None)


def options(doc: str | None, argv: Sequence[str]) -> argparse.Namespace:
    """The options of every bench: ``--quick`` (less than a minute) and ``--save`` (into ``docs/results/bench``)."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions or sizes, less than a minute")
    parser.add_argument("--save", action="store_true", help="also write docs/results/bench/<name>.json")
    return parser.parse_args(argv)


def run_bench(main: Callable[[Sequence[str]], bool]) -> None:
    """What a bench does as a program: as ``run_main``, and exit code 1 where a target does not hold."""

    def judged(argv: Sequence[str]) -> None:
        if not main(argv):
            sys.exit(1)

    run_main(judged)


def median_seconds(call: Callable[[], Any], *, repeats: int, warm_up: int = 1) -> float:
    """Median wall time of a call whose result is waited for; the first calls, which compile, are left out."""
    for _ in range(warm_up):
        jax.block_until_ready(call())
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(call())
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def finish(
    bench: str,
    ratios: Mapping[str, float],
    targets: Mapping[str, Target],
    *,
    argv: Sequence[str],
    save: bool,
    details: Mapping[str, Any] | None = None,
) -> bool:
    """Print the result as one line, write it if asked for, and say whether all targets hold.

    Args:
      bench: name of the module.
      ratios: measured numbers; names carry their unit where they have one.
      targets: by name of the number.
      argv: options of the command line, for the record.
      save: write ``docs/results/bench/<bench>.json`` too.
      details: further facts that no target is about.

    Raises:
      ValueError: a target for a number that was not measured.
    """
    missing = sorted(set(targets) - set(ratios))
    if missing:
        raise ValueError(f"no measurement for the targets {', '.join(missing)}; measured: {', '.join(ratios)}")
    holds = all(target.holds(ratios[name]) for name, target in targets.items())
    record: dict[str, Any] = {
        "bench": bench,
        "ratios": {name: float(f"{value:.4g}") if math.isfinite(value) else None for name, value in ratios.items()},
        "targets": {name: str(target) for name, target in targets.items()},
        "holds": holds,
        "versions": versions(),
        "command": shlex.join(["python", "-m", f"experiments.bench.{bench}", *argv]),
    }
    if details:
        record["details"] = dict(details)
    if save:
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / f"{bench}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(json.dumps(record) + "\n")
    return holds


def versions() -> dict[str, str]:
    """Python, packages, and the devices that were measured."""
    devices = jax.devices()
    return {
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in _PACKAGES},
        "device": f"{len(devices)} x {devices[0].device_kind} ({devices[0].platform})",
        "processors": str(os.cpu_count()),
    }
