"""Advantage estimators by name: ``fn(inputs, *, gamma, lam, normalize_by_std) -> (advantages, returns)``, each [B, T].

To add one: write such a function in a file of its own and name it in ``ADVANTAGES``.
"""

from __future__ import annotations

from ragen_jax.core.advantages.gae import gae
from ragen_jax.core.advantages.grpo import group_advantages
from ragen_jax.core.advantages.inputs import AdvantageInputs
from ragen_jax.core.advantages.reinforce import leave_one_out
from ragen_jax.core.advantages.token_weight import net_token_weight
from ragen_jax.registry import Registry

ADVANTAGES = Registry(
    "advantage estimator",
    (
        ("gae", "ragen_jax.core.advantages.gae:estimate"),
        ("grpo", "ragen_jax.core.advantages.grpo:estimate"),
        ("rloo", "ragen_jax.core.advantages.reinforce:estimate_rloo"),
        ("reinforce", "ragen_jax.core.advantages.reinforce:estimate_reinforce"),
    ),
)

__all__ = ["ADVANTAGES", "AdvantageInputs", "gae", "group_advantages", "leave_one_out", "net_token_weight"]
