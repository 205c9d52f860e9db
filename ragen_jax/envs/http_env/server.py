"""A loopback server of any environment: ``python -m ragen_jax.envs.http_env.server env=frozen_lake port=8100``.

The environment's own options are set here, ``env.size=5``; the common ones come from the client. The package's
docstring has the protocol. The server has no login, so it listens on loopback unless it is told otherwise.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import logging
import secrets
import sys
import threading
import typing
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ragen_jax.envs import env_class, make_env
from ragen_jax.envs.base import Observation, TextEnv
from ragen_jax.envs.contract import check_ending, check_observation, check_result
from ragen_jax.envs.http_env.env import COMMON, HttpEnv
from ragen_jax.envs.json_http import JsonHandler, JsonServer, RequestError, encode

logger = logging.getLogger(__name__)

USAGE = "usage: python -m ragen_jax.envs.http_env.server env=NAME [env.OPTION=value ...] [host=127.0.0.1] [port=8100]"

PATHS = ("/make", "/reset", "/step", "/finish", "/demonstrate", "/close")


class _UnknownIdError(RequestError):
    """No environment has this id (any more)."""


class EnvServer(JsonServer):
    """Environments of one kind; each belongs to the client that made it.

    At most ``max_envs`` are kept: then the one that was idle longest is closed, for clients that went without closing.
    """

    def __init__(
        self,
        env: str | type[TextEnv],
        options: Mapping[str, Any] | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 8100,
        max_envs: int = 4096,
    ) -> None:
        """Make one environment, so that what is wrong with options or data shows now, and bind to an address.

        Args:
          env: a name of ``ENVS`` or an environment class.
          options: fields of its config that are its own.
          host: address to listen on.
          port: 0 takes a free one.
          max_envs: environments that are kept.

        Raises:
          KeyError: an unknown name.
          ValueError: an option that the environment refuses, or one that clients set; data that cannot be read; or an
            environment that is behind a server itself.
          OSError: the port is taken.
        """
        self._env, self._options = env, dict(options or {})
        common = sorted(self._options.keys() & set(COMMON))
        if common:
            raise ValueError(f"{', '.join(common)}: the client sets the options that all environments have")
        if issubclass(env_class(env), HttpEnv):
            raise ValueError(
                "env=http is a client of a server like this one: serve the environment itself, by its name"
            )
        probe = make_env(env, **self._options)
        try:
            probe.data_source()
        finally:
            probe.close()
        self._max_envs = max_envs
        self._lock = threading.Lock()  # guards the table
        self._envs: OrderedDict[str, tuple[TextEnv, threading.Lock]] = OrderedDict()
        super().__init__((host, port), _Handler)

    def answer(self, path: str, body: Any) -> dict[str, Any]:
        """What a request is answered.

        Raises:
          RequestError: a faulty request, or an id that is not known.
        """
        if not isinstance(body, dict):
            raise RequestError(f"the body is {type(body).__name__}: send an object")
        if path == "/make":
            return self._make(_take(body, "options", dict))
        env_id = _take(body, "id", str)
        if path == "/close":
            with self._lock:
                entry = self._envs.pop(env_id, None)
            if entry is not None:
                entry[0].close()
            return {}
        env, lock = self._find(env_id)
        with lock:
            return _act(env, path, body)

    def _make(self, options: dict[str, Any]) -> dict[str, Any]:
        surplus = sorted(options.keys() - set(COMMON))
        if surplus:
            raise RequestError(f"options {', '.join(surplus)}: set them where the server is started")
        try:
            env = make_env(self._env, **self._options, **options)
        except ValueError as error:
            raise RequestError(str(error)) from error
        made: dict[str, Any] = {"name": env.name, "instructions": env.instructions()}
        source = env.data_source()
        if source is not None:
            made["data_source"] = dataclasses.asdict(source)
        with self._lock:
            env_id = secrets.token_hex(16)  # no later server may know it: its environment would be another one
            self._envs[env_id] = (env, threading.Lock())
            oldest = self._envs.popitem(last=False)[1] if len(self._envs) > self._max_envs else None
        if oldest is not None:
            oldest[0].close()
        return {"id": env_id, **made}

    def _find(self, env_id: str) -> tuple[TextEnv, threading.Lock]:
        with self._lock:
            if env_id not in self._envs:
                raise _UnknownIdError(f"id {env_id!r}: no such environment, it was closed or never made; POST /make")
            self._envs.move_to_end(env_id)
            return self._envs[env_id]


class _Handler(JsonHandler):
    server: EnvServer

    def do_POST(self) -> None:  # noqa: N802 (the name that http.server calls)
        if self.path not in ("/make", "/reset", "/step", "/finish", "/demonstrate", "/close"):
            self.send_json(
                404, {"error": f"no such path {self.path!r}: /make, /reset, /step, /finish, /demonstrate, /close"}
            )
            return
        status, data = 200, b""
        try:
            data = encode(self.server.answer(self.path, self.read_json()))
        except _UnknownIdError as error:
            status, data = 404, encode({"error": str(error)})
        except RequestError as error:
            status, data = 400, encode({"error": str(error)})
        except Exception as error:  # an environment may fail in any way; the client hears how, the others go on
            logger.warning("%s failed", self.path, exc_info=True)
            status, data = 500, encode({"error": f"{type(error).__name__}: {error}"})
        self.send_bytes(status, data)


def _act(env: TextEnv, path: str, body: dict[str, Any]) -> dict[str, Any]:
    if path == "/reset":
        observation = check_observation(env.reset(_take(body, "seed", int), _take(body, "member", int)))
        return {"observation": _observed(observation), "canonical": env.canonical()}
    if path == "/demonstrate":
        skill = float(_take(body, "skill", int | float))
        shown = env.demonstrate(np.random.default_rng(_take(body, "seed", int)), skill=skill)
        return {"reasoning": shown.reasoning, "answer": shown.answer}
    if path == "/finish":
        ending = check_ending(env.finish())
        return {"reward": _plain(ending.reward), "info": _plain_info(ending.info)}
    result = check_result(env.step(_take(body, "answer", str)))
    return {
        "observation": _observed(result.observation),
        "reward": _plain(result.reward),
        "terminated": bool(result.terminated),
        "truncated": bool(result.truncated),
        "info": _plain_info(result.info),
    }


def _plain(value: Any) -> Any:
    """A number of NumPy as JSON knows it."""
    return value.item() if isinstance(value, np.generic) else value


def _plain_info(info: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _plain(value) for key, value in info.items()}


def _observed(observation: Observation) -> dict[str, Any]:
    shown: dict[str, Any] = {"text": observation.text}
    if observation.image is not None:
        height, width, _ = observation.image.shape
        rgb = base64.b64encode(observation.image.tobytes()).decode("ascii")
        shown["image"] = {"height": height, "width": width, "rgb": rgb}
    return shown


def _take(body: dict[str, Any], name: str, kind: Any) -> Any:
    value = body.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise RequestError(f"{name}={value!r}: send {getattr(kind, '__name__', kind)}, as the protocol says")
    return value


def _typed(env: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """Options from the command line: JSON where the field is no text; what fits nowhere is left to ``env_config``."""
    hints = typing.get_type_hints(env_class(env).Config)
    typed: dict[str, Any] = {}
    for name, text in texts.items():
        typed[name] = text
        if hints.get(name) is not str:
            with contextlib.suppress(ValueError):
                value = json.loads(text)
                typed[name] = tuple(value) if isinstance(value, list) else value
    return typed


def main(arguments: Sequence[str]) -> None:
    """Command line.

    Raises:
      ValueError: an argument or option that cannot be used.
      KeyError: an unknown environment.
      OSError: the port is taken.
    """
    given = dict(argument.partition("=")[::2] for argument in arguments)
    name = given.pop("env", "")
    host, port = given.pop("host", "127.0.0.1"), given.pop("port", "8100")
    own = {key.removeprefix("env."): text for key, text in given.items() if key.startswith("env.")}
    if not name or len(own) < len(given) or not port.isdecimal():
        raise ValueError(f"{' '.join(arguments) or 'no argument'}: {USAGE}")
    server = EnvServer(name, _typed(name, own), host=host, port=int(port))
    logger.info("%s at %s", name, server.url)
    with server:
        server.serve_forever()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        main(sys.argv[1:])
    except (ValueError, KeyError, OSError, OverflowError) as fault:
        sys.exit(f"error: {fault.args[0] if isinstance(fault, KeyError) else fault}")
    except KeyboardInterrupt:
        logger.info("stopped")
