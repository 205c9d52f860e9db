"""DeepCoder: write a Python program that passes hidden tests."""

from __future__ import annotations

from ragen_jax.envs.deepcoder.config import DeepCoderConfig
from ragen_jax.envs.deepcoder.env import DeepCoder, JudgeError
from ragen_jax.envs.deepcoder.judge import Judge, Judgement, Verdict, make_judge
from ragen_jax.envs.deepcoder.problem import HiddenTest, Problem

__all__ = [
    "DeepCoder",
    "DeepCoderConfig",
    "HiddenTest",
    "Judge",
    "JudgeError",
    "Judgement",
    "Problem",
    "Verdict",
    "make_judge",
]
