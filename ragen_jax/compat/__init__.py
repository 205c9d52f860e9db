"""Semantics of other systems under their own names, for comparing runs; NumPy in, NumPy out."""

from __future__ import annotations

from ragen_jax.compat import ragen

__all__ = ["ragen"]
