"""A tiny configuration that trains in seconds, and the policy that it begins with."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from configs._change import change
from ragen_jax.config import Config, compose
from ragen_jax.models.config import model_config
from ragen_jax.rollout.episodes import Rollout
from ragen_jax.rollout.prompting import ChatFormat
from ragen_jax.rollout.tokenizer import Tokenizer
from ragen_jax.training.policy_files import save_policy
from ragen_jax.training.warm_start import Recipe, fit, make_traces

NETWORK = "tiny-critic"  # the smallest preset, here for the policy too
RECIPE = Recipe(steps=70, batch=32, traces=256, skill=0.5, lr=6e-3)


def train_bandit_policy(folder: Path) -> Path:
    """Imitate the bandit's demonstrations for a few dozen steps."""
    chat = ChatFormat(Tokenizer.tiny())
    options = dict(compose("bandit_tiny").env.options)
    traces = make_traces("bandit", options, chat, RECIPE, seed=0, show_rewards=False)
    vocab_size, pad_id = chat.tokenizer.vocab_size, chat.tokenizer.pad_id
    params = fit(traces, model_config(NETWORK), RECIPE, vocab_size=vocab_size, pad_id=pad_id, seed=0)
    save_policy(folder, params, {"recipe": dataclasses.asdict(RECIPE)})
    return folder


def tiny_config(policy: Path | None, *presets: str, **changes: Any) -> Config:
    """Four bandit prompts by four rollouts of at most 32 tokens, one device; random parameters without a policy."""
    config = compose("paper", "bandit_tiny", *(presets or ("grpo",)), "cpu_debug")
    config = change(
        config,
        model={"preset": NETWORK, "critic_preset": NETWORK, "init": "random" if policy is None else str(policy)},
        rollout={"max_new_tokens": 32, "max_context": 32, "length_bucket": 32, "prompt_bucket": 32},
        validation={"prompts": 4, "samples": 4, "collapse_samples": 2},
        optim={"lr": 1e-3},
    )
    return change(config, **changes)


def with_rewards(rollout: Rollout, rewards: list[list[float]]) -> Rollout:
    """The same episodes with other rewards [P, G], on the last response token of each row, without penalties."""
    batch = rollout.batch
    returns = np.asarray(rewards, np.float32).reshape(-1)
    mask = np.asarray(batch.response_mask)
    last = mask.shape[1] - 1 - mask[:, ::-1].argmax(axis=1)
    token_rewards = np.zeros(mask.shape, np.float32)
    token_rewards[np.arange(len(last)), last] = returns
    changed = dataclasses.replace(batch, returns=returns, token_rewards=token_rewards, penalties=np.zeros_like(returns))
    return dataclasses.replace(rollout, batch=changed)
