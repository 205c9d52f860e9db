"""Options that would have no effect, or would do what nobody wants: both are refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragen_jax.envs.base import EnvConfig


def refuse_changed(config: EnvConfig, names: Sequence[str], *, because: str) -> None:
    """Refuse options that would have no effect.

    Raises:
      ValueError: when one of the fields ``names`` differs from its default.
    """
    defaults = {field.name: field.default for field in dataclasses.fields(config)}
    for name in names:
        value = getattr(config, name)
        if value != defaults[name]:
            raise ValueError(f"{name}={value!r} has no effect because {because}: leave it at {defaults[name]!r}")


def check_separator(separator: str) -> None:
    """Refuse what cannot stand between two actions of any environment.

    Raises:
      ValueError: it is empty, has white space in it (a single blank is the name of all white space), cannot be printed,
        or holds a sign of the markers of a reply.
    """
    if not separator:
        raise ValueError("action_separator is empty: use '||' or ' '")
    if separator != " " and (not separator.isprintable() or " " in separator):
        raise ValueError(
            f"action_separator={separator!r} has white space or an unprintable sign in it; blanks around a separator "
            "are allowed anyway: use '||', or ' ' for any white space"
        )
    if "<" in separator or ">" in separator:
        raise ValueError(
            f"action_separator={separator!r} reads like a marker of the reply, such as </answer>: use '||' or ' '"
        )


def check_separator_apart(separator: str, words: Sequence[str]) -> None:
    """Refuse a separator that stands in a word of the game, in upper or lower case.

    Args:
      separator: stands between two actions.
      words: names of the actions, and symbols of the observations.

    Raises:
      ValueError: an action with this name could not be written, or a symbol would have two meanings.
    """
    for word in words:
        if separator.lower() in word.lower():
            raise ValueError(
                f"action_separator={separator!r} stands in {word!r}, an action or a symbol of this environment: "
                "use '||' or another sign"
            )
