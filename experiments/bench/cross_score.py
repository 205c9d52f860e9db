"""Cross-scoring against the full-forward algorithm on torch and on jax, its memory, and the tokens it runs.

    python -m experiments.bench.cross_score [--quick] [--save]

The matrix of 8 prompts and 128 reasonings (1,024 pairs) with ragged lengths, float32, one core, one thread on each
side. The full-forward sides run a prompt and a reasoning as one sequence: torch (transformers, fused attention, 16
pairs at once, head on the reasoning's positions only, right padded so that it needs no mask) and jax (64 pairs at
once, logits everywhere). They are timed on a random part of the pairs and scaled. The extra `parity` (torch) must be
installed.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.bench._report import Target, finish, options, run_bench
from experiments.bench._workload import (
    GROUP,
    PROMPTS,
    SMALL,
    VOCAB,
    hugging_face_folder,
    pin_to_one_core,
    random_model,
    random_prompts,
    take_turns,
    torch_model,
)
from ragen_jax.core.log_probs import log_probs_and_entropy
from ragen_jax.learner.cross_score import _score_items, cross_score, plan_work
from ragen_jax.learner.score import ScoreConfig
from ragen_jax.models.config import ModelConfig, model_config
from ragen_jax.models.head import logits
from ragen_jax.models.sharding import make_mesh
from ragen_jax.models.transformer import continuation_pass, init_params, prompt_pass
from ragen_jax.types import Params, ReasoningPairs

SIZES = {(200, 50): 7.0, (300, 128): 4.5, (400, 50): 12.0}  # prompt and longest reasoning; least ratio to torch
SCORE = ScoreConfig(vocab_size=VOCAB)
TORCH_ROWS, JAX_ROWS = 16, 64  # pairs at once
CHUNK = 64  # reasonings alive at once on our side


TARGETS = {
    **{f"torch_over_ours_{a}_{b}": Target(at_least=ratio) for (a, b), ratio in SIZES.items()},
    **{f"error_per_token_nats_{a}_{b}": Target(at_most=1e-5) for a, b in SIZES},
    "memory_gb_0.5b": Target(at_most=1.8),
}


def ragged_pairs(prompt: int, reasoning: int, *, seed: int = 0) -> ReasoningPairs:
    """Prompts of 80 to 100 % of the longest; reasonings whose lengths are gamma distributed, mean about half."""
    rng = np.random.default_rng(seed)
    prompts = random_prompts(prompt, ragged=True, seed=seed)
    lengths = np.clip(rng.gamma(4.0, reasoning / 8, (PROMPTS, GROUP)), 1, reasoning).astype(int)
    lengths[0, 0] = reasoning
    mask = np.arange(reasoning) < lengths[..., None]
    tokens = rng.integers(3, VOCAB - 1, mask.shape)
    return ReasoningPairs(
        prompt_tokens=prompts.tokens,
        prompt_mask=prompts.mask,
        reasoning_tokens=np.where(mask, tokens, 0).astype(np.int32),
        reasoning_mask=mask,
        column_class=np.arange(PROMPTS, dtype=np.int32),
    )


@dataclasses.dataclass(frozen=True)
class Sequences:
    """Some pairs as whole sequences, right padded to the longest possible.

    Attributes:
      tokens: [N, Lx + Lz] int32.
      starts: [N] int32, where the reasoning begins.
      lengths: [N] int32, of the reasoning.
      pairs: [N, 3], i, k and j of each.
    """

    tokens: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    pairs: np.ndarray


def some_sequences(pairs: ReasoningPairs, number: int, *, seed: int = 0) -> Sequences:
    """Random pairs, shortest first, so that a micro-batch wastes little on padding."""
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(PROMPTS * GROUP * PROMPTS)[:number]
    index = np.stack(np.unravel_index(chosen, (PROMPTS, GROUP, PROMPTS)), axis=1)
    starts = pairs.prompt_mask.sum(1)[index[:, 2]]
    lengths = pairs.reasoning_mask.sum(2)[index[:, 0], index[:, 1]]
    order = np.argsort(starts + lengths, kind="stable")
    index, starts, lengths = index[order], starts[order], lengths[order]
    tokens = np.zeros((number, pairs.prompt_tokens.shape[1] + pairs.reasoning_tokens.shape[2]), np.int32)
    for row, (i, k, j) in enumerate(index):
        context = pairs.prompt_tokens[j][pairs.prompt_mask[j]]
        reasoning = pairs.reasoning_tokens[i, k][: lengths[row]]
        tokens[row, : starts[row] + lengths[row]] = np.concatenate([context, reasoning])
    return Sequences(tokens, starts.astype(np.int32), lengths.astype(np.int32), index)


def torch_scores(model: Any, sequences: Sequences, width: int) -> Callable[[], np.ndarray]:
    """Log-probs [N] of the sequences' reasonings, each micro-batch cut to its longest sequence."""
    import torch

    ends = sequences.starts + sequences.lengths
    pieces = []
    for first in range(0, len(ends), TORCH_ROWS):
        part = slice(first, first + TORCH_ROWS)
        states = sequences.starts[part, None] - 1 + np.arange(sequences.lengths[part].max())
        real = np.arange(states.shape[1]) < sequences.lengths[part, None]
        tokens = torch.tensor(sequences.tokens[part, : ends[part].max()], dtype=torch.long)
        states = torch.tensor(np.where(real, states, 0), dtype=torch.long)
        pieces.append((tokens, states, torch.tensor(real)))

    def call() -> np.ndarray:
        out = []
        with torch.inference_mode():
            for tokens, states, real in pieces:
                hidden = model.model(input_ids=tokens, use_cache=False).last_hidden_state
                rows = torch.arange(len(tokens))[:, None]
                scores = torch.log_softmax(model.lm_head(hidden[rows, states]).float(), dim=-1)
                chosen = scores.gather(-1, tokens[rows, states + 1][..., None])[..., 0]
                out.append((chosen * real).sum(1))
        return torch.cat(out).numpy()

    return call


