"""Keys ``section.field`` of a configuration: their types, how to set one, and what to say about an unknown one."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import typing
from collections.abc import Mapping
from typing import Any

from ragen_jax.config.legacy_keys import LEGACY_KEYS, NO_COUNTERPART
from ragen_jax.config.schema import Config

OPTIONS = "env.options"


@functools.cache
def key_types() -> Mapping[str, Any]:
    """Type of every key, in the order of the schema. ``env.options`` is no key: its entries are ``env.<option>``."""
    types: dict[str, Any] = {}
    for name, annotation in typing.get_type_hints(Config).items():
        if not dataclasses.is_dataclass(annotation):
            types[name] = annotation
            continue
        for field, field_type in typing.get_type_hints(annotation).items():
            if f"{name}.{field}" != OPTIONS:
                types[f"{name}.{field}"] = field_type
    return types


def option_types(environment: str) -> Mapping[str, Any]:
    """Type of every option of an environment, by option name.

    Raises:
      KeyError: no environment has that name.
    """
    from ragen_jax.envs import ENVS

    return typing.get_type_hints(ENVS[environment].Config, localns={"ClassVar": typing.ClassVar})


def set_key(config: Config, key: str, value: Any) -> Config:
    """The configuration with one key set; ``env.<name>`` that is not in the schema is an environment option."""
    section_name, dot, field = key.partition(".")
    if not dot:
        return dataclasses.replace(config, **{key: value})
    section = getattr(config, section_name)
    if key in key_types():
        section = dataclasses.replace(section, **{field: value})
    else:
        section = dataclasses.replace(section, options={**section.options, field: value})
    return dataclasses.replace(config, **{section_name: section})


def unknown_key(key: str, known: typing.Iterable[str]) -> str:
    """Sentence for a key that does not exist: the nearest valid key, also when it is a RAGEN or veRL key."""
    known = tuple(known)
    last = key.rpartition(".")[2]
    if last in NO_COUNTERPART:
        return f"unknown key {key!r}: {NO_COUNTERPART[last]}"
    if last in LEGACY_KEYS:
        return f"unknown key {key!r}: RAGEN's {last} is called {LEGACY_KEYS[last]!r} here"
    sections = {name.partition(".")[0] for name in known if "." in name}
    if key in sections:
        fields = ", ".join(name for name in known if name.startswith(f"{key}."))
        return f"{key!r} is a section, not a key; its keys are {fields}"
    # A whole key goes before a section's field of the same last part: `seed` before `validation.seed`.
    names = {**LEGACY_KEYS, **{name.rpartition(".")[2]: name for name in known}, **{name: name for name in known}}
    near = difflib.get_close_matches(key, names, n=1, cutoff=0.6) or difflib.get_close_matches(
        last, names, n=1, cutoff=0.6
    )
    if not near:
        return f"unknown key {key!r}; `--help` lists all keys"
    return f"unknown key {key!r}; did you mean {names[near[0]]!r}?"
