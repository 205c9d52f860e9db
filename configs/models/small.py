"""The small network."""

from __future__ import annotations

from configs._change import change
from ragen_jax.config.schema import Config


def small(config: Config) -> Config:
    """3 M parameters: four layers of width 256, and the tiny critic."""
    return change(config, model={"preset": "small", "critic_preset": "tiny-critic", "compute_dtype": "float32"})
