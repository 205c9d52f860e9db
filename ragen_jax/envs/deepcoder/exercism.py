"""Problems from the canonical data of Exercism: one function each, called by position."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragen_jax.envs.data_source import read_json_lines, text_field
from ragen_jax.envs.deepcoder.problem import FUNCTIONAL, HiddenTest, Problem
from ragen_jax.envs.deepcoder.runner import pack
from ragen_jax.envs.text import neutralise

MIN_CASES = 4
_SHOWN = 2  # examples of a problem that are shown; the others stay hidden


def read(path: Path) -> Iterator[tuple[int, Any]]:
    """Exercises that are one function: one property, the same named inputs in at least ``MIN_CASES`` cases.

    Cases whose result is an error are left out, and so are those whose input is a function written as text. Exercises
    of another form are no fault of the file; they are passed over.
    """
    for number, record in read_json_lines(path):
        if isinstance(record, ValueError):
            yield number, record
            continue
        try:
            cases = [case for case in record["cases"] if _usable(case)]
            forms = {(case["property"], tuple(case["input"])) for case in cases}
        except (KeyError, TypeError) as error:
            yield number, ValueError(f"no exercise with cases of property, input and expected: {error!r}")
            continue
        if len(forms) == 1 and len(cases) >= MIN_CASES and cases[0]["input"]:
            yield number, {**record, "cases": cases}


def convert(record: Any) -> Problem:
    """The problem of an exercise; its first cases are shown as examples, the others are the hidden tests."""
    cases = record["cases"]
    function = _python_name(cases[0]["property"])
    names = [_python_name(name) for name in cases[0]["input"]]
    shown = "\n".join(
        f"{function}({', '.join(repr(value) for value in case['input'].values())}) -> {case['expected']!r}"
        for case in cases[:_SHOWN]
    )
    story = re.sub(r"^# .*\n+", "", text_field(record, "description")).strip()
    return Problem(
        name=text_field(record, "exercise"),
        statement=neutralise(f"{story}\n\nExamples:\n{shown}"),
        kind=FUNCTIONAL,
        function=function,
        tests=tuple(
            HiddenTest(
                json.dumps(pack(list(case["input"].values())), ensure_ascii=False),
                json.dumps(pack(case["expected"]), ensure_ascii=False),
            )
            for case in cases[_SHOWN:]
        ),
        starter_code=f"def {function}({', '.join(names)}):",
    )


def _usable(case: dict[str, Any]) -> bool:
    expected, given = case["expected"], case["input"]
    failing = isinstance(expected, dict) and "error" in expected
    return not failing and isinstance(given, dict) and "=>" not in "".join(filter(_is_text, given.values()))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _python_name(name: str) -> str:
    """Name in snake case; a keyword gets an underscore."""
    plain = re.sub(r"\W", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())
    return f"{plain}_" if keyword.iskeyword(plain) else plain
