"""Networks whose weights come from a Hugging Face folder: ``model.init=<folder>``."""

from __future__ import annotations

from configs._change import change
from ragen_jax.config.schema import Config


def hf(config: Config) -> Config:
    """Shapes, tokenizer and weights of the folder in ``model.init``; a critic begins as a copy of the policy."""
    return change(config, model={"preset": "folder", "critic_preset": "policy", "warm_start": ""})


def _sized(config: Config, preset: str) -> Config:
    """A published size, in bfloat16 with a float32 master copy; ``model.init`` names the folder with its weights."""
    return change(
        config,
        model={
            "preset": preset,
            "critic_preset": "policy",
            "warm_start": "",
            "compute_dtype": "bfloat16",
            "param_dtype": "bfloat16",
        },
    )


def qwen25_05b(config: Config) -> Config:
    """Qwen2.5 0.5B."""
    return _sized(config, "qwen2.5-0.5b")


def qwen25_15b(config: Config) -> Config:
    """Qwen2.5 1.5B."""
    return _sized(config, "qwen2.5-1.5b")


def qwen25_3b(config: Config) -> Config:
    """Qwen2.5 3B, the paper's main size."""
    return _sized(config, "qwen2.5-3b")


def qwen25_7b(config: Config) -> Config:
    """Qwen2.5 7B."""
    return _sized(config, "qwen2.5-7b")


def qwen25_14b(config: Config) -> Config:
    """Qwen2.5 14B."""
    return _sized(config, "qwen2.5-14b")


def llama32_1b(config: Config) -> Config:
    """Llama 3.2 1B."""
    return _sized(config, "llama-3.2-1b")


def llama32_3b(config: Config) -> Config:
    """Llama 3.2 3B."""
    return _sized(config, "llama-3.2-3b")
