"""The sentence about keys that were set and that nothing reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ragen_jax.config.schema import Config

_DEFAULT = Config()


def without_effect(config: Config, keys: Iterable[str], other: str, *, fix: str = "") -> Iterator[str]:
    """One sentence per key that differs from its default.

    Args:
      config: the configuration.
      keys: of sections, ``section.field``.
      other: the setting beside which they do nothing; it ends "has no effect with ...".
      fix: what would make them count; leaving them at their default always helps.
    """
    for key in keys:
        section, _, field = key.partition(".")
        value, usual = (getattr(getattr(whole, section), field) for whole in (config, _DEFAULT))
        if value != usual:
            yield f"{key}={value} has no effect with {other}; {fix and f'{fix}, or '}leave it at {usual}"
