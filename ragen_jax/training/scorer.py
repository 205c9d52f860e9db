"""Who scored? The frozen scorer of a run must be the same one after a resume."""

from __future__ import annotations

import zlib

import jax
import numpy as np

from ragen_jax.training.build import Components


def scorer_fingerprint(parts: Components) -> int | None:
    """Checksum of the frozen scorer's parameters, saved with each checkpoint; None for the current policy."""
    checksum = None
    for leaf in jax.tree.leaves(parts.scorer):
        checksum = zlib.crc32(np.ascontiguousarray(jax.device_get(leaf)).tobytes(), checksum or 0)
    return checksum


def check_scorer(parts: Components, saved: int | None) -> None:
    """Refuse to go on with another scorer than the run began with: its numbers would not be comparable.

    Raises:
      ValueError: the parameters that ``collapse.scorer`` names now are not those of the saved fingerprint.
    """
    found = scorer_fingerprint(parts)
    if found != saved:
        raise ValueError(
            f"collapse.scorer={parts.config.collapse.scorer} has other parameters now (checksum {found}) than when the "
            f"run was saved ({saved}); put back what it was, or start a new run"
        )
