"""The theory checks with few draws: nothing unexpected, and a wrong theorem is noticed."""

from __future__ import annotations

import json
from pathlib import Path

import jax.numpy as jnp
import pytest

from experiments import theory_checks
from experiments._theory_finding import FAILS, HOLDS, inequality
from ragen_jax.core import bounds

RECORD = Path(__file__).parents[2] / "docs" / "results" / "theory_checks.json"


@pytest.mark.slow
def test_everything_is_as_expected_and_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    theory_checks.main(["draws=200", "seed=1", f"save={tmp_path / 'found.json'}"])
    record = json.loads((tmp_path / "found.json").read_text())
    findings = record["findings"]
    assert record["draws"] == 200 and len(findings) >= 25
    assert all(finding["violations"] == 0 for finding in findings if finding["expected"] == HOLDS)
    assert all(finding["violations"] > 0 for finding in findings if finding["expected"] == FAILS)
    printed = capsys.readouterr().out
    assert all(finding["claim"] in printed for finding in findings)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("gradient_bound", lambda facts: 0.5 * jnp.sqrt(facts.reward_variance * facts.score_square)),
        ("snr_bound", bounds.snr_bound_plain),
        ("grpo_floor", bounds.grpo_floor_plain),
        ("mi_change_bound", lambda divergence, *, prompts: jnp.sqrt(divergence / 2) * 0),
        ("snr_bound_plain", bounds.snr_bound),  # true where a counter-example is expected
    ],
)
def test_a_wrong_theorem_ends_with_an_error(
    name: str, wrong: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    check = {
        "gradient_bound": theory_checks.gradient_bound,
        "grpo_floor": theory_checks.grpo_floor,
        "mi_change_bound": theory_checks.closeness,
    }.get(name, theory_checks.snr_bounds)
    monkeypatch.setattr(bounds, name, wrong)
    monkeypatch.setattr(theory_checks, "CHECKS", (check,))
    with pytest.raises(SystemExit) as left:
        theory_checks.main(["draws=400"])
    assert left.value.code == 1
    assert "not as expected" in capsys.readouterr().err


def test_nan_is_a_violation():
    nan = [jnp.array([jnp.nan, 1.0])]
    found = inequality("x", "y", "z", nan, [jnp.array([2.0, 2.0])], "", HOLDS)
    assert found.violations == 1 and not found.as_expected


def test_too_few_draws_are_refused():
    with pytest.raises(ValueError, match="draws=10"):
        theory_checks.findings(draws=10, seed=0)


def test_the_saved_table_is_one_that_passed():
    findings = json.loads(RECORD.read_text())["findings"]
    names = [finding["claim"] for finding in findings]
    assert len(set(names)) == len(names) >= 25
    assert all(
        (finding["violations"] > 0) == (finding["expected"] == FAILS)
        for finding in findings
        if finding["expected"] in (HOLDS, FAILS)
    )
