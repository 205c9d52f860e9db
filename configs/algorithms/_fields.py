"""What the algorithms have in common, so that one after another leaves nothing of the first."""

from __future__ import annotations

from typing import Any

from ragen_jax.config.schema import AlgorithmSection

_DEFAULT = AlgorithmSection()
# Fields that an algorithm is about. Entropy, KL, epochs, mini-batches and normaliser belong to the run.
_FIELDS = (
    "advantage",
    "normalize_by_std",
    "gamma",
    "lam",
    "turn_gamma",
    "whiten",
    "whiten_over",
    "center_tokens",
    "clip_low",
    "clip_high",
    "value_clip",
    "aggregation",
)


def algorithm(**changes: Any) -> dict[str, Any]:
    """The fields of an algorithm: those given, and the schema's defaults (RAGEN-2 appendix B.2) for the rest."""
    return {name: getattr(_DEFAULT, name) for name in _FIELDS} | changes
