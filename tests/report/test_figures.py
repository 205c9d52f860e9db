"""Figures: a PNG for every shape of input, clear refusals, no jax."""

from __future__ import annotations

import math
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ragen_jax.report import figures

pytest.importorskip("matplotlib", reason="needs the extra report")


def _run(seed: int, *, validation: bool = True, collapse: bool = True) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for step in range(0, 21):
        decay = math.exp(-step / 8) if collapse else 1.0
        if step:
            rows.append(
                {
                    "step": step,
                    "rollout/success": 0.3 + 0.01 * seed,
                    "rollout/valid_format": 0.97,
                    "collapse/first_turn/mi_sequence_nats": None if step == 3 else 2 * decay,
                    "collapse/first_turn/mi_sequence_ceiling_nats": math.log(8),
                    "collapse/first_turn/conditional_entropy_token_nats": 2 - decay,
                }
            )
        if validation and step % 5 == 0:
            rows.append(
                {
                    "step": step,
                    "validation/success": 0.4 + 0.01 * seed,
                    "validation/valid_format": 0.99,
                    "validation/collapse/mi_sequence_nats": 3.3 * decay + 0.1 * seed,
                    "validation/collapse/mi_sequence_ceiling_nats": math.log(32),
                    "validation/collapse/conditional_entropy_token_nats": 2 - decay,
                }
            )
    return rows


def _size(path: Path) -> tuple[int, int]:
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", content[16:24])


@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("validation", [True, False])
def test_a_readable_png(tmp_path: Path, seeds: int, validation: bool) -> None:
    arms = {
        "no filter": [_run(s, validation=validation) for s in range(seeds)],
        "top-p 0.9": [_run(s, validation=validation, collapse=False) for s in range(seeds)],
    }
    figures.arms_figure(arms, tmp_path / "arms.png", "What the filter does")
    width, height = _size(tmp_path / "arms.png")
    assert width >= 1200
    assert height >= 700


def test_a_run_without_any_known_metric_still_draws(tmp_path: Path) -> None:
    figures.arms_figure({"only": [[{"step": 1, "time/step_seconds": 1.0}]]}, tmp_path / "arms.png", "")
    assert _size(tmp_path / "arms.png")


def test_band_is_lowest_mean_highest_of_what_is_there() -> None:
    runs = [[{"step": 1, "a/x": 1.0}, {"step": 2, "a/x": None}], [{"step": 2, "a/x": 4.0}, {"step": 1, "a/x": 3.0}]]
    assert figures._band(runs, "a/x") == ([1, 2], [1.0, 4.0], [2.0, 4.0], [3.0, 4.0])


@pytest.mark.parametrize(
    ("arms", "named"),
    [
        ({}, "0 arms"),
        ({str(i): [_run(0)] for i in range(7)}, "7 arms"),
        ({"a": []}, "'a' has no"),
        ({"a": [[]]}, "'a' has no"),
    ],
)
def test_nothing_to_draw_is_refused(tmp_path: Path, arms: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        figures.arms_figure(arms, tmp_path / "arms.png", "")


def test_missing_matplotlib_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"ragen_jax\[report\]"):
        figures.arms_figure({"a": [_run(0)]}, tmp_path / "arms.png", "")


def test_reports_import_neither_jax_nor_pyplot() -> None:
    program = (
        "import sys; import ragen_jax.report.figures as f; f._matplotlib(); "
        "sys.exit(any(m in sys.modules for m in ('jax', 'matplotlib.pyplot')))"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=120).returncode == 0
