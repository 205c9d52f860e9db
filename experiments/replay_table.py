"""Which score ranks prompts by what their plans differ in, when the environment is noisy?

    python -m experiments.replay_table                                       # the table, about half a minute
    python -m experiments.replay_table save=docs/results/replay_table.json

One-turn plans on slippery lakes, no model: each prompt gets G plans, by the solver with a probability of 0.3 and at
random otherwise, and each plan is walked once. The truth is exact: mu of every plan comes from the distribution over
cells, and a prompt is worth Var(mu) over its G plans. Four scores are compared with it by rank correlation:

* plain: the variance of the G rewards;
* difference: plain minus the mean variance of a plan's replays;
* replayed: the variance of the G means over K replays (``core.filters.replayed_variance``);
* corrected: replayed minus 1/K of the mean variance of a plan's replays (``core.filters.signal_variance``).

Intervals (95 %) resample the prompts within each prompt set.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments._main import run_main
from experiments._options import read_options, whole_number
from ragen_jax.core.filters import replayed_variance, signal_variance
from ragen_jax.core.grouping import group_variance, is_flat
from ragen_jax.envs.frozen_lake.env import FrozenLake, FrozenLakeConfig
from ragen_jax.envs.frozen_lake.lake import ACTIONS

OPTIONS = {
    "prompts": "prompts per set (default 96)",
    "group": "G, plans per prompt (default 16)",
    "sets": "prompt sets, each with its own seed (default 3)",
    "resamples": "bootstrap resamples behind each interval (default 400)",
    "save": "file for the numbers as JSON",
}
SLIPS = (0.2, 0.5, 0.8)
REPLAYS = (4, 8, 16)
SKILL = 0.3


class PromptSet(NamedTuple):
    """What is known of the plans of P prompts.

    Attributes:
      mu: [P, G], exact expected reward of each plan.
      rewards: [P, G], of walking it once.
      replays: [P, G, K], of walking it again.
    """

    mu: np.ndarray
    rewards: np.ndarray
    replays: np.ndarray


def prompt_set(*, slip: float, prompts: int, group: int, replays: int, seed: int) -> PromptSet:
    """Draw plans for ``prompts`` lakes, a quarter of them locked, and walk each once and ``replays`` times more."""
    config = FrozenLakeConfig(
        slip_rate=slip, locked_share=0.25, max_turns=1, max_actions_per_turn=10, action_separator=" "
    )
    env = FrozenLake(config)
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    mu, rewards = np.zeros((prompts, group)), np.zeros((prompts, group))
    walks = np.zeros((prompts, group, replays))
    for prompt, member in np.ndindex(prompts, group):
        layout = seed * prompts + prompt
        env.reset(layout, member)
        lake, plan = env.lake, env.demonstrate(rng, skill=SKILL).answer
        start = lake.start[0] * lake.size + lake.start[1]
        mu[prompt, member] = env.transition_table().plan_value(start, [ACTIONS.index(name) for name in plan.split()])
        rewards[prompt, member] = env.step(plan).reward
        walks[prompt, member] = env.replay([plan], seed=layout, member=member, draws=replays)
    return PromptSet(mu=mu, rewards=rewards, replays=walks)


def scores(data: PromptSet, replays: Sequence[int]) -> dict[str, np.ndarray]:
    """Scores [P] of the prompts by name, and the truth they are compared with."""
    found = {"truth": group_variance(data.mu), "plain": group_variance(data.rewards)}
    for count in replays:
        walks = data.replays[:, :, :count]
        noise = walks.var(axis=2, ddof=1).mean(axis=1)
        found[f"difference_{count}"] = found["plain"] - noise
        found[f"replayed_{count}"] = replayed_variance(walks)
        found[f"corrected_{count}"] = signal_variance(walks)
    return {name: np.asarray(values, np.float64) for name, values in found.items()}


def rank_correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's: the correlation of the ranks, equal values sharing their mean rank; 0 where one side has no order."""
    ranks = _ranks(first), _ranks(second)
    if min(np.ptp(side) for side in ranks) == 0:
        return 0.0
    return float(np.corrcoef(*ranks)[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]


def compare(sets: Sequence[PromptSet], replays: Sequence[int], *, resamples: int, seed: int = 0) -> dict[str, Any]:
    """Rank correlations with the truth, and what each score gains over the plain one, means over the prompt sets.

    Returns:
      For each score ``rho`` and, but for the plain one, ``gain``: mean, low and high of its 95 % interval.
    """
    scored = [scores(data, replays) for data in sets]
    names = [name for name in scored[0] if name != "truth"]
    rng = np.random.default_rng(seed)

    def mean_rho(draws: Sequence[np.ndarray]) -> dict[str, float]:
        return {
            name: float(
                np.mean([rank_correlation(s["truth"][d], s[name][d]) for s, d in zip(scored, draws, strict=True)])
            )
            for name in names
        }

    everyone = [np.arange(len(data.mu)) for data in sets]
    estimate = mean_rho(everyone)
    resampled = [mean_rho([rng.choice(d, len(d)) for d in everyone]) for _ in range(resamples)]

    def interval(value: float, draws: list[float]) -> list[float]:
        low, high = np.quantile(draws, [0.025, 0.975])
        return [round(float(number), 4) for number in (value, low, high)]

    result: dict[str, Any] = {}
    for name in names:
        result[name] = {"rho": interval(estimate[name], [draw[name] for draw in resampled])}
        if name != "plain":
            gains = [draw[name] - draw["plain"] for draw in resampled]
            result[name]["gain"] = interval(estimate[name] - estimate["plain"], gains)
    return result


def describe(sets: Sequence[PromptSet]) -> dict[str, float]:
    """How noisy the prompts are: shares and means over all sets."""
    mu, rewards = (np.concatenate([getattr(data, name) for data in sets]) for name in ("mu", "rewards"))
    noise = (mu * (1 - mu)).mean(axis=1).sum()
    return {
        "noise_share": round(float(noise / (noise + np.asarray(group_variance(mu), np.float64).sum())), 4),
        "flat_share": round(float(np.mean(np.asarray(is_flat(rewards)))), 4),
        "mean_reward": round(float(rewards.mean()), 4),
    }


def table(record: dict[str, Any]) -> str:
    """The record as a Markdown table."""
    counts = " / ".join(map(str, record["replays"]))
    lines = [
        f"| slip | noise share of Var(R) | flat prompts | plain | difference K={counts} | replayed K={counts} | "
        f"corrected K={counts} |",
        "|---" * 7 + "|",
    ]
    for slip, row in record["slips"].items():
        cells = [slip, f"{row['noise_share']:.2f}", f"{row['flat_share']:.2f}", _cell(row["plain"]["rho"])]
        cells += [
            " / ".join(_cell(row[f"{name}_{count}"]["rho"]) for count in record["replays"])
            for name in ("difference", "replayed", "corrected")
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(interval: Sequence[float]) -> str:
    value, low, high = interval
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def main(argv: Sequence[str]) -> None:
    """Make the table, print it, and save it if asked to."""
    given = read_options(argv, options=OPTIONS, doc=__doc__)
    prompts = whole_number(given, "prompts", default=96, least=3)
    group = whole_number(given, "group", default=16, least=2)
    number = whole_number(given, "sets", default=3, least=1)
    resamples = whole_number(given, "resamples", default=400, least=1)
    record: dict[str, Any] = {
        "command": shlex.join(["python", "-m", "experiments.replay_table", *argv]),
        "prompts": prompts,
        "group": group,
        "sets": number,
        "resamples": resamples,
        "replays": list(REPLAYS),
        "slips": {},
    }
    for slip in SLIPS:
        sets = [
            prompt_set(slip=slip, prompts=prompts, group=group, replays=max(REPLAYS), seed=seed)
            for seed in range(number)
        ]
        record["slips"][str(slip)] = describe(sets) | compare(sets, REPLAYS, resamples=resamples)
    sys.stdout.write(table(record) + "\n")
    if "save" in given:
        Path(given["save"]).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run_main(main)
