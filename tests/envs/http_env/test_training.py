"""A whole training step in an environment behind a server."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path

import pytest

from ragen_jax.config import parse
from ragen_jax.envs.http_env.server import EnvServer
from ragen_jax.training.loop import train

ARGUMENTS = (
    "preset=paper,grpo,no_filter,tiny,cpu_debug",
    "steps=1",
    "env.instructions=terse",
    "env.max_turns=2",
    "rollout.max_new_tokens=8",
    "rollout.max_context=120",
    "validation.at_start=false",
)


@pytest.mark.slow
def test_a_served_environment_trains_as_in_the_process(tmp_path: Path) -> None:
    server = EnvServer("frozen_lake", {"observation_format": "compact"}, port=0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    rows = []
    try:
        for name, own in (("http", f"env.url={server.url}"), ("frozen_lake", "env.observation_format=compact")):
            config = parse([*ARGUMENTS, f"env.name={name}", own]).config
            outcome = train(dataclasses.replace(config, folder=str(tmp_path / name)), writers=())
            rows.append({key: value for row in outcome.folder.metrics() for key, value in row.items()})
            assert outcome.summary["data_sources"] == [f"{name}: generated"]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    same = [key for key in rows[0] if not key.startswith(("time/", "compile/"))]
    assert len(same) > 50
    assert {key: rows[0][key] for key in same} == {key: rows[1][key] for key in same}
