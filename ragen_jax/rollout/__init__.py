"""From environments and a policy to finished episodes: text, token ids and NumPy arrays, no device."""

from __future__ import annotations
