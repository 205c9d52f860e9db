"""Problems from files and packages, and our own ones where no file is named."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragen_jax.envs.data_source import DataSet, load_rows, locate, read_json_lines, text_field
from ragen_jax.envs.deepcoder import exercism, human_eval
from ragen_jax.envs.deepcoder.config import DeepCoderConfig
from ragen_jax.envs.deepcoder.problem import FUNCTIONAL, STDIN, HiddenTest, Problem, is_teachable, refuse_surrogates
from ragen_jax.envs.deepcoder.problems import embedded_problems
from ragen_jax.envs.deepcoder.runner import pack
from ragen_jax.envs.text import neutralise

_BELOW = {"deepcoder": "deepcoder/problems.jsonl", "exercism": "exercism/exercises.jsonl"}
_KINDS = {
    "functional": FUNCTIONAL,
    "function_call": FUNCTIONAL,
    "stdin": STDIN,
    "stdin_stdout": STDIN,
}


def load_problems(config: DeepCoderConfig) -> DataSet[Problem]:
    """Problems of the data set of a config, loaded once per process.

    Raises:
      ValueError: the file or the package is missing, a row is malformed (named by its line), or no row is left.
    """
    if config.dataset == "human_eval":
        found: tuple[str, Path] | None = ("package", human_eval.package_file())
        return load_rows("human_eval", found, read=human_eval.read, convert=human_eval.convert, embedded=tuple)
    found = locate(config.data_file, option="data_file", below=_BELOW[config.dataset])
    if config.dataset == "deepcoder":
        return load_rows(
            "deepcoder",
            found,
            read=read_json_lines,
            convert=convert,
            embedded=embedded_problems,
            skip_malformed=config.skip_malformed,
        )
    if found is None:
        raise ValueError(
            f"dataset='exercism': no file at {_BELOW['exercism']} below RAGEN_DATA_DIR or the cache; "
            "name one with data_file"
        )
    return load_rows(
        "exercism",
        found,
        read=exercism.read,
        convert=exercism.convert,
        embedded=tuple,
        skip_malformed=config.skip_malformed,
    )


def convert(row: Any) -> Problem:
    """A problem of a row in the DeepCoder schema.

    ``problem`` is the statement, ``tests`` the tests, in either of two spellings, as JSON text or as it is:

    - a list of ``{"input", "output", "testtype"}`` (or ``"type"``): "functional" or "function_call" with one JSON
      value a line, or a list of arguments; "stdin_stdout" or "stdin" with texts;
    - ``{"inputs": [...], "outputs": [...], "fn_name": ...}``; with ``fn_name`` the inputs are lists of arguments, and
      outputs that are all lists of one value stand for these values.

    The name of the function is ``fn_name`` of the tests, or ``func_name`` of the tests or of ``metadata``.

    Raises:
      ValueError: for a row that is no problem.
      KeyError: for a missing field.
    """
    if not isinstance(row, dict):
        raise ValueError(f"a row is an object with 'problem' and 'tests', this is {type(row).__name__}")
    tests = _decoded(row["tests"], field="tests")
    metadata = _decoded(row.get("metadata") or {}, field="metadata")
    cases, function = _parallel(tests) if isinstance(tests, dict) else _listed(tests)
    if isinstance(metadata, dict):
        function = function or _name(metadata, "func_name")
    kinds = {kind for kind, _, _ in cases}
    if len(kinds) > 1:
        raise ValueError("tests of both kinds, functional and standard input, in one problem")
    kind = kinds.pop() if kinds else STDIN
    if kind == FUNCTIONAL and not function:
        raise ValueError("functional tests need the name of the function: 'fn_name', or 'func_name' in 'metadata'")
    make = _functional_test if kind == FUNCTIONAL else _stdin_test
    solutions = _decoded(row.get("solutions") or [], field="solutions")
    statement, starter_code = text_field(row, "problem"), text_field(row, "starter_code", optional=True)
    refuse_surrogates(statement, starter_code)
    return Problem(
        name=neutralise(str(row.get("uid") or row.get("name") or "")),
        statement=neutralise(statement).strip(),
        kind=kind,
        function=function if kind == FUNCTIONAL else "",
        tests=tuple(make(given, expected) for _, given, expected in cases),
        starter_code=neutralise(starter_code).rstrip(),
        solution=_solution(solutions),
    )


def _solution(solutions: Any) -> str:
    """The first solution that a demonstration could show; else the first, which demonstrations refuse."""
    if not isinstance(solutions, list) or not all(isinstance(solution, str) for solution in solutions):
        raise ValueError("'solutions' is not a list of texts")
    texts: list[str] = solutions
    return next(filter(is_teachable, texts), texts[0] if texts else "")


def _decoded(value: Any, *, field: str) -> Any:
    """A field that may be JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError as error:
        raise ValueError(f"field {field!r} is text, but not JSON: {error}") from error


