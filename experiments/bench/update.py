"""The update with each group's prompt run once, against our own with every row's prompt run, and against TRL.

    python -m experiments.bench.update [--quick] [--save]

4 prompts x 16 responses of 64 tokens, float32, one core, one thread, in turns. Rows with prompts of their own go
through the same program: they are groups of one. TRL is measured by `experiments.bench.step`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from experiments.bench._report import Target, finish, options, run_bench
from experiments.bench._workload import (
    GROUP,
    NEW_TOKENS,
    SMALL,
    VOCAB,
    full_batch,
    pin_to_one_core,
    random_model,
    random_prompts,
    take_turns,
)
from ragen_jax.config.schema import AlgorithmSection
from ragen_jax.learner.score import ScoreConfig, score
from ragen_jax.learner.update import UpdateConfig, accumulate
from ragen_jax.models.config import ModelConfig
from ragen_jax.models.sharding import make_mesh
from ragen_jax.types import CollapseState, LearnerBatch, Params, TrainState

TARGETS = {
    "tiled_over_shared_prompt_100": Target(at_least=2.0),
    "tiled_over_shared_prompt_300": Target(at_least=3.5),
    "gradient_gap_prompt_100": Target(at_most=1e-5),
    "gradient_gap_prompt_300": Target(at_most=1e-5),
}
SCORE = ScoreConfig(vocab_size=VOCAB)
TILED_ROWS = 4  # at once; all rows at once are slower, which the bench reports
ALGORITHM = AlgorithmSection(clip_low=0.2, clip_high=0.2, clip_dual=0.0, kl_coef=0.0, entropy_coef=0.0)

_accumulate = jax.jit(accumulate, static_argnums=(1,), static_argnames=("mesh",))


def learner_batch(
    params: Params, prompt: int, *, prompts: int, config: ModelConfig = SMALL, seed: int = 0
) -> LearnerBatch:
    """Random responses of full length, with random advantages, at the start of a step."""
    rng = np.random.default_rng(seed)
    first = random_prompts(prompt, prompts=prompts, seed=seed)
    shape = (prompts, GROUP, NEW_TOKENS)
    tokens = rng.integers(3, VOCAB - 1, shape).astype(np.int32)
    old = np.asarray(score(params, config, SCORE, first.tokens, first.mask, tokens, 1))
    return full_batch(first, tokens, old_log_probs=old, advantages=rng.normal(size=shape[:2]))


def tiled(batch: LearnerBatch) -> LearnerBatch:
    """The same rows, each with its prompt to itself: P * G groups of one."""
    share = batch.tokens.shape[1]
    own = {name: np.repeat(getattr(batch, name), share, axis=0) for name in ("prompt_tokens", "prompt_mask")}
    rows = {
        field.name: getattr(batch, field.name).reshape(-1, 1, *getattr(batch, field.name).shape[2:])
        for field in dataclasses.fields(batch)
        if field.name not in own
    }
    return LearnerBatch(**own, **rows)


def gradient(params: Params, batch: LearnerBatch, *, micro_groups: int) -> Callable[[], Params]:
    """A call that computes the gradient of the policy loss (token mean) over the batch."""
    settings = UpdateConfig(model=SMALL, critic=None, scoring=SCORE, algorithm=ALGORITHM, micro_groups=micro_groups)
    zero = np.float32(0)
    state = TrainState(
        step=np.int32(0),
        params=params,
        opt_state=None,
        critic_params=None,
        critic_opt_state=None,
        collapse=CollapseState(*(zero,) * len(dataclasses.fields(CollapseState))),
    )
    groups = len(batch.tokens)
    numbers = (np.int32(groups), np.float32(batch.response_mask.sum()), np.float32(1), np.float32(1))
    arguments = (state, settings, batch, np.arange(groups, dtype=np.int32), *numbers)
    run = functools.partial(_accumulate, *arguments, mesh=make_mesh(data=1))
    return lambda: run()[0][0]


def relative_gap(first: Params, second: Params) -> float:
    """Largest difference of any leaf, relative to the leaf's largest entry."""
    return max(
        float(np.abs(np.asarray(a) - np.asarray(b)).max() / np.abs(np.asarray(b)).max())
        for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True)
    )


def main(argv: Sequence[str]) -> bool:
    """Measure, print, and say whether the targets hold."""
    chosen = options(__doc__, argv)
    core = pin_to_one_core()
    rounds, prompts = (3, 1) if chosen.quick else (5, 4)
    params = random_model()
    ratios: dict[str, float] = {}
    spreads, seconds = {}, {}
    for length in (100, 300):
        batch = learner_batch(params, length, prompts=prompts)
        rows = tiled(batch)
        ways: dict[str, Callable[[], Any]] = {
            "shared": gradient(params, batch, micro_groups=1),
            "tiled": gradient(params, rows, micro_groups=TILED_ROWS),
        }
        whole = length == 100 and not chosen.quick
        if whole:
            ways["shared_whole"] = gradient(params, batch, micro_groups=prompts)
            ways["tiled_whole"] = gradient(params, rows, micro_groups=len(rows.tokens))
        ratios[f"gradient_gap_prompt_{length}"] = relative_gap(ways["shared"](), ways["tiled"]())
        timing = take_turns(ways, rounds=rounds)
        pairs = {f"tiled_over_shared_prompt_{length}": ("tiled", "shared")}
        if whole:
            pairs |= {
                "shared_whole_over_micro_prompt_100": ("shared_whole", "shared"),
                "tiled_whole_over_micro_prompt_100": ("tiled_whole", "tiled"),
            }
        for name, sides in pairs.items():
            ratios[name], spreads[name] = timing.ratio(*sides), timing.spread(*sides)
        seconds[f"prompt_{length}"] = timing.details()
    details = {
        "shapes": f"{prompts} x 16 rows of 64 tokens, 4 layers of width 256, V=1024, float32",
        "core": core,
        "rounds": rounds,
        "spread": spreads,
        "seconds": seconds,
    }
    return finish("update", ratios, TARGETS, argv=argv, save=chosen.save, details=details)


if __name__ == "__main__":
    run_bench(main)
