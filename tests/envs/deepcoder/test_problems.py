"""Our own problems: right solutions pass, broken ones fail, and nothing is won without solving."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from ragen_jax.envs.deepcoder import Judge, Problem, Verdict
from ragen_jax.envs.deepcoder.problems import DRAFTS, embedded_problems
from ragen_jax.envs.deepcoder.problems.draft import SHOWN

PROBLEMS = embedded_problems()


def _verdicts(judge: Judge, programs: list[tuple[Problem, str]], *, tests: int) -> list[Verdict]:
    patient = Judge(judge.sandbox, time_limit_s=2.0)  # the limit of the other tests is short

    def verdict(pair: tuple[Problem, str]) -> Verdict:
        return patient.judge(pair[1], pair[0], max_tests=tests, stop_at_failure=True).verdict

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(verdict, programs))


def test_there_are_enough_of_all_kinds() -> None:
    assert len(PROBLEMS) == 68
    assert len({problem.text() for problem in PROBLEMS}) == len({problem.name for problem in PROBLEMS}) == 68
    assert Counter(problem.kind for problem in PROBLEMS) == {"functional": 49, "stdin": 19}
    assert min(Counter(problem.level for problem in PROBLEMS).values()) >= 20


def test_hidden_tests_are_hidden_and_no_constant_passes_them() -> None:
    for draft, problem in zip(DRAFTS, PROBLEMS, strict=True):
        assert len(problem.tests) == len(draft.tests) - SHOWN >= 3
        assert len({test.expected for test in problem.tests}) >= 2, problem.name
        assert len({repr(given) for given, _ in draft.tests}) == len(draft.tests), (
            f"{problem.name}: a test stands twice"
        )


def test_one_hidden_test_of_each_is_met_by_its_solution(walled_judge: Judge) -> None:
    verdicts = _verdicts(walled_judge, [(problem, problem.solution) for problem in PROBLEMS], tests=1)
    assert [p.name for p, v in zip(PROBLEMS, verdicts, strict=True) if v is not Verdict.PASS] == []


@pytest.mark.slow
@pytest.mark.parametrize("field", ["solution", "broken"])
def test_solutions_pass_and_broken_programs_are_wrong(judge: Judge, field: str) -> None:
    verdicts = _verdicts(judge, [(problem, getattr(problem, field)) for problem in PROBLEMS], tests=99)
    right = Verdict.PASS if field == "solution" else Verdict.WRONG
    assert [(p.name, v) for p, v in zip(PROBLEMS, verdicts, strict=True) if v is not right] == []


CHEATS = {
    "nothing": ("", "def {f}(*a): return None"),
    "zero": ("print(0)", "def {f}(*a): return 0"),
    "one": ("print(1)", "def {f}(*a): return 1"),
    "true": ("print(True)", "def {f}(*a): return True"),
    "empty": ("print()", "def {f}(*a): return []"),
    "echo": ("import sys\nprint(sys.stdin.read())", "def {f}(*a): return a[0]"),
    "first word": ("print(input().split()[0])", "def {f}(*a): return a[-1]"),
}


@pytest.mark.slow
@pytest.mark.parametrize("cheat", list(CHEATS))
def test_cheats_solve_nothing(judge: Judge, cheat: str) -> None:
    program, function = CHEATS[cheat]
    programs = [(problem, function.format(f=problem.function) if problem.function else program) for problem in PROBLEMS]
    verdicts = _verdicts(judge, programs, tests=99)
    assert [p.name for p, v in zip(PROBLEMS, verdicts, strict=True) if v is Verdict.PASS] == []
