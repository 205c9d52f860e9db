"""Are the theorems of RAGEN-2 true? Every statement on thousands of random policies where all is enumerable.

    python -m experiments.theory_checks                                      # the table, under a minute on one core
    python -m experiments.theory_checks save=docs/results/theory_checks.json
    python -m experiments.theory_checks draws=200 seed=3

Exit code 1 when a statement that must hold is violated, or when no counter-example is found to one that is false.
"""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import jax
import numpy as np

from experiments._main import run_main
from experiments._options import read_options, whole_number
from experiments._theory_finding import FAILS, HOLDS, Finding
from experiments._theory_gradients import (
    dominance,
    drift,
    enumeration,
    filtered_error,
    gradient_bound,
    grpo_floor,
    snr_bounds,
)
from experiments._theory_information import attribution, closeness, template_mixing

FEWEST = 200
OPTIONS = {
    "draws": f"random policies per statement, {FEWEST} or more (default 2400)",
    "seed": "of the draws (default 0)",
    "save": "file for the findings as JSON",
}
CHECKS: tuple[Callable[[np.random.Generator, int], list[Finding]], ...] = (
    gradient_bound,
    snr_bounds,
    enumeration,
    grpo_floor,
    dominance,
    template_mixing,
    filtered_error,
    drift,
    closeness,
    attribution,
)


def findings(*, draws: int, seed: int) -> list[Finding]:
    """All findings in float64; every check has random numbers of its own.

    Raises:
      ValueError: fewer draws than the policies have sizes to be spread over.
    """
    if draws < FEWEST:
        raise ValueError(f"draws={draws}: use {FEWEST} or more")
    streams = np.random.SeedSequence(seed).spawn(len(CHECKS))
    with jax.enable_x64(True):
        return [
            finding
            for check, stream in zip(CHECKS, streams, strict=True)
            for finding in check(np.random.default_rng(stream), draws)
        ]


def table(found: Sequence[Finding]) -> str:
    """The findings as a Markdown table."""
    lines = [
        "| claim | statement | checked how | result | tightest case | note |",
        "|---|---|---|---|---|---|",
    ]
    for finding in found:
        cells = (finding.claim, finding.statement, finding.method, _result(finding))
        escaped = (cell.replace("|", "\\|") for cell in (*cells, f"{finding.tightest:.3g}", finding.note))
        lines.append("| " + " | ".join(escaped) + " |")
    return "\n".join(lines)


def _result(finding: Finding) -> str:
    count = f"{finding.violations} of {finding.draws} against it"
    if finding.expected == HOLDS:
        return f"{'holds' if finding.as_expected else 'VIOLATED'}: {count}"
    if finding.expected == FAILS:
        return f"{'false' if finding.as_expected else 'NO COUNTER-EXAMPLE'}: {count}"
    return f"measured: {count}"


def main(argv: Sequence[str]) -> None:
    """Check, print, save.

    Raises:
      SystemExit: with code 1, when a finding is not as expected.
    """
    given = read_options(argv, options=OPTIONS, doc=__doc__)
    draws = whole_number(given, "draws", default=2400, least=FEWEST)
    seed = whole_number(given, "seed", default=0, least=0)
    found = findings(draws=draws, seed=seed)
    sys.stdout.write(table(found) + "\n")
    wrong = [finding.claim for finding in found if not finding.as_expected]
    if "save" in given:
        record = {
            "command": shlex.join(["python", "-m", "experiments.theory_checks", *argv]),
            "draws": draws,
            "seed": seed,
            "findings": [dataclasses.asdict(finding) for finding in found],
        }
        Path(given["save"]).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if wrong:
        sys.stderr.write(f"not as expected: {', '.join(wrong)}\n")
        raise SystemExit(1)


if __name__ == "__main__":
    run_main(main)
