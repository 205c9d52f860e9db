"""The bench of the environments."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from experiments.bench import envs

RESULTS = Path(__file__).parents[2] / "docs" / "results"


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


def test_the_page_shows_the_numbers_of_the_file() -> None:
    """Each measured number of the page is the file's, to the digits that it shows; so are the targets."""
    page = (RESULTS / "environments.md").read_text(encoding="utf-8")
    record = json.loads((RESULTS / "bench" / "envs.json").read_text(encoding="utf-8"))
    rows = {
        "Sokoban": "sokoban_batch_s",
        "FrozenLake": "frozen_lake_batch_s",
        "Countdown": "countdown_batch_s",
        "Bandit": "bandit_batch_s",
        "one WebShop step": "webshop_step_ms",
        "one BM25 query of SearchQA, 2,800 passages": "search_qa_query_ms",
    }
    assert set(rows.values()) == record["ratios"].keys()
    for label, name in rows.items():
        unit = name.rpartition("_")[2]
        (shown, target) = re.findall(rf"^\| {label} \| ([\d.]+) {unit} \| ([\d.]+) {unit} \|$", page, re.MULTILINE)[0]
        assert shown == f"{record['ratios'][name]:.{len(shown.partition('.')[2])}f}", label
        assert record["targets"][name] == f"<= {target}", label
