"""``key=value`` options of modules that take no configuration."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

DTYPES = ("float32", "bfloat16")


def read_options(
    argv: Sequence[str],
    *,
    options: Mapping[str, str],
    required: Sequence[str] = (),
    flags: Sequence[str] = (),
    doc: str | None,
) -> dict[str, str]:
    """Values by option; ``--help`` prints the module's words and its options, and leaves.

    Args:
      argv: tokens; ``--key=value`` is the same as ``key=value``.
      options: option to help text; ``dtype``, where it is one, is float32 or bfloat16.
      required: options that must be there.
      flags: options without a value, written ``--flag``; those that are given have the text "true".
      doc: what ``--help`` says first.

    Raises:
      ValueError: an unknown option, one that is missing or has no value, or an unknown dtype.
    """
    if "--help" in argv or "-h" in argv:
        names = {name: f"--{name}" if name in flags else f"{name}=..." for name in options}
        sys.stdout.write(f"{doc}\n" + "".join(f"  {names[name]:<15} {text}\n" for name, text in options.items()))
        raise SystemExit(0)
    values: dict[str, str] = {}
    for token in argv:
        key, equals, text = token.removeprefix("--").partition("=")
        if key not in options or (key in flags and token != f"--{key}"):
            known = ", ".join(f"--{name}" if name in flags else f"{name}=" for name in options)
            raise ValueError(f"{token!r}: unknown option {key!r}; use {known}")
        if key not in flags and not (equals and text):
            raise ValueError(f"{key}= has no value: {options[key]}")
        values[key] = "true" if key in flags else text
    for key in required:
        if key not in values:
            raise ValueError(f"{key}= is missing: {options[key]}")
    if values.get("dtype", DTYPES[0]) not in DTYPES:
        raise ValueError(f"dtype={values['dtype']}: use float32 or bfloat16")
    return values


def whole_number(values: Mapping[str, str], name: str, *, default: int, least: int) -> int:
    """An option that is a whole number; ValueError where it is none, or below ``least``."""
    text = values.get(name, str(default))
    if not text.isdecimal() or int(text) < least:
        raise ValueError(f"{name}={text}: use a whole number of {least} or more")
    return int(text)
