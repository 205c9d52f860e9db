"""Tables of names: what a line says wrong is told in a sentence."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragen_jax.registry import Registry


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "clock_file.py").write_text("class Clock:\n    pass\n")
    (tmp_path / "needs_more.py").write_text("import no_such_package_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("clock_file", "needs_more"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("folder")
def test_a_line_of_a_table() -> None:
    table = Registry(
        "thing",
        (
            ("right", "clock_file:Clock"),
            ("misspelt", "clock_file:Clok"),
            ("nowhere", "clock_fil:Clock"),
            ("below", "clock_file.deep:Clock"),
            ("poor", "needs_more:Clock"),
        ),
    )
    assert table["right"].__name__ == "Clock"
    with pytest.raises(
        ValueError,
        match=r"thing 'misspelt' is registered as 'clock_file:Clok': .*'Clok'; did you mean 'Clock'\? Known: Clock",
    ):
        table["misspelt"]
    with pytest.raises(ValueError, match="thing 'nowhere' is registered as 'clock_fil:Clock': no module 'clock_fil'"):
        table["nowhere"]
    with pytest.raises(ValueError, match=r"'clock_file\.deep:Clock': no module 'clock_file\.deep'"):
        table["below"]
    with pytest.raises(ModuleNotFoundError, match="no_such_package_at_all"):  # the line is right
        table["poor"]
    with pytest.raises(KeyError, match="unknown thing 'rihgt'; did you mean 'right'"):
        table["rihgt"]


def test_a_name_stands_once() -> None:
    with pytest.raises(ValueError, match="thing 'a' is registered twice: x:y and x:z"):
        Registry("thing", (("a", "x:y"), ("a", "x:z")))
