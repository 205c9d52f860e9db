"""Speed at the shapes of real models, on an accelerator: random weights in bfloat16, one device.

    sh experiments/bench/device.sh
    python -m experiments.bench.device --model qwen2.5-3b [--out FILE]
    python -m experiments.bench.device --tiny            # the same code with a tiny model, on a CPU too

Decoding (tokens per second and share of the memory-bandwidth limit), the update (share of the peak arithmetic),
cross-scoring (against every pair as one sequence), and transformers' `generate` where torch sees the device. The file
gathers the models; a second run of a model replaces its numbers. Limits of unknown devices are null.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments._main import run_main
from experiments.bench._report import median_seconds, versions
from experiments.bench._workload import VOCAB, full_batch, random_prompts
from experiments.bench.cross_score import full_forward, ragged_pairs, some_sequences
from ragen_jax.config.schema import AlgorithmSection
from ragen_jax.learner.cross_score import cross_score
from ragen_jax.learner.optimizer import adam, with_master
from ragen_jax.learner.score import ScoreConfig
from ragen_jax.learner.state import build_state
from ragen_jax.learner.update import UpdateConfig, build_update
from ragen_jax.models.config import ModelConfig, model_config
from ragen_jax.models.convert import save_model
from ragen_jax.models.sharding import make_mesh
from ragen_jax.models.transformer import init_params
from ragen_jax.rollout.tokenizer import TINY_FOLDER
from ragen_jax.sampling.sampler import Sampler, SamplerConfig
from ragen_jax.types import Params

# Of one device: bytes of memory per second, and bfloat16 operations per second without sparsity (vendors' data sheets).
LIMITS = {"NVIDIA H200": (4.8e12, 989e12), "NVIDIA H100": (3.35e12, 989e12), "NVIDIA A100": (2.0e12, 312e12)}
GOALS = {"decode_bandwidth_share": 0.5, "update_mfu": 0.4}
GROUP = 16


@dataclasses.dataclass(frozen=True)
class Shapes:
    """Sizes of the work: ``prompts`` x 16 rows, tokens of a prompt, sampled tokens, rounds that are timed."""

    prompts: int
    prompt: int
    new: int
    rounds: int


FULL, TINY = Shapes(prompts=8, prompt=300, new=256, rounds=3), Shapes(prompts=2, prompt=16, new=8, rounds=1)


def limits() -> tuple[float, float] | None:
    """Bandwidth and arithmetic of the device, where they are known."""
    kind = jax.devices()[0].device_kind
    return next((limit for name, limit in LIMITS.items() if kind.startswith(name)), None)


def decoding(params: Params, config: ModelConfig, shapes: Shapes) -> dict[str, float | None]:
    """Tokens per second of a whole turn of all rows, and how much of the memory bandwidth its decoding steps use."""
    prompts = random_prompts(shapes.prompt, prompts=shapes.prompts)
    rows = shapes.prompts * GROUP
    taken = {}
    for new in (shapes.new // 2, shapes.new):  # their difference is decoding alone
        settings = SamplerConfig(vocab_size=config.vocab_rows, stop_ids=(), max_new_tokens=new, dtype="bfloat16")
        sampler = Sampler(params, config, settings, make_mesh(data=1))

        def turn(sampler: Sampler = sampler, new: int = new) -> np.ndarray:
            session = sampler.begin(
                prompts.tokens, prompts.mask, group_size=GROUP, max_turns=1, max_context=new, seed=(0, 0)
            )
            return session.respond(np.ones(rows, bool)).tokens

        taken[new] = median_seconds(turn, repeats=shapes.rounds)
    step = (taken[shapes.new] - taken[shapes.new // 2]) / (shapes.new - shapes.new // 2)
    cached = 2 * config.layers * config.kv_heads * config.head_dim * 2  # bytes of a token's keys and values
    # What a step must read: all weights once, each prompt's keys and values once, those of the rows (at three quarters
    # of their length on the average of the steps that are counted).
    moved = 2 * config.parameter_count() + cached * (shapes.prompts * shapes.prompt + rows * shapes.new * 3 // 4)
    known = limits()
    return {
        "decode_tokens_per_second": rows / step,
        "turn_tokens_per_second": rows * shapes.new / taken[shapes.new],
        "decode_bandwidth_share": moved / step / known[0] if known else None,
    }


def updating(params: Params, config: ModelConfig, shapes: Shapes) -> dict[str, float | None]:
    """Seconds of an update of all rows, and its share of the peak arithmetic; recomputation is not counted as work."""
    shape = (shapes.prompts, GROUP, shapes.new)
    prompts = random_prompts(shapes.prompt, prompts=shapes.prompts)
    rng = np.random.default_rng(0)
    tokens = rng.integers(3, 1000, shape).astype(np.int32)
    uniform = np.full(shape, -np.log(config.vocab_rows), np.float32)
    batch = full_batch(prompts, tokens, old_log_probs=uniform, advantages=rng.normal(size=shape[:2]))
    # With the float32 copy that training keeps of bfloat16 parameters.
    optimizer = with_master(
        adam(lr=1e-6, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, grad_clip=1.0, warmup_updates=0)
    )
    settings = UpdateConfig(
        model=config,
        critic=None,
        scoring=ScoreConfig(vocab_size=config.vocab_rows, dtype="bfloat16"),
        algorithm=AlgorithmSection(entropy_coef=0.0),
        micro_groups=1,
    )
    mesh = make_mesh(data=1)
    state = build_state(params, None, optimizer, None, mesh=mesh)
    update = build_update(settings, optimizer, None, state, mesh=mesh)
    numbers = (np.int32(shapes.prompts), np.float32(np.prod(shape)), np.float32(1), np.float32(1))
    held = [state]

    def once() -> jax.Array:
        held[0], metrics = update(held[0], batch, np.arange(shapes.prompts, dtype=np.int32), *numbers)
        return metrics["update/finite"]

    taken = median_seconds(once, repeats=shapes.rounds)
    count = shapes.prompts * (shapes.prompt + GROUP * shapes.new)
    pairs = shapes.prompts * (shapes.prompt**2 / 2 + GROUP * shapes.new * (shapes.prompt + shapes.new / 2))
    attention = 4 * config.heads * config.head_dim * config.layers * pairs
    work = 3 * (2 * config.parameter_count() * count + attention)
    known = limits()
    return {"update_seconds": taken, "update_mfu": work / taken / known[1] if known else None}


def scoring(params: Params, config: ModelConfig, shapes: Shapes) -> dict[str, float | None]:
    """Seconds of the matrix of 8 prompts and 128 reasonings, and how much faster than pairs as whole sequences."""
    prompt, reasoning, part = shapes.prompt, max(shapes.new // 2, 2), 64
    pairs = ragged_pairs(prompt, reasoning)
    settings = ScoreConfig(vocab_size=config.vocab_rows, dtype="bfloat16")
    mesh = make_mesh(data=1)
    scores = functools.partial(cross_score, params, config, settings, pairs, mesh=mesh)
    ours = median_seconds(lambda: scores().log_probs, repeats=shapes.rounds)
    rows = some_sequences(pairs, part)
    whole = functools.partial(
        full_forward, params, config, rows.tokens, rows.starts, rows.lengths, 16, dtype="bfloat16"
    )
    share = part / (pairs.reasoning_mask[..., 0].size * len(pairs.prompt_tokens))  # of all pairs
    naive = median_seconds(whole, repeats=shapes.rounds) / share
    return {"cross_score_seconds": ours, "full_forward_over_ours": naive / ours}


def transformers(params: Params, config: ModelConfig, shapes: Shapes, ours: float) -> dict[str, Any]:
    """Tokens per second of ``generate`` on the same device, or why it was not measured."""
    try:
        import torch
    except ImportError:
        return {"transformers": "torch is not installed"}
    if jax.default_backend() == "gpu" and not torch.cuda.is_available():
        return {"transformers": "torch sees no such device"}
    from transformers import AutoModelForCausalLM

    device = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory() as base:
        folder = save_model(
            Path(base) / "model",
            config,
            params,
            tokenizer_folder=TINY_FOLDER,
            eos_token_id=config.vocab_rows - 1,
            pad_token_id=0,
            dtype="bfloat16",
        )
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, local_files_only=True)
    model = model.to(device).eval()
    rows = random_prompts(shapes.prompt, prompts=shapes.prompts).tiled(GROUP)
    tokens = torch.tensor(rows.tokens, dtype=torch.long, device=device)

    def turn() -> np.ndarray:
        with torch.inference_mode():
            out = model.generate(
                input_ids=tokens,
                attention_mask=torch.ones_like(tokens),
                do_sample=True,
                top_k=0,
                min_new_tokens=shapes.new,
                max_new_tokens=shapes.new,
                eos_token_id=None,
                pad_token_id=0,
            )
        return out.cpu().numpy()

    rate = len(tokens) * shapes.new / median_seconds(turn, repeats=shapes.rounds)
    return {"transformers_tokens_per_second": rate, "ours_over_transformers": ours / rate}


def measure(name: str, shapes: Shapes) -> dict[str, Any]:
    """All numbers of one model; the update comes last, since it takes the parameters."""
    config = model_config(name)
    config = dataclasses.replace(config, vocab_rows=max(config.vocab_rows, VOCAB))  # ids of the work's prompts
    params = jax.jit(lambda key: jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), init_params(config, key)))(
        jax.random.key(0)
    )
    numbers: dict[str, Any] = dict(decoding(params, config, shapes))
    numbers |= scoring(params, config, shapes)
    numbers |= transformers(params, config, shapes, float(numbers["turn_tokens_per_second"]))
    numbers |= updating(params, config, shapes)
    return numbers


def main(argv: Sequence[str]) -> None:
    """Measure one model and add it to the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="qwen2.5-0.5b", help="a model preset")
    parser.add_argument("--tiny", action="store_true", help="the tiny model and short runs")
    parser.add_argument("--out", type=Path, help="file that gathers the models")
    chosen = parser.parse_args(argv)
    name = "tiny" if chosen.tiny else chosen.model
    shapes = TINY if chosen.tiny else FULL
    numbers = measure(name, shapes)
    record: dict[str, Any] = {"bench": "device", "models": {}, "goals": GOALS}
    if chosen.out is not None and chosen.out.exists():
        record |= json.loads(chosen.out.read_text(encoding="utf-8"))
    record["models"][name] = {"shapes": dataclasses.asdict(shapes)} | {
        key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in numbers.items()
    }
    record["versions"] = versions()
    if chosen.out is not None:
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        chosen.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    run_main(main)
