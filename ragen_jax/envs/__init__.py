"""Text environments. Standard library and NumPy only: an environment runs in a process that never loads jax."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from typing import Any

from ragen_jax.envs.base import Demonstration, EnvConfig, Observation, StepResult, TextEnv
from ragen_jax.envs.options import check_separator_apart
from ragen_jax.registry import Registry, unknown_name
from ragen_jax.value_types import fits, type_name

__all__ = [
    "ENVS",
    "Demonstration",
    "EnvConfig",
    "Observation",
    "StepResult",
    "TextEnv",
    "env_class",
    "env_config",
    "make_env",
]

ENVS = Registry(
    "environment",
    (
        ("bandit", "ragen_jax.envs.bandit:Bandit"),
        ("frozen_lake", "ragen_jax.envs.frozen_lake.env:FrozenLake"),
        ("sokoban", "ragen_jax.envs.sokoban.env:Sokoban"),
        ("countdown", "ragen_jax.envs.countdown:Countdown"),
        ("search_qa", "ragen_jax.envs.search_qa:SearchQA"),
        ("webshop", "ragen_jax.envs.webshop:WebShop"),
        ("deepcoder", "ragen_jax.envs.deepcoder:DeepCoder"),
        ("http", "ragen_jax.envs.http_env:HttpEnv"),
        ("metamathqa", "ragen_jax.envs.metamathqa:MetaMathQA"),
        ("metamathqa_retry", "ragen_jax.envs.metamathqa:MetaMathQARetry"),
        ("rubik", "ragen_jax.envs.rubik:Rubik"),
        ("game_2048", "ragen_jax.envs.game_2048:Game2048"),
        ("sudoku", "ragen_jax.envs.sudoku:Sudoku"),
        ("gymnax_four_rooms", "ragen_jax.envs.gymnax_adapter:FourRooms"),
        ("gymnax_cart_pole", "ragen_jax.envs.gymnax_adapter:CartPole"),
    ),
)


def env_class(env: str | type[TextEnv], /) -> Any:
    """Class behind a name of ``ENVS``; a class stands for itself.

    Raises:
      KeyError: for an unknown name.
      ValueError: the class has no name, calls itself something else, or is not where the table says.
    """
    found = ENVS[env] if isinstance(env, str) else env
    if not isinstance(getattr(found, "name", None), str):
        raise ValueError(f"environment class {found.__name__} has no name: give it the class attribute name, a text")
    if isinstance(env, str) and found.name != env:
        raise ValueError(
            f"environment {env!r} is class {found.__name__}, whose name is {found.name!r}: use one name in both places"
        )
    return found


def make_env(env: str | type[TextEnv], /, **overrides: Any) -> TextEnv:
    """Make an environment.

    Args:
      env: a name of ``ENVS``, or an environment class, which needs no registration.
      **overrides: fields of the environment's config that differ from their defaults.

    Raises:
      KeyError: for an unknown name.
      ValueError: for an unknown field, a value of the wrong type or a value that the environment refuses.
    """
    made: TextEnv = env_class(env)(env_config(env, **overrides))
    return made


def env_config(env: str | type[TextEnv], /, **overrides: Any) -> EnvConfig:
    """Config of an environment with some fields changed; see ``make_env`` for arguments and errors."""
    factory = env_class(env)
    config_class = getattr(factory, "Config", None)
    where = f"environment {factory.name!r}"
    if not (isinstance(config_class, type) and issubclass(config_class, EnvConfig)):
        raise ValueError(f"{where}: {factory.__name__} has no Config, a class that extends EnvConfig")
    if inspect.get_annotations(config_class) and "__dataclass_params__" not in vars(config_class):
        raise ValueError(
            f"{where}: {config_class.__name__} is no dataclass, so its own options are not seen; "
            "put @dataclasses.dataclass(frozen=True, kw_only=True) above it"
        )
    hints = typing.get_type_hints(config_class)
    known = {field.name: hints[field.name] for field in dataclasses.fields(config_class)}
    for field, value in overrides.items():
        if field not in known:
            raise ValueError(unknown_name(f"option of environment {factory.name!r}", field, known))
        if not fits(value, known[field]):
            raise ValueError(f"{factory.name}: {field}={value!r} is not {type_name(known[field])}")
    config: EnvConfig = config_class(**overrides)
    check_separator_apart(config.action_separator, factory.words(config))
    return config