def _listed(tests: Any) -> tuple[list[tuple[str, Any, Any]], str]:
    """(kind, input, output) of each test, and the function's name."""
    if not isinstance(tests, list) or not all(isinstance(test, dict) for test in tests):
        raise ValueError("'tests' is neither a list of objects nor an object of lists")
    cases, function = [], ""
    for test in tests:
        name = test.get("testtype") or test.get("type") or "stdin_stdout"
        if not isinstance(name, str) or name not in _KINDS:
            raise ValueError(f"testtype {name!r}: use one of {', '.join(_KINDS)}")
        metadata = test.get("metadata") or {}
        if not isinstance(metadata, dict):
            raise ValueError(f"'metadata' of a test is {type(metadata).__name__}, not an object")
        function = function or _name(test, "fn_name") or _name(metadata, "func_name")
        output = test["output"]
        if name == "function_call" and isinstance(output, list) and len(output) == 1:
            output = output[0]
        cases.append((_KINDS[name], test["input"], output))
    return cases, function


def _name(fields: dict[str, Any], field: str) -> str:
    """Name of a function; "" when the field is missing or null."""
    return text_field(fields, field, optional=True)


def _parallel(tests: dict[str, Any]) -> tuple[list[tuple[str, Any, Any]], str]:
    """The same for parallel lists."""
    inputs, outputs = tests["inputs"], tests["outputs"]
    function = _name(tests, "fn_name")
    if not isinstance(inputs, list) or not isinstance(outputs, list) or len(inputs) != len(outputs):
        raise ValueError("'inputs' and 'outputs' are not lists of the same length")
    if function and all(isinstance(output, list) and len(output) == 1 for output in outputs):
        outputs = [output[0] for output in outputs]
    kind = FUNCTIONAL if function else STDIN
    return [(kind, given, expected) for given, expected in zip(inputs, outputs, strict=True)], function


def _functional_test(given: Any, expected: Any) -> HiddenTest:
    arguments = list(_values(given)) if isinstance(given, str) else given
    if not isinstance(arguments, list):
        raise ValueError(f"input of a functional test is {type(given).__name__}, not lines of text or a list")
    value = next(_values(expected)) if isinstance(expected, str) else expected
    return HiddenTest(*(json.dumps(pack(part), ensure_ascii=False) for part in (arguments, value)))


def _values(text: str) -> Iterator[Any]:
    """One value a line, as JSON or as a Python literal; the whole text when it is one value."""
    try:
        yield json.loads(text)
        return
    except json.JSONDecodeError:
        lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise ValueError("an empty text where a value should be")
    for line in lines:
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            try:
                yield ast.literal_eval(line.strip())
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                raise ValueError(f"{line[:60]!r} is neither JSON nor a Python literal") from error


def _stdin_test(given: Any, expected: Any) -> HiddenTest:
    return HiddenTest(_lines(given), _lines(expected))


def _lines(text: Any) -> str:
    """Text of a program's input or output; some rows hold a list of lines."""
    if isinstance(text, list) and all(isinstance(line, str) for line in text):
        return "\n".join(text)
    if not isinstance(text, str):
        raise ValueError(f"a text is expected for standard input and output, this is {type(text).__name__}")
    return text
