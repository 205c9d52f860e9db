"""The sampler against transformers' ``generate`` with the same weights, and against our own without its two savings.

    python -m experiments.bench.sampler [--quick] [--save]

8 prompts x 16 samples, 64 forced tokens, float32, one core, one thread on each side, in turns. Our side records the
log-prob of every token; transformers does not. The extra `parity` (torch) must be installed.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.bench._report import Target, finish, options, run_bench
from experiments.bench._workload import (
    GROUP,
    NEW_TOKENS,
    PROMPTS,
    SMALL,
    Prompts,
    Timing,
    hugging_face_folder,
    pin_to_one_core,
    random_model,
    random_prompts,
    take_turns,
    torch_model,
)
from ragen_jax.models.config import ModelConfig, model_config
from ragen_jax.models.sharding import make_mesh
from ragen_jax.models.transformer import prompt_pass
from ragen_jax.sampling.sampler import Sampler, SamplerConfig, extend, prefill
from ragen_jax.types import Params

TARGETS = {
    "transformers_over_ours_prompt_100": Target(at_least=3.0),
    "transformers_over_ours_prompt_300": Target(at_least=5.0),
    "tiled_over_shared_prompt_300": Target(at_least=3.0),
    "top_p_over_plain_prompt_100": Target(at_most=1.15),
    "prefill_over_extend_220_30": Target(at_least=6.0),
    "prefill_over_extend_470_30": Target(at_least=10.0),
    "greedy_equal_share": Target(at_least=1.0),
    "greedy_equal_share_ragged": Target(at_least=1.0),
}
LARGE_TARGET = {"transformers_over_ours_0.5b": Target(at_least=1.3)}


def our_generate(
    params: Params, config: ModelConfig, prompts: Prompts, *, group: int, new: int = NEW_TOKENS, **settings: Any
) -> Callable[[], np.ndarray]:
    """A call that samples ``group`` rows of every prompt, [P * group, new]."""
    settings = {"vocab_size": config.vocab_rows, "stop_ids": (), "max_new_tokens": new} | settings
    sampler = Sampler(params, config, SamplerConfig(**settings), make_mesh(data=1))

    def call() -> np.ndarray:
        session = sampler.begin(
            prompts.tokens, prompts.mask, group_size=group, max_turns=1, max_context=new, seed=(0, 0)
        )
        return session.respond(np.ones(len(prompts.tokens) * group, bool)).tokens

    return call


def their_generate(
    model: Any, prompts: Prompts, *, group: int, new: int = NEW_TOKENS, sample: bool
) -> Callable[[], np.ndarray]:
    """The same from transformers."""
    import torch

    rows = prompts.tiled(group)
    tokens, mask = torch.tensor(rows.tokens, dtype=torch.long), torch.tensor(rows.mask, dtype=torch.long)
    drawn = {"do_sample": True, "top_k": 0, "top_p": 1.0, "temperature": 1.0} if sample else {"do_sample": False}

    def call() -> np.ndarray:
        with torch.inference_mode():
            out = model.generate(
                input_ids=tokens,
                attention_mask=mask,
                min_new_tokens=new,
                max_new_tokens=new,
                eos_token_id=None,
                **drawn,
            )
        return out[:, tokens.shape[1] :].numpy()

    return call


def greedy_share(params: Params, model: Any, prompts: Prompts, *, new: int) -> float:
    """Share of greedy tokens that are equal on both sides."""
    ours = our_generate(params, SMALL, prompts, group=4, new=new, temperature=0.0)()
    return float((ours == their_generate(model, prompts, group=4, new=new, sample=False)()).mean())


def reuse(params: Params, *, context: int, added: int = 30, rounds: int) -> Timing:
    """The next observation of 32 rows: the whole context once more, or the cache extended.

    The context is a first prompt of 100 tokens that 16 rows share, and what each of them added since.
    """
    rng = np.random.default_rng(0)
    first, rows = 100, 32
    prompts = random_prompts(first, prompts=2)
    history = rng.integers(3, 1000, (rows, context - first)).astype(np.int32)
    observation = rng.integers(3, 1000, (rows, added)).astype(np.int32)
    whole = np.concatenate([prompts.tiled(GROUP).tokens, history, observation], axis=1)
    run = jax.jit(prompt_pass, static_argnums=(1,), static_argnames=("dtype",))
    cached, empty = prefill(params, SMALL, prompts.tokens, prompts.mask, "float32", GROUP, context - first + added)
    before = extend(params, SMALL, cached, empty, history, np.ones_like(history, bool))
    copies = iter([jax.tree.map(jnp.copy, before) for _ in range(rounds + 1)])  # `extend` consumes its cache

    def extended() -> Any:
        return extend(params, SMALL, cached, next(copies), observation, np.ones_like(observation, bool)).last_hidden

    def again() -> Any:
        return run(params, SMALL, whole, np.ones_like(whole, bool), dtype="float32").last_hidden

    np.testing.assert_allclose(np.asarray(extended()), np.asarray(again()), atol=1e-4)
    return take_turns({"prefill": again, "extend": extended}, rounds=rounds, warm_up=0)  # both have run above


def main(argv: Sequence[str]) -> bool:
    """Measure, print, and say whether the targets hold."""
    chosen = options(__doc__, argv)
    core = pin_to_one_core()
    rounds, number, new = (2, 2, 16) if chosen.quick else (5, PROMPTS, NEW_TOKENS)
    params = random_model()
    ratios, spreads, seconds = {}, {}, {}

    def note(name: str, timing: Timing, slow: str, fast: str) -> None:
        ratios[name], spreads[name] = timing.ratio(slow, fast), timing.spread(slow, fast)

    with hugging_face_folder(SMALL, params) as folder:
        model = torch_model(folder)
    for name, ragged in (("greedy_equal_share", False), ("greedy_equal_share_ragged", True)):
        prompts = random_prompts(100, ragged=ragged, prompts=number, seed=int(ragged))
        ratios[name] = greedy_share(params, model, prompts, new=new)
    for length in (100, 300):
        prompts = random_prompts(length, prompts=number)
        ways = {
            "transformers": their_generate(model, prompts, group=GROUP, new=new, sample=True),
            "ours": our_generate(params, SMALL, prompts, group=GROUP, new=new),
        }
        if length == 100 or not chosen.quick:
            ways["ours_top_p"] = our_generate(params, SMALL, prompts, group=GROUP, new=new, top_p=0.9)
        if length == 300 or not chosen.quick:
            ways["ours_tiled"] = our_generate(params, SMALL, prompts.tiled(GROUP), group=1, new=new)
        timing = take_turns(ways, rounds=rounds)
        seconds[f"prompt_{length}"] = timing.details()
        note(f"transformers_over_ours_prompt_{length}", timing, "transformers", "ours")
        for name, way in (("tiled_over_shared", "ours_tiled"), ("top_p_over_plain", "ours_top_p")):
            if way in ways:
                note(f"{name}_prompt_{length}", timing, way, "ours")
    for context in (220, 470):
        timing = reuse(params, context=context, rounds=rounds)
        seconds[f"context_{context}"] = timing.details()
        note(f"prefill_over_extend_{context}_30", timing, "prefill", "extend")
    targets = dict(TARGETS)
    del model
    if not chosen.quick:
        timing = large()
        seconds["0.5b"] = timing.details()
        note("transformers_over_ours_0.5b", timing, "transformers", "ours")
        targets |= LARGE_TARGET
    details = {
        "shapes": f"{number} x 16 rows, {new} new tokens, 4 layers of width 256, V=1024, float32; "
        "0.5b: 8 rows, prompt 64, 8 new",
        "core": core,
        "rounds": rounds,
        "spread": spreads,
        "seconds": seconds,
        "torch": importlib.metadata.version("torch"),
        "transformers": importlib.metadata.version("transformers"),
    }
    return finish("sampler", ratios, targets, argv=argv, save=chosen.save, details=details)


def large() -> Timing:
    """Both sides at the shapes of Qwen2.5-0.5B, random weights: 8 different prompts of 64 tokens, 8 new ones."""
    config = dataclasses.replace(model_config("qwen2.5-0.5b"), max_context=0)
    params = random_model(config)
    with hugging_face_folder(config, params) as folder:
        model = torch_model(folder)
    prompts = random_prompts(64)
    ours = our_generate(params, config, prompts, group=1, new=8)
    return take_turns(
        {"transformers": their_generate(model, prompts, group=1, new=8, sample=True), "ours": ours}, rounds=5
    )


if __name__ == "__main__":
    run_bench(main)
