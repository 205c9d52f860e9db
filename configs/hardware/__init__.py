"""Machines: meshes, memory bounds, and sizes for debugging."""
