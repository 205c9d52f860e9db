"""How much success a slippery lake allows: the best possible policy, the solver, and a guesser, over slip rates.

python -m experiments.slip_table                                          # 200 lakes a row, half a minute
python -m experiments.slip_table slips=0.0,0.5 n=50 --json save=docs/results/slip_table.json

"best" is exact: value iteration over the true dynamics of each lake, with the action budget of an episode as horizon
and a look at the state after every action, averaged over the lakes (``FrozenLake.optimal_success_probability``). No
policy can be better. It may rise again towards slip 1, where a move surely goes to a side, so that one can aim across.
The solver walks a shortest way and plans anew each turn, without regard to slips; the guesser moves uniformly. Each
plays one episode on each lake; 95 % Wilson intervals.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments._env_policies import sheet
from experiments._main import run_main
from experiments._options import read_options, whole_number
from experiments.env_report import FIRST_SEED, ORACLE, play
from ragen_jax.envs.frozen_lake.env import FrozenLake, FrozenLakeConfig
from ragen_jax.files import write_atomically

PLAYED = ("solver", "random")
SLIPS = (0.0, 0.02, 0.1, 0.2, 0.35, 0.5, 2 / 3, 0.8, 1.0)
OPTIONS = {
    "slips": "slip rates, comma separated (default: nine from 0 to 1)",
    "n": "lakes a row (default 200)",
    "save": "file for the numbers as JSON",
    "json": "print the JSON object instead of the table",
}


def main(argv: Sequence[str]) -> None:
    """Play, print, save."""
    given = read_options(argv, options=OPTIONS, flags=("json",), doc=__doc__)
    n = whole_number(given, "n", default=200, least=1)
    rows = [row(slip, n) for slip in (_slips(given["slips"]) if "slips" in given else SLIPS)]
    record = {"command": shlex.join(["python", "-m", "experiments.slip_table", *argv]), "lakes": n, "rows": rows}
    text = json.dumps(record, indent=1, allow_nan=False) + "\n"
    if "save" in given:
        write_atomically(Path(given["save"]), text)
    sys.stdout.write(text if "json" in given else table(rows))


def row(slip: float, n: int) -> dict[str, Any]:
    """Best, solver and guesser on ``n`` lakes of one slip rate."""
    env = FrozenLake(FrozenLakeConfig(slip_rate=slip))
    best = []
    for seed in range(FIRST_SEED, FIRST_SEED + n):
        env.reset(seed)
        best.append(env.optimal_success_probability())
    found: dict[str, Any] = {"slip_rate": float(f"{slip:.4g}"), "best": float(f"{np.mean(best):.4g}")}
    for name, player in zip(PLAYED, (ORACLE, sheet("frozen_lake").random), strict=True):
        score = play(env, player, n)
        found[name] = {"success": score.success, "low": score.low, "high": score.high}
    return found


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as a Markdown table."""
    lines = ["| slip rate | best possible (exact) | solver | random |", "|---|---|---|---|"]
    for found in rows:
        scores = [f"{found[who]['success']:.3g} [{found[who]['low']:.3f}, {found[who]['high']:.3f}]" for who in PLAYED]
        lines.append(f"| {found['slip_rate']:g} | {found['best']:.3f} | {' | '.join(scores)} |")
    return "\n".join(lines) + "\n"


def _slips(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise ValueError(f"slips={text}: use numbers between 0 and 1, comma separated") from error


if __name__ == "__main__":
    run_main(main)
