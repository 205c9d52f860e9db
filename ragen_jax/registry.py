"""Literal tables ``name -> "module:object"``, resolved only when a name is used."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any


class Registry(Mapping[str, Any]):
    """A read-only table of lazily imported objects.

    ``Registry("filter", (("top_p", "pkg.module:function"), ...))``; a name that stands twice is an error at import, an
    unknown name is a KeyError that says which names are near.
    """

    def __init__(self, kind: str, entries: tuple[tuple[str, str], ...]) -> None:
        """Build the table; ``kind`` is the noun of error messages."""
        self.kind = kind
        self._targets: dict[str, str] = {}
        for name, target in entries:
            if name in self._targets:
                raise ValueError(f"{kind} {name!r} is registered twice: {self._targets[name]} and {target}")
            self._targets[name] = target

    def __getitem__(self, name: str) -> Any:
        """Import and return the object behind a name.

        Raises:
          KeyError: for an unknown name.
          ValueError: there is no such module, or no such object in it.
        """
        self.check(name)
        target = self._targets[name]
        path, _, attribute = target.partition(":")
        try:
            module = importlib.import_module(path)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{path}.".startswith(f"{error.name}."):
                raise  # the module is there, and lacks another one
            raise ValueError(f"{self.kind} {name!r} is registered as {target!r}: no module {error.name!r}") from error
        if not hasattr(module, attribute):
            fault = unknown_name("object", attribute, _public(module))
            raise ValueError(f"{self.kind} {name!r} is registered as {target!r}: {fault}")
        return getattr(module, attribute)

    def check(self, name: str) -> None:
        """Raise the KeyError for an unknown name without importing anything."""
        if name not in self._targets:
            raise KeyError(unknown_name(self.kind, name, self._targets))

    def __iter__(self) -> Iterator[str]:
        """Names, in the order of the table."""
        return iter(self._targets)

    def __len__(self) -> int:
        """Number of names."""
        return len(self._targets)

    def __contains__(self, name: object) -> bool:
        """True for a registered name; imports nothing."""
        return name in self._targets


def _public(module: ModuleType) -> list[str]:
    """Names that a module defines itself, or says that it has."""
    said = getattr(module, "__all__", ())
    own = (name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__)
    return [name for name in {*said, *own} if not name.startswith("_")]


def unknown_name(kind: str, name: str, known: Mapping[str, Any] | list[str]) -> str:
    """Sentence for an unknown name: what it was, what is near, what there is."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return f"unknown {kind} {name!r}{hint} Known: {', '.join(names)}"
