"""Files that a user brings: where they are looked for, and options that they make meaningless."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from ragen_jax.envs.base import EnvConfig


def find_data_file(name: str, *, option: str) -> Path:
    """Path of a data file.

    Args:
      name: a path, or a path below the folder that the environment variable RAGEN_DATA_DIR names.
      option: the option that holds the name, for the error message.

    Raises:
      ValueError: when neither place has the file.
    """
    places = [Path(name)]
    folder = os.environ.get("RAGEN_DATA_DIR")
    if folder:
        places.append(Path(folder) / name)
    for place in places:
        if place.is_file():
            return place
    looked = " and ".join(str(place) for place in places)
    hint = "" if folder else " (RAGEN_DATA_DIR is not set)"
    raise ValueError(f"{option}={name!r}: no such file, looked at {looked}{hint}")


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
