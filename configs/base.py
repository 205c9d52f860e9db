"""The ground that other presets stand on."""

from __future__ import annotations

from ragen_jax.config.schema import Config


def base(config: Config) -> Config:
    """Every field at the schema's default: the sizes of the paper, no filter. Undoes all presets to its left."""
    del config
    return Config()
