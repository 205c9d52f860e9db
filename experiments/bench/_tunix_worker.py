"""Tunix's sampler and GRPO steps on demand; runs in Tunix's environment and imports nothing of ours.

    python _tunix_worker.py '{"folder": ..., "prompts": [...], "group": 16, "new_tokens": 64, "groups": 1, ...}'

With "mode": "sample" every line on stdin is one call of the sampler, with "mode": "step" one training step; then comes
a line "@@ {...}" with CPU seconds.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import optax
from transformers import AutoTokenizer
from tunix import (
    CacheConfig,
    ClusterConfig,
    GRPOConfig,
    GRPOLearner,
    RLCluster,
    RLTrainingConfig,
    Role,
    RolloutConfig,
    Sampler,
    TokenizerAdapter,
)
from tunix.models.qwen2 import model as qwen2
from tunix.models.qwen2.params import create_model_from_safe_tensors


def load(work: dict[str, Any], mesh: jax.sharding.Mesh) -> Any:
    """The policy, from the Hugging Face folder."""
    with open(os.path.join(work["folder"], "config.json"), encoding="utf-8") as file:
        fields = json.load(file)
    config = qwen2.ModelConfig(
        num_layers=fields["num_hidden_layers"],
        vocab_size=fields["vocab_size"],
        embed_dim=fields["hidden_size"],
        hidden_dim=fields["intermediate_size"],
        num_heads=fields["num_attention_heads"],
        head_dim=fields["hidden_size"] // fields["num_attention_heads"],
        num_kv_heads=fields["num_key_value_heads"],
        rope_theta=int(work["rope_theta"]),
        norm_eps=fields["rms_norm_eps"],
        use_tied_embedding=fields["tie_word_embeddings"],
    )
    return create_model_from_safe_tensors(work["folder"], config, mesh, dtype=np.float32)


def report(**numbers: Any) -> None:
    """One line for the parent."""
    sys.stdout.write(f"@@ {json.dumps(numbers)}\n")
    sys.stdout.flush()


def wait() -> None:
    """For the next line; the end of the input is the end of the work."""
    if not sys.stdin.readline():
        os._exit(0)


def sample(work: dict[str, Any], model: Any, tokenizer: Any) -> None:
    """One call of the sampler a line: every prompt ``group`` times, with the log-probs of the drawn tokens."""
    config = model.config
    length = work["prompt_tokens"]
    cache = CacheConfig(
        cache_size=length + work["new_tokens"],
        num_layers=config.num_layers,
        num_kv_heads=config.num_kv_heads,
        head_dim=config.head_dim,
    )
    sampler = Sampler(model, tokenizer, cache)
    strings = [prompt for prompt in work["prompts"] for _ in range(work["group"])]
    while True:
        wait()
        began = time.process_time()
        out = sampler(
            strings,
            max_generation_steps=work["new_tokens"],
            max_prompt_length=length,
            temperature=1.0,
            return_logprobs=True,
            eos_tokens=[work["never"]],
            seed=0,
        )
        jax.block_until_ready(out.tokens)
        report(rollout=time.process_time() - began)


def step(work: dict[str, Any], model: Any, tokenizer: Any, mesh: jax.sharding.Mesh) -> None:
    """One GRPO step a line: without KL, ``groups`` groups in a gradient call."""
    clock = {"began": 0.0, "sampled": 0.0}

    def reward(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
        clock["sampled"] = time.process_time()
        return [sum(character in "aeiou" for character in text) / max(len(text), 1) for text in completions]

    def batches() -> Iterator[dict[str, np.ndarray]]:
        for number in range(work["steps"] + 1):
            if number:  # back from a step
                jax.block_until_ready(jax.live_arrays())
                ended = time.process_time()
                report(rollout=clock["sampled"] - clock["began"], update=ended - clock["sampled"])
            wait()
            clock["began"] = time.process_time()
            yield {"prompts": np.array(work["prompts"])}

    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(work["learning_rate"], weight_decay=0.0))
    cluster = RLCluster(
        actor=model,
        tokenizer=tokenizer,
        cluster_config=ClusterConfig(
            role_to_mesh={Role.ACTOR: mesh, Role.REFERENCE: mesh, Role.ROLLOUT: mesh},
            training_config=RLTrainingConfig(
                eval_every_n_steps=1_000_000,
                max_steps=work["steps"] + 1,
                actor_optimizer=optimizer,
                mini_batch_size=len(work["prompts"]),
                train_micro_batch_size=work["groups"],
                rollout_micro_batch_size=len(work["prompts"]),
                compute_logps_micro_batch_size=len(work["prompts"]),
            ),
            rollout_config=RolloutConfig(
                max_tokens_to_generate=work["new_tokens"],
                temperature=1.0,
                max_prompt_length=work["prompt_tokens"],
                kv_cache_size=work["prompt_tokens"] + work["new_tokens"],
                eos_tokens=[work["never"]],
            ),
        ),
    )
    algorithm = GRPOConfig(num_generations=work["group"], num_iterations=1, beta=0.0, epsilon=0.2)
    GRPOLearner(cluster, algo_config=algorithm, reward_fns=reward).train(batches())


def main(work: dict[str, Any]) -> None:
    """Load the model and serve."""
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("fsdp", "tp"))
    model = load(work, mesh)
    tokenizer = TokenizerAdapter(AutoTokenizer.from_pretrained(work["folder"]))
    with mesh:
        if work["mode"] == "sample":
            sample(work, model, tokenizer)
        else:
            step(work, model, tokenizer, mesh)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
