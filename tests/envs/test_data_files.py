"""Options that another option makes meaningless."""

from __future__ import annotations

import dataclasses

import pytest

from ragen_jax.envs.base import EnvConfig
from ragen_jax.envs.data_files import refuse_changed


def test_options_without_an_effect_are_refused() -> None:
    config = dataclasses.replace(EnvConfig(), max_turns=3)
    refuse_changed(config, ("max_actions",), because="of nothing")
    with pytest.raises(ValueError, match="max_turns=3 has no effect because there is a file: leave it at 5"):
        refuse_changed(config, ("max_actions", "max_turns"), because="there is a file")
