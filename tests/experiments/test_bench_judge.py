"""The bench of the DeepCoder judge."""

from __future__ import annotations

import json

import pytest

from experiments.bench import judge
from ragen_jax.envs.deepcoder import make_judge


@pytest.mark.slow
def test_the_bench_measures_both_targets(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        make_judge("bubblewrap")
    except ValueError as error:
        pytest.skip(f"no bubblewrap on this machine: {error}")
    holds = judge.main(["--quick"])
    record = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert record["ratios"].keys() == record["targets"].keys()
    assert record["ratios"]["judged_tests_per_second"] > 0
    assert record["holds"] is holds
