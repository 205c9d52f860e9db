"""Which registered environments can be made here: some need an extra."""

from __future__ import annotations

import pytest

from ragen_jax.envs import ENVS, env_config


def _missing(name: str) -> str:
    """What an environment lacks, in its own words; "" when it can be made."""
    if name == "http":
        return "needs a server: tests/envs/http_env has it"
    try:
        env_config(name)
    except ValueError as error:
        if "pip install" not in str(error):
            raise
        return str(error)
    return ""


LACKS = {name: _missing(name) for name in ENVS}
INSTALLED = [name for name in ENVS if not LACKS[name]]

every_env = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.skipif(bool(LACKS[name]), reason=LACKS[name])) for name in ENVS]
)
