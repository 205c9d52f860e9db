"""See a collapse happen, and see it prevented: two arms from one warm-started tiny policy, same seed.

    python -m experiments.quickstart                       # FrozenLake plans, GRPO, no filter against top-p 0.9
    python -m experiments.quickstart --smoke               # the same code path in half a minute
    python -m experiments.quickstart algorithm=ppo steps=200 seeds=0,1,2
    python -m experiments.quickstart env=countdown filter=top_k

Every other key of `python -m experiments.train --help` works too. The default lake begins from a policy that ships with
the package; the other environments first train their warm start, 2 to 8 minutes, once; then it is cached.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments._arms import check_arms, own_options, run_in_folder
from experiments._logging import log_to_stderr
from experiments._main import run_main
from experiments._runner import Variant
from ragen_jax.config import Config, parse
from ragen_jax.config.schema import FilterSection
from ragen_jax.registry import unknown_name
from ragen_jax.report.figures import arms_figure
from ragen_jax.training.run_folder import RunFolder

logger = logging.getLogger("experiments.quickstart")

BASELINE = "no_filter"
OWN = {
    "env": "environment: frozen_lake (default), frozen_lake_turns, sokoban, countdown or bandit",
    "algorithm": "grpo (default), ppo, dr_grpo or dapo",
    "filter": "rule of the second arm (default top_p, which keeps 90 % of the reward variance)",
    "smoke": "a short run that only shows that everything works",
}
ENVIRONMENTS = ("frozen_lake", "frozen_lake_turns", "sokoban", "countdown", "bandit")
ALGORITHMS = ("grpo", "ppo", "dr_grpo", "dapo")
SMOKE = ("steps=6", "validation.prompts=8", "validation.samples=4", "validation.every=3")


def main(argv: Sequence[str]) -> None:
    """Run both arms, draw the picture, say what happened."""
    log_to_stderr()
    variants, seeds, smoke = arms(argv)
    config = variants[0].config
    logger.info("Two arms of %d steps, %d prompts x %d rollouts a step:", config.steps, *sizes(config))
    result, folder = run_in_folder(variants, seeds=seeds, experiment="quickstart", preset=config.env.name)
    rows = {
        variant.name: [RunFolder.open(folder / run).metrics() for run in result["runs"][variant.name]]
        for variant in variants
    }
    picture = folder / "quickstart.png"
    arms_figure(
        rows, picture, title=f"{config.env.name}, {config.algorithm.advantage}, seeds {', '.join(map(str, seeds))}"
    )
    sys.stdout.write("\n".join(report(result, folder, smoke=smoke)) + "\n")


def arms(argv: Sequence[str]) -> tuple[tuple[Variant, Variant], tuple[int, ...], bool]:
    """Both arms of a command line, its seeds, and whether it is the short form.

    The arms differ in the filter only: the first has none, the second has what ``filter=`` and ``filter.*`` say.

    Raises:
      ValueError: an unknown key, or a configuration that contradicts itself.
      KeyError: an unknown environment, algorithm or filter.
    """
    own = own_options(argv, OWN)
    env, algorithm, rule = own.get("env", "frozen_lake"), own.get("algorithm", "grpo"), own.get("filter", "top_p")
    for name, choice, known in (("env", env, ENVIRONMENTS), ("algorithm", algorithm, ALGORITHMS)):
        if choice not in known:
            raise KeyError(unknown_name(f"{name} of the quickstart", choice, list(known)))
    if rule == "none":
        raise ValueError("filter=none would make two equal arms; name a rule, for example filter=top_p")
    # A batch whose prompts are all without signal is ordinary here: its step is skipped, and never ends the run.
    short = SMOKE if "smoke" in own else ()
    defaults = (*short, f"filter.rule={rule}", "filter.max_empty_steps=0")
    presets = (f"{env}_tiny", algorithm, "quickstart")
    parsed = parse([*defaults, *argv], default_presets=presets, own=OWN)
    chosen = parsed.config.filter
    unfiltered = FilterSection(score=chosen.score, count_penalty=chosen.count_penalty)  # the same statistics
    baseline = dataclasses.replace(parsed.config, filter=unfiltered)
    variants = (Variant(BASELINE, baseline), Variant(f"{chosen.rule}-{chosen.value:g}", parsed.config))
    check_arms(variants)
    return variants, parsed.seeds or (parsed.config.seed,), bool(short)


def sizes(config: Config) -> tuple[int, int]:
    """Prompts and rollouts per prompt."""
    return config.rollout.prompts, config.rollout.group_size


def report(result: Mapping[str, Any], folder: Path, *, smoke: bool) -> list[str]:
    """Plain words about what happened, from the numbers of the run."""
    lines = ["", "What happened"]
    for name, fields in result["variants"].items():
        lines.append(f"  {name}: {describe(fields)}")
    if smoke:
        lines.append("  (A smoke run is too short to show anything; run it without --smoke.)")
    else:
        lines += [f"  {line}" for line in compare(result["variants"])]
    lines += ["", "One reply of each arm near the end"]
    for name, runs in result["runs"].items():
        lines.append(f"  {name}: {last_reply(folder / runs[0])}")
    lines += [
        "",
        "Where to look",
        f"  picture      {folder / 'quickstart.png'}",
        f"  all numbers  {folder / 'aggregate.json'} (each run: metrics.jsonl, rollouts.jsonl, summary.json)",
        f"  TensorBoard  tensorboard --logdir {folder}",
    ]
    return lines


def describe(fields: Mapping[str, Any]) -> str:
    """One arm in one sentence."""

    def mean(name: str) -> float:
        return float(fields[name].get("mean", float("nan")))

    return (
        f"MI {mean('mi_start'):.2f} -> {mean('mi_end'):.2f} nats per reasoning (ceiling {mean('mi_ceiling'):.2f}), "
        f"H(Z|X) {mean('conditional_entropy_start'):.2f} -> {mean('conditional_entropy_end'):.2f} nats per token, "
        f"success {mean('success_before'):.2f} -> {mean('success_after'):.2f}, "
        f"valid replies {mean('valid_format_end'):.2f}, kept {mean('kept_ratio_mean'):.0%} of the prompts"
    )


def compare(variants: Mapping[str, Any]) -> list[str]:
    """What the two arms show, only as far as their numbers go."""
    lines = []
    for name, fields in variants.items():
        ratio = fields["mi_ratio"].get("mean")
        if ratio is None:
            lines.append(f"{name}: mutual information was not measured.")
            continue
        rise = fields["conditional_entropy_end"]["mean"] - fields["conditional_entropy_start"]["mean"]
        valid = fields["valid_format_end"]["mean"]
        if ratio <= 0.5 and rise > 0:
            lines.append(
                f"{name}: template collapse. The reasoning kept {ratio:.0%} of what it said about its input, while its "
                f"entropy rose by {rise:.2f} nats per token and {valid:.0%} of the replies stayed well formed: an "
                "entropy monitor sees nothing wrong."
            )
        elif ratio >= 0.75:
            lines.append(f"{name}: no collapse. The reasoning kept {ratio:.0%} of its dependence on the input.")
        else:
            lines.append(f"{name}: in between. The reasoning kept {ratio:.0%} of its dependence on the input.")
    return lines


def last_reply(run: Path) -> str:
    """Prompt and reply of the last logged rollout of a run, on one line."""
    text = (run / "rollouts.jsonl").read_text(encoding="utf-8").splitlines()[-1]
    episode = json.loads(text)
    turn = episode["turns"][0]
    return f"[{turn['observation']}] {turn['reply']}".replace("\n", " / ")


if __name__ == "__main__":
    run_main(main)
