"""Folders that ``experiments.export`` and ``experiments.import_gguf`` write: whole, or not at all and one sentence."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from experiments import export, import_gguf
from experiments._main import run_main
from ragen_jax.models.convert import load_model
from ragen_jax.training.loop import train
from tests.models.gguf_fixtures import write_gguf
from tests.models.hf_fixtures import largest_file
from tests.training_fixtures import tiny_config


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one step from random weights."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    train(tiny_config(None, steps=1, folder=str(folder)), writers=())
    return folder


def _error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], module: object, *argv: str) -> str:
    """What a user reads of a call that fails."""
    monkeypatch.delenv("RAGEN_TRACEBACK", raising=False)
    monkeypatch.setattr(sys, "argv", ["program", *argv])
    with pytest.raises(SystemExit) as left:
        run_main(module.main)  # type: ignore[attr-defined]
    assert left.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: ")
    return lines[0]


def test_an_export_on_a_full_disk_says_so_and_can_be_repeated(
    tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    to = tmp_path / "exported"
    with monkeypatch.context() as patch:
        usage = shutil.disk_usage(tmp_path)
        patch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10))
        assert "exported: needs" in _error(patch, capsys, export, f"run={run}", f"to={to}")
        patch.undo()
        with largest_file(40_000):
            assert "cannot be written" in _error(patch, capsys, export, f"run={run}", f"to={to}")
    assert list(tmp_path.iterdir()) == []
    export.main([f"run={run}", f"to={to}"])
    assert load_model(to)[0].layers == 2
    assert "is not empty: name a new folder" in _error(monkeypatch, capsys, export, f"run={run}", f"to={to}")


def test_a_gguf_file_on_a_full_disk_says_so_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("gguf", reason="needs the extra realmodel")
    file, to = write_gguf(tmp_path / "m.gguf"), tmp_path / "folder"
    with largest_file(40_000):
        assert "cannot be written" in _error(monkeypatch, capsys, import_gguf, f"file={file}", f"to={to}")
    assert list(tmp_path.iterdir()) == [file]
    import_gguf.main([f"file={file}", f"to={to}"])
    assert load_model(to)[0].layers == 2


def test_a_broken_config_of_the_run_s_model_is_named(
    tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "run"
    shutil.copytree(run, other)
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "config.json").write_text('{"model_type"', encoding="utf-8")
    facts = json.loads((other / "run.json").read_text())
    facts["origin"]["model"] = str(tmp_path / "hf")
    (other / "run.json").write_text(json.dumps(facts))
    assert "hf/config.json is not JSON" in _error(
        monkeypatch, capsys, export, f"run={other}", f"to={tmp_path / 'exported'}"
    )
