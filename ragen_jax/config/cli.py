"""The command line: ``preset=a,b``, ``config=path.json``, ``section.field=value``. Tyro types values and writes help.

``parse`` gives the resolved configuration, not yet checked across fields: ``validate`` does that when a run is built,
since a module may still change fields in between.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
import sys
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tyro

from ragen_jax.config.compose import compose
from ragen_jax.config.keys import key_types, option_types, set_key, unknown_key
from ragen_jax.config.schema import Config
from ragen_jax.config.serial import read_config
from ragen_jax.value_types import type_name

USAGE = """\
usage: python -m MODULE [preset=a,b,...] [config=path.json] [seeds=0,1,2] [key=value ...]

  preset=a,b,c      presets, applied from left to right
  config=path.json  a whole configuration, such as config.json of a run folder; instead of presets
  seeds=0,1,2       one run per seed
  env.OPTION=value  an option of the chosen environment
"""

SPECIAL: tuple[str, ...] = ("preset", "config", "seeds", "help")


@dataclasses.dataclass(frozen=True)
class ParsedArgs:
    """What a command line said.

    Attributes:
      config: the resolved configuration.
      seeds: of ``seeds=``; empty when it was not given (then ``config.seed`` is the one seed).
      rest: the module's own options, name to text; a bare ``--flag`` has the text "true".
    """

    config: Config
    seeds: tuple[int, ...]
    rest: Mapping[str, str]


def parse(
    argv: Sequence[str], *, default_presets: Sequence[str] = (), own: Mapping[str, str] | None = None
) -> ParsedArgs:
    """Read a command line; of a key given twice the last one counts.

    Args:
      argv: tokens, without the program name. ``--key=value`` is the same as ``key=value``; ``--help`` prints help and
        leaves.
      default_presets: presets when neither ``preset=`` nor ``config=`` is given; ``preset=`` replaces them.
      own: options of the calling module, name to help text; they go before keys of the same name.

    Raises:
      ValueError: a token that is no ``key=value``, an unknown key (with the nearest one), a value of a wrong type, or a
        ``config=`` file that holds no configuration.
      KeyError: an unknown preset or environment.
      OSError: ``config=`` names a file that cannot be read.
    """
    own = own or {}
    tokens = _split(argv, own)
    special = {name: tokens.pop(name) for name in SPECIAL if name in tokens}
    rest = {name: tokens.pop(name) for name in own if name in tokens}
    config = _base(special, default_presets)
    seeds = tuple(_typed("seeds", text, int) for text in _items(special.get("seeds", "")))
    if seeds and "seed" in tokens:
        raise ValueError(f"seed={tokens['seed']} and seeds={special['seeds']} contradict each other; give one of them")
    if len(set(seeds)) != len(seeds):
        raise ValueError(f"seeds={special['seeds']} names a seed twice; repeated seeds are the same run")
    # The name decides which options exist, so it comes first whatever the order on the line.
    if "env.name" in tokens:
        name = tokens.pop("env.name")
        if name != config.env.name:  # options that presets set for another environment go with it
            config = dataclasses.replace(config, env=dataclasses.replace(config.env, name=name, options={}))
    if "help" in special:
        sys.stdout.write(help_text(config, own))
        raise SystemExit(0)
    types = dict(key_types())
    if any(key.startswith("env.") and key not in types for key in tokens):
        types.update({f"env.{name}": annotation for name, annotation in option_types(config.env.name).items()})
    for key, text in tokens.items():
        if key not in types:
            raise ValueError(unknown_key(key, types))
        config = set_key(config, key, _typed(key, text, types[key]))
    return ParsedArgs(config=config, seeds=seeds, rest=rest)


def help_text(config: Config, own: Mapping[str, str]) -> str:
    """Usage, the module's own options, and every key with its meaning and present value."""
    lines = [USAGE, *(f"  {name + '=...':<16}  {text}\n" for name, text in own.items()), "\n"]
    lines.append(_keys_help(config))
    from ragen_jax.envs import ENVS, env_config

    environment = ENVS[config.env.name].Config
    options = env_config(config.env.name, **config.env.options)
    lines.append(f"\nOptions of {config.env.name} (write env.OPTION=value):\n")
    lines.append(_tyro_help(environment, options))
    return "".join(lines)


def section_help(config: Config, section: str) -> str:
    """The keys of one section, with their meaning and present value."""
    blocks = _keys_help(config).split("\n\n")
    return next(block for block in blocks if block.startswith(f"{section} options")).rstrip("\n") + "\n"


def _split(argv: Sequence[str], own: Mapping[str, str]) -> dict[str, str]:
    """Tokens as key and text."""
    tokens: dict[str, str] = {}
    for token in argv:
        key, equals, text = token.partition("=")
        key = key.removeprefix("--")
        if token in ("--help", "-h"):
            tokens["help"] = "true"
        elif equals and key:
            tokens[key] = text
        elif token.startswith("--") and key in own:
            tokens[key] = "true"
        else:
            raise ValueError(f"{token!r} is no key=value; write for example seed=1 (`--help` lists all keys)")
    return tokens


def _base(special: Mapping[str, str], default_presets: Sequence[str]) -> Config:
    """Configuration before the single keys."""
    if "config" in special and "preset" in special:
        raise ValueError("config= is a whole configuration and preset= starts another one; give one of them")
    if "config" in special:
        return read_config(Path(special["config"]))
    names = _items(special["preset"]) if "preset" in special else tuple(default_presets)
    return compose(*names)


def _items(text: str) -> tuple[str, ...]:
    """Parts of a comma-separated list, with or without brackets around it and quotes around its words."""
    return tuple(item.strip(" '\"") for item in text.strip("[]()").split(",") if item.strip())


def _typed(key: str, text: str, annotation: Any) -> Any:
    """The value that a text stands for."""
    if annotation is str:
        return text
    arguments = _items(text) if typing.get_origin(annotation) is tuple else (text,)
    words = {"true": "True", "false": "False", "null": "None", "none": "None"}
    if typing.get_origin(annotation) is not typing.Literal:
        arguments = tuple(words.get(argument, argument) for argument in arguments)
    # tyro explains a bad value in a box on stderr and exits; a caller in Python wants one sentence.
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            return tyro.cli(annotation, args=list(arguments), console_outputs=False)
        except SystemExit:
            pass
    raise ValueError(f"{key}={text!r} is not {type_name(annotation)}")


def _keys_help(config: Config) -> str:
    """Every key of the schema; the options of the environment have a help of their own."""
    return _tyro_help(Config, dataclasses.replace(config, env=dataclasses.replace(config.env, options={})))


def _tyro_help(cls: type, default: Any) -> str:
    """Tyro's help for a dataclass, with ``--key VALUE`` written as ``key=VALUE``."""
    captured = io.StringIO()
    with contextlib.redirect_stdout(captured), contextlib.suppress(SystemExit):
        tyro.cli(
            cls,
            default=default,
            args=["--help"],
            use_underscores=True,
            config=(tyro.conf.FlagConversionOff,),
        )
    text = re.sub(r"^ +-{10,} *\n", "", captured.getvalue(), flags=re.MULTILINE)
    text = re.sub(r"^ +-h, --help *\n.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^  --(\S+) ", r"  \1=", text, flags=re.MULTILINE)
    text = re.sub(r" +$", "", text, flags=re.MULTILINE)
    return text[text.index(" options") :].replace("\n ", "\n").lstrip(" ")
