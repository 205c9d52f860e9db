"""Time of the science core on this machine's first device: the filter, and the collapse metrics.

    python -m experiments.bench.core [--quick] [--save]

Targets, after compilation, on a CPU: statistics of the groups and the filter's verdict for 1,024 prompts of 64 rollouts
within 1 ms, the collapse metrics of a training step from cross scores [256, 16, 256] within 50 ms (median times).
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from experiments.bench._report import Target, finish, median_seconds, options, run_bench
from ragen_jax import core
from ragen_jax.training.measure import measure
from ragen_jax.types import Array, CrossScores, FilterResult

TARGETS = {"filter_ms": Target(at_most=1.0), "collapse_ms": Target(at_most=50.0)}


@jax.jit
def filter_prompts(rewards: Array) -> tuple[FilterResult, Array, Array]:
    """Group statistics and top-p on the variance, [P, G] -> verdict, means and standard deviations [P]."""
    variance = core.group_variance(rewards)
    kept = core.filters.top_p(variance, rho=0.9, flat=core.is_flat(rewards))
    return kept, core.group_mean(rewards), core.group_std(rewards)


def main(argv: Sequence[str]) -> bool:
    """Measure, print, and say whether the targets hold."""
    chosen = options(__doc__, argv)
    repeats = 30 if chosen.quick else 200
    rng = np.random.default_rng(0)
    rewards = jax.device_put((rng.random((1024, 64)) < rng.random((1024, 1))).astype(np.float32))
    scores = jax.device_put(
        CrossScores(
            log_probs=rng.normal(-40.0, 5.0, (256, 16, 256)).astype(np.float32),
            lengths=rng.integers(5, 60, (256, 16)).astype(np.int32),
            valid=rng.random((256, 16)) < 0.97,
            column_class=np.arange(256, dtype=np.int32),
        )
    )
    ratios = {
        "filter_ms": 1e3 * median_seconds(lambda: filter_prompts(rewards), repeats=repeats),
        "collapse_ms": 1e3 * median_seconds(lambda: measure(scores)[0], repeats=max(repeats // 4, 10)),
    }
    shapes = {"filter": "P=1024, G=64", "collapse": "[256, 16, 256]"}
    return finish("core", ratios, TARGETS, argv=argv, save=chosen.save, details={"shapes": shapes})


if __name__ == "__main__":
    run_bench(main)
