"""Configurations as JSON, as a flat table, and as a hash."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragen_jax.config.keys import OPTIONS, key_types, unknown_key
from ragen_jax.config.schema import Config
from ragen_jax.value_types import fits, type_name


def to_json(config: Config) -> str:
    """The whole configuration as JSON text; ``from_json`` gives back an equal object."""
    return json.dumps(_plain(config), indent=2, allow_nan=False) + "\n"


def from_json(text: str) -> Config:
    """Configuration from the text of ``to_json``.

    A file holds every key: a missing one is refused rather than filled with today's default, so that a run's file
    reloads exactly or not at all.

    Raises:
      ValueError: not JSON, unknown or missing keys, or a value of the wrong type.
    """
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"the configuration is not JSON: {error}") from error
    config: Config = _build(Config, data, path="")
    return config


def read_config(path: Path) -> Config:
    """Configuration from a file.

    Raises:
      ValueError: as ``from_json``, with the file's name in front.
      OSError: the file cannot be read.
    """
    try:
        return from_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def flatten(config: Config) -> dict[str, Any]:
    """Every key and value in command-line spelling, environment options as ``env.<option>``."""
    flat: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if not dataclasses.is_dataclass(value):
            flat[field.name] = value
            continue
        for part in dataclasses.fields(value):
            key = f"{field.name}.{part.name}"
            if key == OPTIONS:
                flat.update({f"env.{name}": option for name, option in config.env.options.items()})
            else:
                flat[key] = getattr(value, part.name)
    return flat


def content_hash(part: Any) -> str:
    """First 16 hex digits of the SHA-256 of a configuration, a section, or any JSON-like value.

    The order of mapping keys does not matter; the same content has the same hash in every process.
    """
    canonical = json.dumps(_plain(part), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """Dataclasses and mappings as dicts, tuples as lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _frozen(value: Any) -> Any:
    """JSON lists as tuples, as they stand in a configuration."""
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    if isinstance(value, dict):
        return {name: _frozen(item) for name, item in value.items()}
    return value


def _build(cls: type, data: Any, *, path: str) -> Any:
    """Dataclass ``cls`` from JSON data that stands at ``path``."""
    if not isinstance(data, dict):
        raise ValueError(f"{path or 'the configuration'}: expected a JSON object, got {data!r}")
    types = typing.get_type_hints(cls)
    for name in data:
        if name not in types:
            raise ValueError(unknown_key(_join(path, name), key_types()))
    values = {}
    for name, annotation in types.items():
        key = _join(path, name)
        if name not in data:
            raise ValueError(f"the configuration lacks {key!r}; a file holds every key, use presets for parts")
        if dataclasses.is_dataclass(annotation):
            values[name] = _build(typing.cast(type, annotation), data[name], path=key)
            continue
        values[name] = _frozen(data[name])
        if not fits(values[name], annotation):
            raise ValueError(f"{key}={data[name]!r} is not {type_name(annotation)}")
    return cls(**values)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
