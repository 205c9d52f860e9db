"""Does a value have the type that a dataclass declares for it? Shared by configurations and environment options."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Any


def fits(value: Any, annotation: Any) -> bool:
    """True when a value is of the declared type; a whole number serves as a float, a bool as nothing but a bool."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return value in arguments
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, choice) for choice in arguments)
    if origin is tuple:
        return isinstance(value, tuple) and all(fits(item, arguments[0]) for item in value)
    if origin is not None:
        return isinstance(value, Mapping)
    if isinstance(value, bool):
        return annotation is bool
    return isinstance(value, (int, float) if annotation is float else annotation)


def type_name(annotation: Any) -> str:
    """What a value should be, in words."""
    if typing.get_origin(annotation) is typing.Literal:
        return "one of " + ", ".join(str(choice) for choice in typing.get_args(annotation))
    return {bool: "true or false", int: "a whole number", float: "a number", str: "text"}.get(
        annotation, f"of type {annotation}"
    )
