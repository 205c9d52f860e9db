"""A whole GRPO step, rollout and update, against TRL 1.16 and Tunix 0.1.7; and the sampler against Tunix's.

    sh experiments/bench/rivals.sh                     # once: their environments
    python -m experiments.bench.step [--quick] [--save]

8 prompts of 100 digits x 16 samples, 64 forced tokens, float32, no KL, one update of a batch, AdamW, gradients clipped
to norm 1. Every side is a process of its own with the same weights, one thread, on the same core; they take turns, and
the first turn of each, in which it compiles, does not count. The rivals accumulate gradients over 16 rows, the better
of their settings. On the first batch loss, entropy and gradient norm are compared with TRL's on TRL's completions.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from experiments.bench._report import Target, finish, options, run_bench
from experiments.bench._rivals import INSTALL, WORKERS, Rival, RivalError, installed, rivals_folder
from experiments.bench._workload import (
    GROUP,
    NEVER,
    NEW_TOKENS,
    PROMPTS,
    SMALL,
    Prompts,
    full_batch,
    hugging_face_folder,
    pin_to_one_core,
    random_model,
    take_turns,
)
from experiments.bench.sampler import our_generate
from experiments.bench.update import ALGORITHM, SCORE
from ragen_jax.core.grouping import group_mean, group_std
from ragen_jax.learner.optimizer import adam
from ragen_jax.learner.state import build_state
from ragen_jax.learner.update import UpdateConfig, build_update
from ragen_jax.models.sharding import make_mesh
from ragen_jax.rollout.tokenizer import TINY_FOLDER, Tokenizer
from ragen_jax.sampling.sampler import Sampler, SamplerConfig
from ragen_jax.types import Params

TARGETS = {
    "trl_update_over_ours": Target(at_least=2.0),
    "trl_step_over_ours": Target(at_least=2.0),
    "trl_loss_gap": Target(at_most=1e-4),
    "trl_entropy_gap_nats": Target(at_most=1e-4),
    "trl_gradient_norm_relative_gap": Target(at_most=1e-3),
    "tunix_step_over_ours": Target(at_least=2.0),
    "tunix_sampler_over_ours_prompt_100": Target(at_least=3.0),
    "tunix_sampler_over_ours_prompt_300": Target(at_least=6.0),
}
PROMPT = 100
LEARNING_RATE = 1e-4
STD_EPS = 1e-4  # TRL's


def digit_prompts(
    length: int, tokenizer: Tokenizer, *, prompts: int = PROMPTS, seed: int = 0
) -> tuple[list[str], Prompts]:
    """Prompts of random digits, one token each, as text and as ids."""
    rng = np.random.default_rng(seed)
    texts = ["".join(map(str, rng.integers(0, 10, length))) for _ in range(prompts)]
    tokens = np.array([tokenizer.encode(text) for text in texts], np.int32)
    return texts, Prompts(tokens, np.ones_like(tokens, bool))


class OurStep:
    """Our rollout and update on a fixed batch of prompts, ``new_tokens`` for each response."""

    def __init__(self, params: Params, prompts: Prompts, *, new_tokens: int = NEW_TOKENS) -> None:
        """Make the state and the update."""
        self._prompts, self._shape = prompts, (len(prompts.tokens), GROUP, new_tokens)
        self._mesh = make_mesh(data=1)
        optimizer = adam(
            lr=LEARNING_RATE, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, grad_clip=1.0, warmup_updates=0
        )
        self._state = build_state(jax.tree.map(np.array, params), None, optimizer, None, mesh=self._mesh)
        settings = UpdateConfig(model=SMALL, critic=None, scoring=SCORE, algorithm=ALGORITHM, micro_groups=1)
        self._update = build_update(settings, optimizer, None, self._state, mesh=self._mesh)
        self._turn = 0

    def rollout(self) -> tuple[np.ndarray, np.ndarray]:
        """Tokens and log-probs, [P * G, N] each."""
        settings = SamplerConfig(vocab_size=SMALL.vocab_rows, stop_ids=(), max_new_tokens=self._shape[2])
        sampler = Sampler(self._state.params, SMALL, settings, self._mesh)
        session = sampler.begin(
            self._prompts.tokens,
            self._prompts.mask,
            group_size=GROUP,
            max_turns=1,
            max_context=self._shape[2],
            seed=(0, self._turn),
        )
        self._turn += 1
        out = session.respond(np.ones(self._shape[0] * GROUP, bool))
        return out.tokens, out.log_probs

    def update(self, tokens: np.ndarray, log_probs: np.ndarray) -> dict[str, float]:
        """One update on the rewards of these tokens; its metrics."""
        shape = self._shape
        rewards = (tokens % 2 == 0).mean(axis=1, dtype=np.float32).reshape(shape[:2])
        spread = np.asarray(group_std(rewards))[:, None] + STD_EPS
        advantages = (rewards - np.asarray(group_mean(rewards))[:, None]) / spread
        batch = full_batch(
            self._prompts, tokens.reshape(shape), old_log_probs=log_probs.reshape(shape), advantages=advantages
        )
        numbers = (np.int32(shape[0]), np.float32(tokens.size), np.float32(1), np.float32(1))
        self._state, metrics = self._update(self._state, batch, np.arange(shape[0], dtype=np.int32), *numbers)
        return {name: float(value) for name, value in jax.device_get(metrics).items()}

    def turn(self) -> dict[str, float]:
        """One step and its CPU seconds."""
        began = time.process_time()
        tokens, log_probs = self.rollout()
        sampled = time.process_time()
        self.update(tokens, log_probs)
        return {"rollout": sampled - began, "update": time.process_time() - sampled}


def compared_with_trl(params: Params, prompts: Prompts, first: Mapping[str, Any]) -> dict[str, float]:
    """Gaps to what TRL logged in its first step, on the completions of that step."""
    from ragen_jax.learner.score import score

    tokens = np.array(first["completions"], np.int32)
    old = score(params, SMALL, SCORE, prompts.tokens, prompts.mask, tokens.reshape(len(prompts.tokens), GROUP, -1), 1)
    ours = OurStep(params, prompts, new_tokens=tokens.shape[1]).update(tokens, np.asarray(old).reshape(tokens.shape))
    return {
        "trl_loss_gap": abs(ours["loss/task"] - first["loss"]),
        "trl_entropy_gap_nats": abs(ours["policy/entropy_token_nats"] - first["entropy"]),
        "trl_gradient_norm_relative_gap": abs(ours["gradient/actor_norm"] / first["gradient_norm"] - 1),
    }


@dataclasses.dataclass(frozen=True)
class Contest:
    """Turns of two sides, the first of each left out."""

    theirs: list[dict[str, Any]]
    ours: list[dict[str, float]]

    def ratio(self, *parts: str) -> float:
        """Median over the rounds of their seconds over ours, summed over parts of a step."""
        return statistics.median(
            sum(a[part] for part in parts) / sum(b[part] for part in parts)
            for a, b in zip(self.theirs[1:], self.ours[1:], strict=True)
        )

    def details(self) -> dict[str, Any]:
        """Median seconds of each part of a step, and the range of its ratios."""
        out: dict[str, Any] = {}
        for part in self.ours[0]:
            theirs, ours = ([turn[part] for turn in side[1:]] for side in (self.theirs, self.ours))
            ratios = [a / b for a, b in zip(theirs, ours, strict=True)]
            out[part] = {
                "theirs_s": float(f"{statistics.median(theirs):.3g}"),
                "ours_s": float(f"{statistics.median(ours):.3g}"),
                "spread": [float(f"{min(ratios):.3g}"), float(f"{max(ratios):.3g}")],
            }
        return out


def contest(rival: Rival, ours: Callable[[], dict[str, float]], *, rounds: int) -> Contest:
    """Turns, one after the other."""
    turns = [(rival.turn(), ours()) for _ in range(rounds + 1)]
    return Contest([turn[0] for turn in turns], [turn[1] for turn in turns])


def main(argv: Sequence[str]) -> bool:
    """Measure, print, and say whether the targets hold.

    Raises:
      ValueError: no rival is installed.
    """
    chosen = options(__doc__, argv)
    if not any(map(installed, WORKERS)):
        raise ValueError(f"no rival is installed in {rivals_folder()}: {INSTALL}")
    core = pin_to_one_core()
    rounds, number, new = (2, 2, 16) if chosen.quick else (5, PROMPTS, NEW_TOKENS)
    params = random_model()
    tokenizer = Tokenizer.from_folder(TINY_FOLDER)
    ratios: dict[str, float] = {}
    contests: dict[str, Any] = {}
    failures: dict[str, str] = {}
    with hugging_face_folder(SMALL, params) as folder:
        common = {"folder": str(folder), "group": GROUP, "new_tokens": new, "never": NEVER}
        common |= {"learning_rate": LEARNING_RATE, "steps": rounds + 2, "rope_theta": SMALL.rope_theta}
        measure = functools.partial(
            _measure, params=params, tokenizer=tokenizer, number=number, rounds=rounds, common=common
        )
        for name in ("trl", "tunix") if chosen.quick else ("trl", "tunix", "tunix_sampler_100", "tunix_sampler_300"):
            try:
                measured, contests[name] = measure(name, folder)
                ratios |= measured
            except RivalError as error:
                failures[name] = str(error)
    targets = {name: target for name, target in TARGETS.items() if not (chosen.quick and "sampler" in name)}
    for name in targets.keys() - ratios.keys():
        ratios[name] = float("nan")  # written as null: a rival that did not run holds no target
    details = {
        "shapes": f"{number} x 16 rows, {new} new tokens, 4 layers of width 256, V=1024, float32",
        "core": core,
        "rounds": rounds,
        "rivals": {name: installed(name) for name in WORKERS},
        "failures": failures,
        "seconds": contests,
    }
    return finish("step", ratios, targets, argv=argv, save=chosen.save, details=details)


def _measure(
    name: str, folder: Path, *, params: Params, tokenizer: Tokenizer, number: int, rounds: int, common: dict[str, Any]
) -> tuple[dict[str, float], dict[str, Any]]:
    """Ratios and details of one contest."""
    length = int(name.rpartition("_")[2]) if name.startswith("tunix_sampler") else PROMPT
    texts, prompts = digit_prompts(length, tokenizer, prompts=number)
    work = common | {"prompts": texts, "prompt_tokens": length, "rows": GROUP, "groups": 1}
    with contextlib.ExitStack() as stack:
        if name.startswith("tunix_sampler"):
            rival = stack.enter_context(Rival("tunix", work | {"mode": "sample"}))
            generate = our_generate(params, SMALL, prompts, group=GROUP)

            def ours() -> dict[str, float]:
                return {"rollout": take_turns({"ours": generate}, rounds=1, warm_up=0).median("ours")}

            found = contest(rival, ours, rounds=rounds)
            return {f"tunix_sampler_over_ours_prompt_{length}": found.ratio("rollout")}, found.details()
        rival = stack.enter_context(Rival(name, work | {"mode": "step"}))
        found = contest(rival, OurStep(params, prompts, new_tokens=common["new_tokens"]).turn, rounds=rounds)
    ratios = {
        f"{name}_step_over_ours": found.ratio("rollout", "update"),
        f"{name}_rollout_over_ours": found.ratio("rollout"),
        f"{name}_update_over_ours": found.ratio("update"),
    }
    if name == "trl":
        ratios |= compared_with_trl(params, prompts, found.theirs[0])
    return ratios, found.details()


if __name__ == "__main__":
    run_bench(main)
