"""The tiny network."""

from __future__ import annotations

from configs._change import change
from ragen_jax.config.schema import Config


def tiny(config: Config) -> Config:
    """0.3 M parameters: two layers of width 128, and a critic half as wide."""
    return change(config, model={"preset": "tiny", "critic_preset": "tiny-critic", "compute_dtype": "float32"})
