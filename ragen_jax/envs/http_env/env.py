"""The client: an environment whose every call is a request to a server."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import math
import re
import typing
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ragen_jax.envs.base import Demonstration, Ending, EnvConfig, Observation, StepResult, TextEnv
from ragen_jax.envs.contract import check_ending, check_result
from ragen_jax.envs.data_source import KINDS, DataSource
from ragen_jax.envs.json_http import JsonClient
from ragen_jax.envs.text import neutralise
from ragen_jax.value_types import fits, type_name

COMMON = tuple(field.name for field in dataclasses.fields(EnvConfig))


class EnvServerError(OSError):
    """The server is down or slow, refuses, or speaks another protocol. The row is invalid; no reward is made up."""


class UnknownEnvironmentError(EnvServerError):
    """The server does not have this environment: it was started again, or dropped what was idle longest."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class HttpEnvConfig(EnvConfig):
    """Options of an environment behind a server; the common ones are sent to it, its own are set where it is started.

    Attributes:
      url: where the server listens.
      timeout_s: seconds that a request may take; below ``env.step_timeout_s``, so that its error is told.
    """

    url: str = "http://127.0.0.1:8100"
    timeout_s: float = 8.0

    def __post_init__(self) -> None:
        """Refuse values outside their range."""
        super().__post_init__()
        if not (self.timeout_s > 0 and math.isfinite(self.timeout_s)):
            raise ValueError(f"timeout_s={self.timeout_s}: use a positive number of seconds")
        _client(self)


