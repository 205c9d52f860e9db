"""Configuration: the schema, its rules, presets, the command line and JSON."""

from __future__ import annotations

from ragen_jax.config.cli import ParsedArgs, parse
from ragen_jax.config.compose import compose
from ragen_jax.config.schema import Config
from ragen_jax.config.serial import content_hash, flatten, from_json, to_json
from ragen_jax.config.validate import VALIDATION_WALK, check_mesh, validate

__all__ = [
    "VALIDATION_WALK",
    "Config",
    "ParsedArgs",
    "check_mesh",
    "compose",
    "content_hash",
    "flatten",
    "from_json",
    "parse",
    "to_json",
    "validate",
]
