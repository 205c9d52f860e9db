"""One table of all environments: how hard, how many, how fast, and what guessing and cheating earn.

python -m experiments.env_report                       # every environment that is installed, 200 episodes a player
python -m experiments.env_report envs=sokoban,countdown n=50
python -m experiments.env_report --json save=docs/results/environments.json

Everything is played with the default options on training instances, seeds from 10000 on, without any model:

* oracle: the environment's own solver, by demonstrations of skill 1;
* random: a guesser (``experiments/_env_policies.py`` says which);
* adversary: the best paid of some players who do not solve the task.

Scores are success rates with 95 % Wilson intervals over the episodes. Speed is per second of processor time, child
processes included, while the random player plays; a worker process that lives on is not counted.
"""

from __future__ import annotations

import dataclasses
import json
import resource
import shlex
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments._env_policies import Act, InTurn, Player, sheet
from experiments._logging import log_to_stderr
from experiments._main import run_main
from experiments._options import read_options, whole_number
from ragen_jax.envs import ENVS, TextEnv, make_env
from ragen_jax.files import write_atomically
from ragen_jax.report.statistics import wilson_interval

FIRST_SEED = 10_000
ORACLE = Player("oracle", lambda env, shown, rng: env.demonstrate(rng, skill=1.0).answer)
OPTIONS = {
    "envs": "environments, comma separated (default: all that are installed)",
    "n": "episodes a player, 2 or more (default 200)",
    "save": "file for the numbers as JSON",
    "json": "print the JSON object instead of the table",
}


@dataclasses.dataclass(frozen=True)
class Score:
    """What one player earned.

    Attributes:
      player: its name.
      success: share of episodes that succeeded.
      low: lower end of the 95 % Wilson interval.
      high: upper end.
      mean_return: mean sum of rewards, without any format penalty.
      episodes: played.
    """

    player: str
    success: float
    low: float
    high: float
    mean_return: float
    episodes: int


def main(argv: Sequence[str]) -> None:
    """Play all, print the table."""
    log_to_stderr()
    given = read_options(argv, options=OPTIONS, flags=("json",), doc=__doc__)
    n = whole_number(given, "n", default=200, least=2)
    if "save" in given and not Path(given["save"]).parent.is_dir():
        raise ValueError(f"save={given['save']}: there is no folder {Path(given['save']).parent}, make it first")
    rows = []
    skipped = {}
    for name in given["envs"].split(",") if "envs" in given else list(ENVS):
        ENVS.check(name)
        try:
            probe = make_env(name)
            probe.reset(FIRST_SEED)
        except (ValueError, OSError) as error:  # a missing extra, or a server that is not there
            if "envs" in given:
                raise
            skipped[name] = str(error).partition("\n")[0]
            continue
        rows.append(report(name, n))
    record = {
        "command": shlex.join(["python", "-m", "experiments.env_report", *argv]),
        "episodes_per_player": n,
        "environments": rows,
        "skipped": skipped,
    }
    text = json.dumps(record, indent=1, allow_nan=False) + "\n"
    if "save" in given:
        write_atomically(Path(given["save"]), text)
    sys.stdout.write(text if "json" in given else table(rows, skipped))


