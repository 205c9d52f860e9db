"""Presets by name: ``compose("paper", "frozen_lake", "grpo")``."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

from ragen_jax.config.schema import Config


def compose(*names: str) -> Config:
    """The default configuration with presets applied from left to right.

    Raises:
      KeyError: unknown preset, with the nearest name.
      ModuleNotFoundError: the ``configs`` package, which holds the presets, cannot be imported.
    """
    config = Config()
    for name in names:
        config = _presets()[name](config)
    return dataclasses.replace(config, preset=tuple(names))


def _presets() -> Any:
    """The registry of presets. The package never imports ``configs``, it only looks it up by name when asked."""
    advice = (
        "presets live in the folder configs/ of the project, beside ragen_jax/: run from the project's root, or build "
        "a ragen_jax.config.Config yourself"
    )
    try:
        module = importlib.import_module("configs")
    except ModuleNotFoundError as error:
        if error.name != "configs":
            raise
        raise ModuleNotFoundError(f"no package `configs` found; {advice}", name="configs") from error
    if not hasattr(module, "PRESETS"):
        raise ModuleNotFoundError(f"the package `configs` in {module.__path__} is another project's; {advice}")
    return module.PRESETS
