"""TRL's GRPO steps on demand; runs in TRL's environment and imports nothing of ours.

    python _trl_worker.py '{"folder": ..., "prompts": [...], "group": 16, "new_tokens": 64, "rows": 16, ...}'

For every line on stdin one training step; then a line "@@ {...}" with CPU seconds of rollout and of the rest, the
step's loss, entropy and gradient norm as TRL logs them, and the completions of that step.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer


class Turnstile(TrainerCallback):
    """Waits for its turn before a step and reports after it."""

    def __init__(self) -> None:
        """Nothing has happened."""
        self.began = self.sampled = self.ended = 0.0
        self.completions: list[list[int]] = []

    def reward(self, completion_ids: list[list[int]], **_: Any) -> list[float]:
        """Share of even ids; called when a rollout is done."""
        self.sampled = time.process_time()
        self.completions = completion_ids
        return [sum(token % 2 == 0 for token in ids) / max(len(ids), 1) for ids in completion_ids]

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Wait for the next line."""
        if not sys.stdin.readline():
            os._exit(0)
        self.began = time.process_time()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Stop the clock."""
        self.ended = time.process_time()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float], **_: Any) -> None:
        """Report; TRL logs a step right after its end."""
        if "loss" not in logs:
            return
        report = {
            "rollout": self.sampled - self.began,
            "update": self.ended - self.sampled,
            "loss": logs["loss"],
            "entropy": logs["entropy"],
            "gradient_norm": logs["grad_norm"],
            "completions": self.completions,
        }
        sys.stdout.write(f"@@ {json.dumps(report)}\n")
        sys.stdout.flush()


def main(work: dict[str, Any]) -> None:
    """Train."""
    torch.set_num_threads(1)
    turnstile = Turnstile()
    rows = len(work["prompts"]) * work["group"]

    def reward(completion_ids: list[list[int]], **more: Any) -> list[float]:
        return turnstile.reward(completion_ids, **more)

    tokenizer = AutoTokenizer.from_pretrained(work["folder"])
    model = AutoModelForCausalLM.from_pretrained(work["folder"], dtype=torch.float32, attn_implementation="sdpa")
    with tempfile.TemporaryDirectory() as output:
        config = GRPOConfig(
            output_dir=output,
            use_cpu=True,
            bf16=False,
            per_device_train_batch_size=work["rows"],
            gradient_accumulation_steps=rows // work["rows"],
            num_generations=work["group"],
            max_completion_length=work["new_tokens"],
            generation_kwargs={"min_new_tokens": work["new_tokens"]},
            temperature=1.0,
            top_k=0,
            beta=0.0,
            learning_rate=work["learning_rate"],
            lr_scheduler_type="constant",
            max_grad_norm=1.0,
            max_steps=work["steps"],
            gradient_checkpointing=False,
            shuffle_dataset=False,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            seed=0,
        )
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=reward,
            args=config,
            train_dataset=Dataset.from_dict({"prompt": work["prompts"] * work["steps"]}),
            processing_class=tokenizer,
            callbacks=[turnstile],
        )
        trainer.train()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