class HttpEnv(TextEnv):
    """One environment on a server. The first call makes it there; ``close`` frees it.

    Rewards and ends are the server's, and so is every text, word for word, but that markers in it are broken (see
    ``text.neutralise``): it comes from outside. Replays are not offered: they need the dynamics.
    """

    name: ClassVar[str] = "http"
    Config: ClassVar[type[HttpEnvConfig]] = HttpEnvConfig

    def __init__(self, config: HttpEnvConfig) -> None:
        """Remember the server; nothing is sent."""
        self.config: HttpEnvConfig = config
        self._client = _client(config)
        self._made: dict[str, Any] | None = None
        self._canonical = ""
        self._done = True

    def reset(self, seed: int, member: int = 0) -> Observation:
        """Begin an episode there; see ``TextEnv.reset``.

        An episode needs nothing of those before it, so a server that no longer knows the environment makes it anew.

        Raises:
          EnvServerError: no usable answer of the server.
        """
        begin = {"seed": int(seed), "member": int(member)}
        try:
            answer = self._call("/reset", **begin)
        except UnknownEnvironmentError:
            self._made = None
            answer = self._call("/reset", **begin)
        self._canonical = self._field(answer, "canonical", str)
        self._done = False
        return self._observation(answer)

    def step(self, answer: str) -> StepResult:
        """Act there; see ``TextEnv.step``.

        Raises:
          EnvServerError: no usable answer of the server.
        """
        if self._done:
            raise RuntimeError("the episode is over or was never begun: call reset")
        self._done = True  # after a failure the state there is not known
        said = self._call("/step", answer=answer)
        result = StepResult(
            self._observation(said),
            said.get("reward"),  # type: ignore[arg-type]
            said.get("terminated"),  # type: ignore[arg-type]
            said.get("truncated"),  # type: ignore[arg-type]
            self._info(said),
        )
        self._hold(check_result, result)
        self._done = result.done
        return result

    def finish(self) -> Ending:
        """End the episode there; see ``TextEnv.finish``.

        Raises:
          EnvServerError: no usable answer of the server.
        """
        self._done = True
        said = self._call("/finish")
        ending = Ending(said.get("reward"), self._info(said))  # type: ignore[arg-type]
        self._hold(check_ending, ending)
        return ending

    def instructions(self) -> str:
        """Task description of the server."""
        return neutralise(self._field(self._open(), "instructions", str))

    def canonical(self) -> str:
        """Text that the server gave with the episode."""
        if not self._canonical:
            raise RuntimeError("no episode was begun: call reset")
        return self._canonical

    def demonstrate(self, rng: np.random.Generator, *, skill: float) -> Demonstration:
        """A reply of the server's solver, drawn with a seed from ``rng``."""
        answer = self._call("/demonstrate", seed=int(rng.integers(2**63)), skill=float(skill))
        reasoning, action = self._field(answer, "reasoning", str), self._field(answer, "answer", str)
        return Demonstration(neutralise(reasoning), neutralise(action))

    def data_source(self) -> DataSource | None:
        """What the server says about its rows; None when it says nothing."""
        said = self._open().get("data_source")
        if said is None:
            return None
        hints = typing.get_type_hints(DataSource)
        required = {field.name for field in dataclasses.fields(DataSource) if field.default is dataclasses.MISSING}
        if not isinstance(said, dict) or not required <= said.keys() <= hints.keys():
            raise self._fault(f"data_source {said!r}, not an object with {', '.join(hints)}")
        for name, value in said.items():
            if not fits(value, hints[name]):
                raise self._fault(f"data_source with {name}={value!r}, not {type_name(hints[name])}")
        source = DataSource(**said)
        if source.kind not in KINDS:
            raise self._fault(f"data_source with kind={source.kind!r}, not one of {', '.join(KINDS)}")
        if not re.fullmatch(r"[0-9a-f]{64}", source.sha256):
            raise self._fault(f"data_source with sha256={source.sha256!r}, not 64 digits of a hash")
        if source.rows < 1 or source.skipped < 0:
            raise self._fault(f"data_source with rows={source.rows}, skipped={source.skipped}: no counts of rows")
        return source

    def close(self) -> None:
        """Free the environment there; a server that is gone holds nothing."""
        if self._made is not None:
            made, self._made = self._made, None
            with contextlib.suppress(EnvServerError):
                self._client.call("/close", {"id": made["id"]})

    def _open(self) -> dict[str, Any]:
        if self._made is None:
            options = {name: getattr(self.config, name) for name in COMMON}
            made = self._client.call("/make", {"options": options})
            self._field(made, "id", str)
            self._made = made
        return self._made

    def _call(self, path: str, **body: Any) -> dict[str, Any]:
        return self._client.call(path, {"id": self._open()["id"], **body})

    def _observation(self, answer: dict[str, Any]) -> Observation:
        shown = self._field(answer, "observation", dict)
        image = shown.get("image")
        return Observation(neutralise(self._field(shown, "text", str)), None if image is None else self._picture(image))

    def _picture(self, image: Any) -> np.ndarray:
        try:
            data = np.frombuffer(base64.b64decode(image["rgb"], validate=True), dtype=np.uint8)
            return data.reshape(image["height"], image["width"], 3)
        except (KeyError, TypeError, ValueError) as error:
            raise self._fault(f"an image that is not {{height, width, rgb}}: {error}") from error

    def _info(self, said: dict[str, Any]) -> dict[str, Any]:
        """The info of an answer; JSON has lists where Python has tuples."""
        info = self._field(said, "info", dict)
        return {key: tuple(value) if isinstance(value, list) else value for key, value in info.items()}

    def _hold(self, check: Callable[[Any], object], said: StepResult | Ending) -> None:
        """Hold an answer against the contract of every environment."""
        try:
            check(said)
        except ValueError as error:
            raise self._fault(f"what is outside the protocol: {error}") from error

    def _field(self, answer: dict[str, Any], name: str, kind: type) -> Any:
        """A field of an answer, of the type that the protocol says."""
        value = answer.get(name)
        if not isinstance(value, kind):
            raise self._fault(f"{name}={value!r}, not {kind.__name__}")
        return value

    def _fault(self, what: str) -> EnvServerError:
        return EnvServerError(f"the environment server at {self.config.url} sent {what}")


def _client(config: HttpEnvConfig) -> JsonClient:
    return JsonClient(
        config.url,
        url_option="url",
        timeout_s=config.timeout_s,
        timeout_option="timeout_s",
        service="environment server",
        start="python -m ragen_jax.envs.http_env.server env=frozen_lake port=8100",
        error=EnvServerError,
        unknown=UnknownEnvironmentError,
    )
