"""docs/method.md names every metric that a run writes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from ragen_jax.config import Config, compose
from ragen_jax.config.keys import set_key
from ragen_jax.training.loop import train
from ragen_jax.training.measure import measure, null_permutations
from ragen_jax.training.writers import NONFINITE
from ragen_jax.types import CrossScores

PAGE = Path(__file__).parent.parent / "docs" / "method.md"
COLLAPSE = ("collapse/first_turn", "collapse/trajectory", "collapse/turn_uniform", "validation/collapse")
EPISODES = ("rollout", "validation")
PROBED = ("bucket_1", "bucket_2", "all", "update")


def dictionary() -> set[str]:
    """Full names of the page's metrics, the environment's own aside."""
    text = PAGE.read_text(encoding="utf-8").partition("## Metric dictionary")[2]
    collapse, episodes, rest, probes = re.split(r"^### .*$", text, flags=re.MULTILINE)[1:]

    def rows(part: str) -> list[tuple[str, str]]:
        return re.findall(r"^\| `([\w/@.]+)` \| (.*) \|$", part, re.MULTILINE)

    names = {f"{family}/{name}" for name, _ in rows(collapse) for family in COLLAPSE}
    for name, meaning in rows(episodes):
        only = re.match(r"`(\w+)/` only", meaning)
        names |= {f"{family}/{name}" for family in ([only[1]] if only else EPISODES)}
    names |= {f"gradient_probe/{probed}/{name}" for name, _ in rows(probes) for probed in PROBED}
    return names | {name for name, _ in rows(rest)}


def _config(folder: Path) -> Config:
    """One step with everything on: critic, KL, filter, trajectory measurement, validation MI."""
    config = compose("paper", "frozen_lake_turns_tiny", "ppo", "top_p", "cpu_debug")
    for key, value in {
        "folder": str(folder),
        "steps": 1,
        "model.init": "random",
        "model.preset": "tiny-critic",
        "env.max_turns": 2,
        "rollout.max_new_tokens": 6,
        "rollout.max_context": 40,
        "algorithm.kl_coef": 0.1,
        "reward.overlong_buffer": 2,
        "filter.include_zero": True,
        "filter.value": 0.5,  # two of four flat prompts, so that some are dropped
        "filter.mass": "softmax",
        "filter.slack": 0.0,
        "collapse.trajectory_samples": 4,
        "collapse.turn_uniform": True,
        "validation.prompts": 4,
        "probe.every": 1,
        "probe.buckets": 2,
        "probe.mi_columns": 4,
    }.items():
        config = set_key(config, key, value)
    return config


@pytest.mark.slow
def test_the_dictionary_is_what_a_run_writes(tmp_path: Path) -> None:
    outcome = train(_config(tmp_path / "run"), writers=())
    written = {name for row in outcome.folder.metrics() for name in row if name != "step"}
    own = {name for name in written if re.fullmatch(r"(validation/)?env/\w+", name)}
    assert "validation/env/action_is_valid" in own
    assert written - own - dictionary() == set()
    # Where nothing is scored, as here, an interval or a null would say nothing and is left out.
    unknown = {name for name in dictionary() if re.search(r"collapse/(\w+/)?(null_\w+|\w+_(low|high)_nats)$", name)}
    assert dictionary() - written - unknown <= {NONFINITE}
    scores = CrossScores(
        log_probs=-np.random.default_rng(0).random((3, 4, 3)).astype(np.float32),
        lengths=np.ones((3, 4), np.int32),
        valid=np.ones((3, 4), bool),
        column_class=np.arange(3),
    )
    known = measure(scores, permutations=null_permutations(3, seed=0, draw=0))[0]
    assert {name.rpartition("/")[2] for name in unknown} <= set(known)
