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


def check_scorer(name: str, found: int | None, saved: int | None) -> None:
    """Refuse to go on with another scorer than the run began with: its numbers would not be comparable.

    Args:
      name: ``collapse.scorer``.
      found: fingerprint of the parameters that it names now.
      saved: fingerprint in the checkpoint.

    Raises:
      ValueError: they differ.
    """
    if found != saved:
        raise ValueError(
            f"collapse.scorer={name} has other parameters now (checksum {found}) than when the "
            f"run was saved ({saved}); put back what it was, or start a new run"
        )
