"""Options of the modules that take no configuration."""

from __future__ import annotations

import pytest

from experiments._options import read_options, whole_number

OPTIONS = {"file": "what to read", "n": "how many", "json": "print an object", "dtype": "of the numbers"}


def test_values_and_flags_by_name() -> None:
    given = read_options(["file=a=b", "--n=3", "--json"], options=OPTIONS, required=("file",), flags=("json",), doc="")
    assert given == {"file": "a=b", "n": "3", "json": "true"}


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["fiel=a"], "'fiel=a': unknown option 'fiel'; use file=, n=, --json, dtype="),
        (["file=a", "json=true"], "'json=true': unknown option"),
        (["file=a", "json"], "'json': unknown option"),
        (["--file"], "file= has no value: what to read"),
        (["file="], "file= has no value"),
        (["n=3"], "file= is missing: what to read"),
        (["file=a", "dtype=int8"], "dtype=int8: use float32 or bfloat16"),
    ],
)
def test_what_cannot_be_read_is_refused(argv: list[str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_options(argv, options=OPTIONS, required=("file",), flags=("json",), doc="")


def test_help_names_every_option_and_leaves(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        read_options(["file=a", "--help"], options=OPTIONS, flags=("json",), doc="Reads a file.")
    assert not left.value.code
    printed = capsys.readouterr().out
    assert printed.startswith("Reads a file.\n") and "  file=...        what to read\n" in printed
    assert "  --json          print an object\n" in printed


def test_whole_numbers() -> None:
    assert whole_number({}, "n", default=5, least=1) == 5
    assert whole_number({"n": "0"}, "n", default=5, least=0) == 0
    for text in ("0", "-1", "1.5", "many"):
        with pytest.raises(ValueError, match=f"n={text}: use a whole number of 1 or more"):
            whole_number({"n": text}, "n", default=5, least=1)
