"""Sampling of rollouts on the device."""
