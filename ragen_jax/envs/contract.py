"""What an environment returned, held against the contract: one check for classes of anyone and for servers.

The fault is told as a ValueError that names the field. Whoever called the environment adds which one it was.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ragen_jax.envs.base import Ending, Observation, StepResult, finite_number

FLAGS = ("success", "action_is_valid", "action_is_effective")
"""Bools that the info of every step has."""

_NUMBERS = (int, float, np.integer, np.floating)


def check_instructions(value: Any) -> str:
    """What ``TextEnv.instructions`` returned, when it is a text.

    Raises:
      ValueError: it is none.
    """
    return _text("instructions", value)


def check_observation(value: Any, *, source: str = "reset") -> Observation:
    """What ``source`` gave as an observation, when it is one.

    Raises:
      ValueError: it is no ``Observation``, its text is no text, or its image no array [H, W, 3] of uint8.
    """
    if not isinstance(value, Observation):
        raise ValueError(f"{source} gave {_shown(value)} as observation: use Observation(text)")
    _text("text of the observation", value.text)
    image = value.image
    if image is not None and not (
        isinstance(image, np.ndarray) and image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3
    ):
        raise ValueError(f"image of the observation is {_shown(image)}: use an array [height, width, 3] of uint8")
    return value


def check_result(value: Any) -> StepResult:
    """What ``TextEnv.step`` returned, when it keeps the contract of ``StepResult``.

    Raises:
      ValueError: it is no ``StepResult``, or one of its fields is not what it must be.
    """
    if not isinstance(value, StepResult):
        raise ValueError(f"step returned {_shown(value)}: return a StepResult")
    check_observation(value.observation, source="step")
    finite_number("reward", value.reward)
    _bool("terminated", value.terminated)
    _bool("truncated", value.truncated)
    if value.terminated and value.truncated:
        raise ValueError("terminated and truncated are both true: an episode ends in one way")
    info = _check_info(value.info)
    for flag in FLAGS:
        if flag not in info:
            raise ValueError(f"info has no {flag!r}: give it as a bool")
        _bool(f"info[{flag!r}]", info[flag])
    taken = info.get("actions_taken", ())
    if not (isinstance(taken, (tuple, list)) and all(isinstance(action, str) for action in taken)):
        raise ValueError(f"info['actions_taken'] is {_shown(taken)}: give a tuple of texts, or leave it out")
    return value


def check_ending(value: Any) -> Ending:
    """What ``TextEnv.finish`` returned, when it is an ``Ending``.

    Raises:
      ValueError: it is none, its reward is no finite number, or its info no mapping of names to values.
    """
    if not isinstance(value, Ending):
        raise ValueError(f"finish returned {_shown(value)}: return an Ending")
    finite_number("reward", value.reward)
    _check_info(value.info)
    return value


def is_metric(value: Any) -> bool:
    """True for a value of ``info`` that becomes a metric: a number or a bool."""
    return isinstance(value, (*_NUMBERS, np.bool_))


def _check_info(info: Any) -> Mapping[str, Any]:
    if not isinstance(info, Mapping):
        raise ValueError(f"info is {_shown(info)}: use a dict")
    for key, value in info.items():
        _text("a name in info", key)
        if isinstance(value, _NUMBERS) and not isinstance(value, bool):
            finite_number(key, value)
    return info


def _bool(name: str, value: Any) -> None:
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} is {_shown(value)}: use a bool")


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} is {_shown(value)}: use a str")
    return value


def _shown(value: Any) -> str:
    """A value for a message, cut to a length that can be read."""
    return f"{reprlib.repr(value)} of type {type(value).__name__}" if value is not None else "None"
