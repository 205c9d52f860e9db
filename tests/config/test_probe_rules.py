"""Settings of the gradient probe that cannot work or would have no effect."""

from __future__ import annotations

from typing import Any

import pytest

from configs._change import change
from ragen_jax.config import Config, compose, validate


def config(probe: dict[str, Any], **rollout: Any) -> Config:
    return change(compose("paper", "bandit_tiny", "grpo", "cpu_debug"), probe=probe, rollout=rollout)


@pytest.mark.parametrize(
    ("probe", "rollout", "words"),
    [
        ({"buckets": 2}, {}, "probe.buckets=2 has no effect with probe.every=0"),
        ({"edges": (0.1,)}, {}, "probe.edges=.* has no effect with probe.every=0"),
        ({"mi_columns": 2}, {}, "probe.mi_columns=2 has no effect with probe.every=0"),
        ({"every": -1}, {}, "probe.every=-1"),
        ({"every": 1, "buckets": 0}, {}, "probe.buckets=0 is too small"),
        ({"every": 1, "buckets": 9}, {"prompts": 8}, "probe.buckets=9 is above rollout.prompts=8"),
        ({"every": 1}, {"group_size": 2}, "use an even group_size"),
        ({"every": 1}, {"group_size": 5}, "use an even group_size"),
        ({"every": 1, "edges": (0.2, 0.1)}, {}, "must ascend"),
        ({"every": 1, "edges": (0.1, 0.1)}, {}, "must ascend"),
        ({"every": 1, "edges": (0.1,), "buckets": 2}, {}, "use one of the two"),
        ({"every": 1, "mi_columns": 1}, {}, "needs at least 2"),
        ({"every": 1, "mi_columns": 9}, {"prompts": 8}, "use 2 to 8"),
    ],
)
def test_refused(probe: dict[str, Any], rollout: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=words):
        validate(config(probe, **rollout))


@pytest.mark.parametrize(
    "probe", [{}, {"every": 5}, {"every": 1, "buckets": 2, "mi_columns": 8}, {"every": 1, "edges": (0.1, 0.2)}]
)
def test_accepted(probe: dict[str, Any]):
    validate(config(probe, prompts=8, group_size=4))
