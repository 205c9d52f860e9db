"""The bench of the environments."""

from __future__ import annotations

import json

import pytest

from experiments.bench import envs


@pytest.mark.parametrize("name", ["bandit", "frozen_lake"])
def test_a_batch_takes_time(name: str) -> None:
    wall, processor = envs.batch_seconds(name, 2)
    assert wall > 0 < processor


def test_a_failing_row_is_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(type(envs.make_env("bandit"))):
        def step(self, answer: str):
            raise RuntimeError("broken")

    monkeypatch.setattr(envs, "EnvPool", lambda name, config, **sizes: _pool(Broken, config, **sizes))
    with pytest.raises(RuntimeError, match="bandit: a row failed: RuntimeError: broken"):
        envs.batch_seconds("bandit", 1)


_pool = envs.EnvPool


@pytest.mark.slow
def test_the_bench_measures_what_it_has_targets_for(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("bm25s", reason="needs the extra 'search'")
    envs.main(["--quick"])
    record = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert record["ratios"].keys() == record["targets"].keys() == envs.TARGETS.keys()
    assert all(value > 0 for value in record["ratios"].values())
