"""A CPU and little patience."""

from __future__ import annotations

from configs._change import change
from ragen_jax.config.schema import Config


def cpu_debug(config: Config) -> Config:
    """Three steps of four prompts by four rollouts on one device: does it run at all?"""
    return change(
        config,
        steps=3,
        micro_groups=2,
        env={"workers": 2},
        rollout={"prompts": 4, "group_size": 4},
        algorithm={"minibatch_groups": 0},
        validation={
            "every": 0,
            "prompts": 8,
            "samples": 1,
            "collapse_samples": min(config.validation.collapse_samples, 1),
        },
        checkpoint={"every": 0, "keep": 1, "rollouts_every": 1},
        mesh={"data": 1, "fsdp": 1, "tensor": 1},
    )
