"""Options that another option makes meaningless."""

from __future__ import annotations

import dataclasses

from ragen_jax.envs.base import EnvConfig


def refuse_changed(config: EnvConfig, names: tuple[str, ...], *, because: str) -> None:
    """Refuse options that would have no effect.

    Raises:
      ValueError: when one of the fields ``names`` differs from its default.
    """
    defaults = {field.name: field.default for field in dataclasses.fields(config)}
    for name in names:
        value = getattr(config, name)
        if value != defaults[name]:
            raise ValueError(f"{name}={value!r} has no effect because {because}: leave it at {defaults[name]!r}")
