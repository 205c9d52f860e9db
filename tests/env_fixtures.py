"""Which registered environments can be made here, some need an extra; and servers that run as long as a test."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer

import pytest

from ragen_jax.envs import ENVS, TextEnv, env_config, make_env


def _missing(name: str) -> str:
    """What an environment lacks, in its own words; "" when it can be made."""
    try:
        env_config(name)
    except ValueError as error:
        if "pip install" not in str(error):
            raise
        return str(error)
    return ""


NAMES = [name for name in ENVS if name != "http"]  # a way to reach the others; tests/envs/http_env has it
LACKS = {name: _missing(name) for name in NAMES}
INSTALLED = [name for name in NAMES if not LACKS[name]]

every_env = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.skipif(bool(LACKS[name]), reason=LACKS[name])) for name in NAMES]
)


@functools.cache
def own_options(name: str) -> dict[str, object]:
    """Options that spare time, or that this machine needs: few hidden tests, a sandbox that works here."""
    if name != "deepcoder":
        return {}
    try:
        make_env(name)
    except ValueError:
        return {"max_tests": 2, "sandbox": "rlimits"}
    return {"max_tests": 2}


def make(name: str, **options: object) -> TextEnv:
    """The environment, in a form that is quick and works on this machine."""
    return make_env(name, **own_options(name), **options)


@contextlib.contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[str]:
    """Run a server in a thread; its address."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
