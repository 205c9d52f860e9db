"""MetaMathQA: mathematical word problems, one attempt or several."""

from __future__ import annotations

from ragen_jax.envs.metamathqa.config import MetaMathQAConfig, MetaMathQARetryConfig
from ragen_jax.envs.metamathqa.env import MetaMathQA, MetaMathQARetry
from ragen_jax.envs.metamathqa.problem import Problem

__all__ = ["MetaMathQA", "MetaMathQAConfig", "MetaMathQARetry", "MetaMathQARetryConfig", "Problem"]