@functools.partial(jax.jit, static_argnums=(1, 5), static_argnames=("dtype",))
def full_forward(
    params: Params,
    config: ModelConfig,
    tokens: jax.Array,
    starts: jax.Array,
    lengths: jax.Array,
    rows: int,
    *,
    dtype: str = "float32",
) -> jax.Array:
    """Log-probs [N], every pair run as one sequence with logits at every position, ``rows`` pairs at once."""

    def piece(args: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        tokens, starts, lengths = args
        hidden = _hidden(params, config, tokens, dtype)
        scores = logits(params, config, hidden[:, :-1], vocab_size=config.vocab_rows)
        log_probs, _ = log_probs_and_entropy(scores, tokens[:, 1:], temperature=1.0)
        place = jnp.arange(1, tokens.shape[1]) - starts[:, None]
        return jnp.where((place >= 0) & (place < lengths[:, None]), log_probs, 0.0).sum(1)

    parts = (tokens.reshape(-1, rows, tokens.shape[1]), starts.reshape(-1, rows), lengths.reshape(-1, rows))
    return jax.lax.map(piece, parts).reshape(-1)


def _hidden(params: Params, config: ModelConfig, tokens: jax.Array, dtype: str) -> jax.Array:
    """Final hidden states of whole sequences: continuations of a prompt of their first token."""
    first = prompt_pass(params, config, tokens[:, :1], jnp.ones_like(tokens[:, :1], bool), dtype=dtype)
    rest = continuation_pass(params, config, first, tokens[:, None, 1:])[:, 0]
    return jnp.concatenate([first.last_hidden[:, None], rest], axis=1)


def token_counts(pairs: ReasoningPairs) -> dict[str, float]:
    """Tokens that the packed form runs, the fewest that an exact form can, and those of whole padded pairs."""
    prompts, (_, group, width) = pairs.prompt_tokens.shape, pairs.reasoning_tokens.shape
    work = plan_work(pairs, chunk=CHUNK)
    beginning, contexts, _, packed, _, item_rows, items = work.arrays
    run = -(-int(items) // work.at_once) * work.at_once
    ours = beginning.size + contexts.size + run * item_rows.shape[1] * packed[0].shape[1]
    fewest = pairs.prompt_mask.sum() + prompts[0] * pairs.reasoning_mask.sum()
    padded = prompts[0] * group * prompts[0] * (prompts[1] + width)
    return {"tokens_over_minimum": float(ours / fewest), "padded_tokens_over_minimum": float(padded / fewest)}


def temporary_bytes(config: ModelConfig, *, prompt: int = 300, reasoning: int = 128) -> int:
    """Temporary memory of the program for 8 x 16 reasonings, by the compiler's own figure; nothing is run."""
    params = jax.eval_shape(lambda: init_params(config, jax.random.key(0)))
    work = plan_work(ragged_pairs(prompt, reasoning), chunk=CHUNK)
    scoring = ScoreConfig(vocab_size=config.vocab_rows)
    static = (work.at_once, work.contexts_at_once)
    lowered = _score_items.lower(params, config, scoring, *work.arrays, *static, mesh=make_mesh(data=1))
    compiled = lowered.compile()
    return int(compiled.memory_analysis().temp_size_in_bytes)


def main(argv: Sequence[str]) -> bool:
    """Measure, print, and say whether the targets hold."""
    chosen = options(__doc__, argv)
    core = pin_to_one_core()
    rounds = 1 if chosen.quick else 5
    part = 64 if chosen.quick else 128  # pairs that the full-forward sides are timed on
    params, mesh = random_model(), make_mesh(data=1)
    with hugging_face_folder(SMALL, params) as folder:
        model = torch_model(folder)
    ratios, spreads, seconds = {}, {}, {}
    scale = PROMPTS * GROUP * PROMPTS / part
    for prompt, reasoning in SIZES:
        name = f"{prompt}_{reasoning}"
        pairs = ragged_pairs(prompt, reasoning)
        sequences = some_sequences(pairs, part)
        ours = functools.partial(cross_score, params, SMALL, SCORE, pairs, mesh=mesh, chunk=CHUNK)
        theirs = torch_scores(model, sequences, reasoning)
        naive = functools.partial(
            full_forward, params, SMALL, sequences.tokens, sequences.starts, sequences.lengths, JAX_ROWS
        )
        expected = ours().log_probs[tuple(sequences.pairs.T)]
        for side in (theirs(), np.asarray(naive())):
            gap = float((np.abs(side - expected) / sequences.lengths).max())
            ratios[f"error_per_token_nats_{name}"] = max(gap, ratios.get(f"error_per_token_nats_{name}", 0.0))
        ways = {"ours": lambda ours=ours: ours().log_probs, "torch": theirs, "jax": naive}
        timing = take_turns(ways, rounds=rounds, warm_up=0)  # each has been called
        for side in ("torch", "jax"):
            ratios[f"{side}_over_ours_{name}"] = scale * timing.ratio(side, "ours")
            spreads[f"{side}_over_ours_{name}"] = [scale * ratio for ratio in timing.spread(side, "ours")]
        ratios |= {f"{key}_{name}": value for key, value in token_counts(pairs).items()}
        seconds[name] = timing.details()
    ratios["memory_gb_0.5b"] = temporary_bytes(model_config("qwen2.5-0.5b")) / 1e9
    details = {
        "shapes": "8 x 16 reasonings, 8 prompts, 4 layers of width 256, V=1024, float32",
        "part": f"torch and jax were timed on {part} of 1,024 pairs, their seconds are of that part",
        "core": core,
        "rounds": rounds,
        "spread": spreads,
        "seconds": seconds,
    }
    return finish("cross_score", ratios, TARGETS, argv=argv, save=chosen.save, details=details)


if __name__ == "__main__":
    run_bench(main)
