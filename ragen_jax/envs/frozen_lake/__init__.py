"""FrozenLake: walk over slippery ice to a goal, around holes."""

from __future__ import annotations

from ragen_jax.envs.frozen_lake.env import FrozenLake, FrozenLakeConfig
from ragen_jax.envs.frozen_lake.lake import Lake, TransitionTable

__all__ = ["FrozenLake", "FrozenLakeConfig", "Lake", "TransitionTable"]
