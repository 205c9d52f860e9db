"""Semantics of other systems under their own names, for comparing runs; NumPy in, NumPy out."""
