"""Countdown: reach a target with some numbers and the four operators."""

from __future__ import annotations

from ragen_jax.envs.countdown.config import CountdownConfig
from ragen_jax.envs.countdown.env import Countdown
from ragen_jax.envs.countdown.tasks import Task

__all__ = ["Countdown", "CountdownConfig", "Task"]
