"""Advantage estimators by name: ``estimate(inputs, options) -> (advantages, returns)``, each [B, T].

To add one: write such a function in a file of its own and name it in ``ADVANTAGES``. Estimators that need a critic,
discount tokens, or are whitened are also named in the sets below; all others give every token of a row one number.
"""

from __future__ import annotations

from ragen_jax.core.advantages.bi_level_gae import bi_level_gae
from ragen_jax.core.advantages.gae import gae
from ragen_jax.core.advantages.grpo import group_advantages, group_advantages_by_id
from ragen_jax.core.advantages.inputs import AdvantageInputs, AdvantageOptions
from ragen_jax.core.advantages.reinforce import leave_one_out
from ragen_jax.core.advantages.reinforce_plus_plus import returns_to_go
from ragen_jax.core.advantages.token_weight import center_over_tokens, net_token_weight
from ragen_jax.registry import Registry

ADVANTAGES = Registry(
    "advantage estimator",
    (
        ("gae", "ragen_jax.core.advantages.gae:estimate"),
        ("bi_level_gae", "ragen_jax.core.advantages.bi_level_gae:estimate"),
        ("grpo", "ragen_jax.core.advantages.grpo:estimate"),
        ("rloo", "ragen_jax.core.advantages.reinforce:estimate_rloo"),
        ("reinforce", "ragen_jax.core.advantages.reinforce:estimate_reinforce"),
        ("reinforce_plus_plus", "ragen_jax.core.advantages.reinforce_plus_plus:estimate"),
        ("reinforce_plus_plus_baseline", "ragen_jax.core.advantages.reinforce_plus_plus:estimate_baseline"),
    ),
)

NEEDS_CRITIC = frozenset({"gae", "bi_level_gae"})
TOKEN_LEVEL = NEEDS_CRITIC | {"reinforce_plus_plus"}  # discount per token; the others look at whole episodes of a group
WHITENED = TOKEN_LEVEL | {"reinforce_plus_plus_baseline"}  # standardised over the batch as a second step

__all__ = [
    "ADVANTAGES",
    "NEEDS_CRITIC",
    "TOKEN_LEVEL",
    "WHITENED",
    "AdvantageInputs",
    "AdvantageOptions",
    "bi_level_gae",
    "center_over_tokens",
    "gae",
    "group_advantages",
    "group_advantages_by_id",
    "leave_one_out",
    "net_token_weight",
    "returns_to_go",
]
