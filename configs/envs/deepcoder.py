"""DeepCoder."""

from __future__ import annotations

from configs._change import change, use_env
from ragen_jax.config.schema import Config


def deepcoder(config: Config) -> Config:
    """One program a problem, paid by the share of hidden tests that pass, 16 problems x 8 programs a step.

    Programs run in bubblewrap; a machine without it needs ``env.sandbox=rlimits``, which does not stop hostile ones.
    A step may wait for several children, so it has more time than usual.
    """
    config = use_env(config, "deepcoder", reward="fraction")
    config = change(config, env={"step_timeout_s": 60.0})
    return change(config, rollout={"prompts": 16, "group_size": 8, "max_new_tokens": 4000, "max_context": 8000})
