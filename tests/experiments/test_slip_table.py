"""The slip sweep: exact bounds, and players below them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments import slip_table


def test_the_best_policy_bounds_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "slips.json"
    slip_table.main(["slips=0.0,0.5,1.0", "n=60", f"save={file}"])
    lines = capsys.readouterr().out.splitlines()
    rows = json.loads(file.read_text())["rows"]
    assert len(lines) == 2 + len(rows)
    assert rows[0]["best"] == rows[0]["solver"]["success"] == 1
    best = [row["best"] for row in rows]
    assert best[0] > best[1] > best[2] > 0
    for row in rows:
        assert row["solver"]["low"] <= row["best"]
        assert row["random"]["success"] < row["best"]
    assert lines[2].startswith("| 0 | 1.000 | 1 [")


@pytest.mark.parametrize("argument", ["n=0", "slips=x", "rate=0.1"])
def test_a_wrong_argument_is_refused(argument: str) -> None:
    with pytest.raises(ValueError, match=argument.partition("=")[2]):
        slip_table.main([argument])
