"""Notebooks run from top to bottom and print what they show."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
NUMBER = r"-?\d+(?:\.\d+)?"

RUNNER = """
import json, sys
namespace = {"__name__": "__main__"}
cells = json.load(open(sys.argv[1], encoding="utf-8"))["cells"]
for number, cell in enumerate(cells):
    if cell["cell_type"] == "code":
        exec(compile("".join(cell["source"]), f"<cell {number}>", "exec"), namespace)
import matplotlib.pyplot as plt
print("FIGURES", len(plt.get_fignums()))
"""


def code_cells(path: Path) -> list[dict]:
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def stored_text(path: Path) -> str:
    outputs = [output for cell in code_cells(path) for output in cell["outputs"]]
    return "".join("".join(output["text"]) for output in outputs if output["output_type"] == "stream")


def numbers(text: str, pattern: str) -> list[float]:
    match = re.search(pattern.replace("#", f"({NUMBER})"), text)
    assert match, f"{pattern!r} is not printed"
    return [float(group) for group in match.groups()]


@pytest.fixture(scope="module", params=NOTEBOOKS, ids=lambda path: path.stem)
def run(request, tmp_path_factory) -> tuple[Path, str]:
    done = subprocess.run(
        [sys.executable, "-c", RUNNER, str(request.param)],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=tmp_path_factory.mktemp("notebook"),
        env={**os.environ, "MPLBACKEND": "Agg", "PYTHONPATH": str(FOLDER.parent)},
    )
    assert done.returncode == 0, done.stderr
    return request.param, done.stdout


def test_there_is_a_notebook():
    assert NOTEBOOKS


def test_every_cell_runs_and_prints_what_is_stored(run):
    path, printed = run
    printed, _, figures = printed.partition("FIGURES ")
    stored = stored_text(path)
    assert re.sub(NUMBER, "#", printed) == re.sub(NUMBER, "#", stored)
    now, then = (list(map(float, re.findall(NUMBER, text))) for text in (printed, stored))
    assert now == pytest.approx(then, abs=0.02)  # float32 sums may round the last digit another way
    images = [o for cell in code_cells(path) for o in cell["outputs"] if "image/png" in o.get("data", {})]
    assert len(images) == int(figures) >= 1


def test_stored_outputs_have_no_error_and_no_path_of_a_machine():
    for path in NOTEBOOKS:
        for cell in code_cells(path):
            assert all(output["output_type"] in ("stream", "display_data") for output in cell["outputs"])
        assert not re.search(r"/(home|work|tmp|Users)/", stored_text(path))


def test_the_collapse_notebook_shows_a_collapse(run):
    path, printed = run
    if path.stem != "collapse_on_your_own_logs":
        pytest.skip("another notebook")
    early, late = printed.split("late:")
    (mi_early, ceiling), (mi_late, same_ceiling) = (numbers(part, r"MI # nats \(ceiling #\)") for part in (early, late))
    assert ceiling == same_ceiling == pytest.approx(2.48)
    assert mi_early > 0.9 * ceiling
    assert mi_late < 0.1 * mi_early
    for part, mi in ((early, mi_early), (late, mi_late)):
        low, high, _, _ = numbers(part, r"these prompts \[#, #\], other prompts \[#, #\]")
        assert low < mi < high
        null_low, null_high, p_value = numbers(part, r"null band \[#, #\], p = #")
        assert null_low < null_high < mi
        assert p_value < 0.01
        accuracy, chance = numbers(part, r"retrieval # \(chance #\)")
        assert accuracy > chance == pytest.approx(0.08)
    assert numbers(late, "Z.X. # nats per token") > numbers(early, "Z.X. # nats per token")
    kept = dict(re.findall(r"^(.+?) +keeps +(\d+) of 12", printed, re.MULTILINE))
    assert int(kept["top-k 25 %"]) == int(kept["lowest quartile"]) == 3
    assert int(kept["top-p 0.9 of variance"]) < int(kept["top-p 0.9 of std"]) < int(kept["top-p 0.9 of softmax_std"])
    assert int(kept["not flat"]) + numbers(printed, "flat prompts: # of 12")[0] == 12
