"""Mistakes on the command line: one sentence and an exit code."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from experiments._main import run_main
from experiments._runner import RunFailedError
from ragen_jax.training.disk_errors import DiskError
from ragen_jax.training.loop import NonFiniteUpdateError, TooManyFailuresError

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("error", "shown", "code"),
    [
        (ValueError("steps=0 is too small; use 1 or more"), "steps=0 is too small; use 1 or more", 2),
        (KeyError("unknown preset 'papr'; did you mean 'paper'?"), "unknown preset 'papr'; did you mean 'paper'?", 2),
        (FileNotFoundError(2, "No such file or directory", "x.json"), "x.json: No such file or directory", 2),
        (PermissionError(13, "Permission denied", "/runs"), "/runs: Permission denied", 2),
        (OSError("disk on strike"), "disk on strike", 2),
        (ModuleNotFoundError("no package `configs` found", name="configs"), "no package `configs` found", 2),
        (RunFailedError("a seed 0 ended with code 2\n  log: x"), "a seed 0 ended with code 2\n  log: x", 1),
        (NonFiniteUpdateError("the loss is not finite"), "the loss is not finite", 1),
        (TooManyFailuresError("3 of 8 environments failed"), "3 of 8 environments failed", 1),
        (DiskError("the run in r broke off"), "the run in r broke off", 1),
        (KeyboardInterrupt(), "interrupted", 130),
    ],
)
def test_an_error_is_a_sentence_and_a_code(
    error: BaseException, shown: str, code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def main(argv: Sequence[str]) -> None:
        raise error

    monkeypatch.delenv("RAGEN_TRACEBACK", raising=False)
    with pytest.raises(SystemExit) as left:
        run_main(main)
    assert left.value.code == code
    assert capsys.readouterr().err == f"error: {shown}\n"


def test_a_fault_of_ours_keeps_its_traceback() -> None:
    def main(argv: Sequence[str]) -> None:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        run_main(main)


def test_the_traceback_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def main(argv: Sequence[str]) -> None:
        raise ValueError("steps=0")

    monkeypatch.setenv("RAGEN_TRACEBACK", "1")
    with pytest.raises(ValueError, match="steps=0"):
        run_main(main)


def test_arguments_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(sys, "argv", ["program", "seed=1", "--help"])
    run_main(seen.extend)
    assert seen == ["seed=1", "--help"]


@pytest.mark.parametrize("path", sorted((ROOT / "experiments").glob("[a-z]*.py")), ids=lambda path: path.stem)
def test_every_module_reports_errors_this_way(path: Path) -> None:
    assert path.read_text(encoding="utf-8").endswith('if __name__ == "__main__":\n    run_main(main)\n')


def test_a_user_sees_one_sentence() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "experiments.train", "preset=papr"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: unknown preset 'papr'; did you mean 'paper'?")
    assert len(done.stderr.splitlines()) == 1
