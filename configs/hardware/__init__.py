"""Presets for a kind of machine."""
