"""``key=value`` options of modules that take no configuration."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

DTYPES = ("float32", "bfloat16")


def read_options(
    argv: Sequence[str], *, options: Mapping[str, str], required: Sequence[str], doc: str | None
) -> dict[str, str]:
    """Values by option; ``--help`` prints the module's words and its options, and leaves.

    Args:
      argv: tokens.
      options: option to help text; ``dtype``, where it is one, is float32 or bfloat16.
      required: options that must be there.
      doc: what ``--help`` says first.

    Raises:
      ValueError: an unknown option, one that is missing, or an unknown dtype.
    """
    if "--help" in argv or "-h" in argv:
        sys.stdout.write(f"{doc}\n" + "".join(f"  {name + '=...':<10} {text}\n" for name, text in options.items()))
        raise SystemExit(0)
    values = {key.removeprefix("--"): text for key, _, text in (token.partition("=") for token in argv)}
    for key in values:
        if key not in options:
            raise ValueError(f"unknown option {key!r}; use {', '.join(options)}")
    for key in required:
        if not values.get(key):
            raise ValueError(f"{key}= is missing: {options[key]}")
    if values.get("dtype", DTYPES[0]) not in DTYPES:
        raise ValueError(f"dtype={values['dtype']}: use float32 or bfloat16")
    return values
