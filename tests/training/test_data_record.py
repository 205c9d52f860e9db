"""What a run says about its data."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace

import pytest

from ragen_jax.envs import TextEnv, make_env
from ragen_jax.envs.data_source import DataSource
from ragen_jax.training.data_record import data_metrics, data_sources

FILE = DataSource(name="problems", kind="path", file="p.jsonl", rows=7, sha256="ab" * 32, skipped=2)


class _Rows(type(make_env("bandit"))):
    def __init__(self, source: DataSource) -> None:
        self.source = source

    def data_source(self) -> DataSource:
        return self.source


def _parts(train: TextEnv, validation: TextEnv) -> SimpleNamespace:
    pools = [SimpleNamespace(name=env.name, envs=[env]) for env in (train, validation)]
    return SimpleNamespace(pool=pools[0], validation_pool=pools[1])


def test_drawn_tasks_are_named_as_such() -> None:
    parts = _parts(make_env("bandit"), make_env("bandit"))
    assert data_sources(parts) == ["bandit: generated"]
    assert data_metrics(parts) == {"data/rows": 0.0, "data/embedded": 1.0, "data/content_hash": 0.0}


@pytest.mark.parametrize(("kind", "embedded"), [("path", 0.0), ("data_dir", 0.0), ("cache", 0.0), ("embedded", 1.0)])
def test_rows_are_counted_and_their_source_is_told(kind: str, embedded: float) -> None:
    env = _Rows(dataclasses.replace(FILE, kind=kind))
    assert data_sources(_parts(env, env)) == [f"problems: {kind} p.jsonl, 7 rows, 2 skipped, sha256 abababababab"]
    metrics = data_metrics(_parts(env, env))
    assert metrics == {"data/rows": 7.0, "data/embedded": embedded, "data/content_hash": 0xABABABAB}
    other = _Rows(dataclasses.replace(FILE, kind=kind, sha256="ac" + "ab" * 31))
    assert data_metrics(_parts(other, other)) != metrics


def test_another_source_of_validation_is_told_too() -> None:
    other = dataclasses.replace(FILE, name="others")
    lines = data_sources(_parts(_Rows(FILE), _Rows(other)))
    assert [line.partition(":")[0] for line in lines] == ["problems", "others"]
    assert json.dumps(lines)