def report(name: str, n: int) -> dict[str, Any]:
    """Everything about one environment, from ``n`` instances and ``n`` episodes a player."""
    known = sheet(name)
    envs = {split: make_env(name, split=split) for split in ("train", "validation")}
    train = envs["train"]
    units: dict[str, set[str]] = {}
    texts: dict[str, set[str]] = {}
    levels: Counter[int | str] = Counter()
    began = _seconds()
    for split, env in envs.items():
        units[split], texts[split] = set(), set()
        for seed in range(FIRST_SEED, FIRST_SEED + n):
            env.reset(seed)
            units[split].add(known.unit(env))
            texts[split].add(env.canonical())
            if known.difficulty and split == "train":
                levels[known.difficulty[1](env)] += 1
    resets = 2 * n / max(_seconds() - began, 1e-9)
    oracle = play(train, ORACLE, n)
    turns: list[int] = []
    began = _seconds()
    guesser = play(train, known.random, n, turns=turns)
    steps = sum(turns) / max(_seconds() - began, 1e-9)
    adversaries = [play(train, player, n) for player in known.adversaries]
    source = train.data_source()
    for env in envs.values():
        env.close()
    return {
        "name": name,
        "data_source": "generated" if source is None else source.describe(),
        "difficulty": {
            "meaning": known.difficulty[0] if known.difficulty else "",
            "counts": {str(level): levels[level] for level in sorted(levels, key=_order)},
        },
        "instances": n,
        "distinct": {split: len(found) for split, found in texts.items()},
        "train_validation_overlap": len(units["train"] & units["validation"]),
        "oracle": dataclasses.asdict(oracle),
        "random": dataclasses.asdict(guesser),
        "adversaries": [dataclasses.asdict(score) for score in adversaries],
        "resets_per_cpu_second": _round(resets),
        "steps_per_cpu_second": _round(steps),
    }


def play(env: TextEnv, player: Player | InTurn, n: int, *, turns: list[int] | None = None) -> Score:
    """Episodes of one player on ``n`` seeds; ``turns`` gets the length of each."""
    rng = np.random.default_rng(0)
    successes, earned = 0, 0.0
    for seed in range(FIRST_SEED, FIRST_SEED + n):
        success, gained, length = _episode(env, player.start(), seed, rng)
        successes += success
        earned += gained
        if turns is not None:
            turns.append(length)
    low, high = wilson_interval(successes, n)
    return Score(player.name, successes / n, _round(low), _round(high), _round(earned / n), n)


def table(rows: Sequence[dict[str, Any]], skipped: dict[str, str]) -> str:
    """The rows as a Markdown table, then difficulty and players in words."""
    lines = [
        "| environment | distinct of n (train, validation) | overlap | oracle | random | best adversary "
        "| resets/s | steps/s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        tried = row["adversaries"]
        best = max(tried, key=lambda score: (score["success"], score["mean_return"]))
        who = best["player"] if best["success"] else f"all {len(tried)}"
        distinct = row["distinct"]
        lines.append(
            f"| {row['name']} | {distinct['train']}, {distinct['validation']} of {row['instances']} "
            f"| {row['train_validation_overlap']} | {_score(row['oracle'])} | {_score(row['random'])} "
            f"| {_score(best)} {who} | {row['resets_per_cpu_second']:g} | {row['steps_per_cpu_second']:g} |"
        )
    lines += [
        "",
        "| environment | tasks | difficulty (instances) | random player | mean return: oracle, random |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        counts = ", ".join(f"{level}: {count}" for level, count in row["difficulty"]["counts"].items())
        lines.append(
            f"| {row['name']} | {row['data_source']} | {row['difficulty']['meaning']}{': ' if counts else ''}{counts} "
            f"| {row['random']['player']} | {row['oracle']['mean_return']:g}, {row['random']['mean_return']:g} |"
        )
    lines += ["", *(f"Left out: {name}, {why}" for name, why in skipped.items())] if skipped else []
    return "\n".join(lines) + "\n"


def _episode(env: TextEnv, act: Act, seed: int, rng: np.random.Generator) -> tuple[bool, float, int]:
    """Success, sum of rewards and number of turns."""
    shown = env.reset(seed).text
    success, earned = False, 0.0
    for turn in range(1, env.config.max_turns + 1):
        result = env.step(act(env, shown, rng))
        shown = result.observation.text
        success |= result.info["success"]
        earned += result.reward
        if result.done:
            return success, earned, turn
    raise RuntimeError(f"{env.name}: the episode of seed {seed} did not end within max_turns={env.config.max_turns}")


def _seconds() -> float:
    """Processor time of this process and of its children that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def _score(score: dict[str, Any]) -> str:
    return f"{score['success']:.3g} [{score['low']:.3f}, {score['high']:.3f}]"


def _round(value: float) -> float:
    return float(f"{value:.3g}")


def _order(level: int | str) -> tuple[int, str]:
    return (level, "") if isinstance(level, int) else (0, level)


if __name__ == "__main__":
    run_main(main)
