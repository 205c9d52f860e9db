"""Verdicts of honest and dishonest programs, in both tiers."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import pytest

from ragen_jax.envs.deepcoder import HiddenTest, Judge, Judgement, Problem, Verdict, make_judge
from ragen_jax.envs.deepcoder.judge import spread

RIGHT = "a, b = map(int, input().split())\nprint(a + b)\n"


RECORD = "from dataclasses import dataclass\n@dataclass(order=True)\nclass Record:\n    size: int\n"
PICKLED = "import pickle\nclass Own:\n    pass\nassert isinstance(pickle.loads(pickle.dumps(Own())), Own)\n"
SELF = "import sys, __main__\nassert sys.modules[__name__].__dict__ is globals()\n"


def _judge(judge: Judge, program: str, problem: Problem, *, stop: bool = False) -> Judgement:
    return judge.judge(program, problem, max_tests=16, stop_at_failure=stop)


@pytest.mark.parametrize(
    "program",
    [
        RIGHT,
        RIGHT + "exit()\nprint('more')",
        RIGHT + "quit(1)\nprint('more')",
        "print(sum(map(int, open(0).read().split())))",
        RIGHT + "raise SystemExit(3)",
        RIGHT + "import sys\nsys.exit('done')",
        "import sys\ntotal = sum(map(int, sys.stdin.buffer.read().split()))\nsys.stdout.write(f'{total}   \\n\\n')",
        "import atexit\natexit.register(print, sum(map(int, input().split())))",
        "import os\nos.write(1, str(sum(map(int, input().split()))).encode())\nos._exit(0)",
        RECORD + "a, b = map(int, input().split())\nprint(Record(a).size + b)",
        PICKLED + RIGHT,
        SELF + "assert __main__.__dict__ is globals()\n" + RIGHT,
        "def main() -> Undefined[int]:\n    a: AlsoUndefined = input()\n    print(sum(map(int, a.split())))\nmain()",
    ],
)
def test_right_programs_pass(judge: Judge, adding: Problem, program: str) -> None:
    assert _judge(judge, program, adding) == Judgement(Verdict.PASS, passed=2, total=2, run=2)


@pytest.mark.parametrize(
    "program",
    [
        "def add(a, b):\n    print('noise')\n    return a + b",
        "class Solution:\n    def add(self, a: List[int], b: int) -> int:\n        return a + b",
        "def add(self, a, b):\n    return a + b",
        "add = lambda a, b: float(a + b)",
        "import sys\nsys.stdout = None\ndef add(*numbers):\n    return sum(numbers)",
        RECORD + "def add(a, b):\n    return Record(a).size + b",
        RECORD + "class Solution:\n    def add(self, a, b):\n        return max(Record(a), Record(-9)).size + b",
        PICKLED + "def add(a, b):\n    return a + b",
        SELF + "def add(a, b):\n    return a + b",
        "import typing\nclass Pair(typing.NamedTuple):\n    left: Node\ndef add(a, b):\n    return Pair(a).left + b",
        "if __name__ == '__main__':\n    raise ValueError\nfrom operator import add",
    ],
)
def test_right_functions_pass(judge: Judge, adding_function: Problem, program: str) -> None:
    assert _judge(judge, program, adding_function) == Judgement(Verdict.PASS, passed=2, total=2, run=2)


@pytest.mark.parametrize(
    ("program", "verdict", "run"),
    [
        ("print(8)", Verdict.WRONG, 2),
        ("", Verdict.WRONG, 2),
        ("print('1' * (2 << 20))", Verdict.WRONG, 2),
        ("while True:\n    print('7')", Verdict.WRONG, 2),
        ("1 / 0", Verdict.ERROR, 2),
        ("print(input(), input())", Verdict.ERROR, 2),
        ("import numpy", Verdict.ERROR, 2),
        ("import os\nos._exit(1)", Verdict.ERROR, 2),
        ("import os\nos.abort()", Verdict.ERROR, 2),
        ("raise KeyboardInterrupt", Verdict.ERROR, 2),
        ("class Bad(Exception):\n    def __str__(self):\n        raise Bad\nraise Bad", Verdict.ERROR, 2),
        ("while True:\n    pass", Verdict.TIMEOUT, 1),
        ("import time\ntime.sleep(1000)", Verdict.TIMEOUT, 1),
        ("x = [0] * 10**9", Verdict.MEMORY, 1),
        ("x = bytearray(2 << 30)", Verdict.MEMORY, 1),
        ("print(", Verdict.ERROR, 1),
        ("(" * 20_000, Verdict.ERROR, 1),
        ("9" * 20_000, Verdict.ERROR, 1),
    ],
)
def test_verdicts(judge: Judge, adding: Problem, program: str, verdict: Verdict, run: int) -> None:
    judgement = _judge(judge, program, adding)
    assert (judgement.verdict, judgement.passed, judgement.run, judgement.total) == (verdict, 0, run, 2)


def test_only_a_program_that_does_not_compile_says_so(judge: Judge, adding: Problem) -> None:
    assert not _judge(judge, "print(", adding).compiles
    assert _judge(judge, "1 / 0", adding).compiles


@pytest.mark.parametrize(
    "program",
    [
        "def add(a, b):\n    raise SystemExit",
        "import os\ndef add(a, b):\n    os._exit(0)",
        "def subtract(a, b):\n    return a - b",
        "add = 7",
        "def add(a, b):\n    return object()",
        "def add(a, b):\n    return 1j",
        "def add(a, b):\n    x = []\n    x.append(x)\n    return x",
        "def add(a, b):\n    x = []\n    for _ in range(900):\n        x = [x]\n    return x",
        "class Int(int):\n    pass\ndef add(a):\n    return a",
    ],
)
def test_functions_without_a_usable_value_are_errors(judge: Judge, adding_function: Problem, program: str) -> None:
    judgement = _judge(judge, program, adding_function)
    assert (judgement.verdict, judgement.passed) in ((Verdict.ERROR, 0), (Verdict.WRONG, 0))
    assert judgement.compiles


def test_passed_tests_count_although_another_one_loops(judge: Judge, adding: Problem) -> None:
    program = "a, b = map(int, input().split())\nwhile a == 0:\n    pass\nprint(a + b)"
    judgement = _judge(judge, program, adding)
    assert (judgement.verdict, judgement.passed, judgement.run) == (Verdict.TIMEOUT, 1, 2)


def test_all_tests_together_have_a_limit_too(judge: Judge, adding: Problem) -> None:
    """Each test alone stays within its limits; together they take too long."""
    tests = adding.tests[:1] * 40
    patient = dataclasses.replace(judge, time_limit_s=2.0, total_limit_s=1.0)
    program = "import time\ntime.sleep(0.3)\n" + RIGHT
    judgement = patient.judge(program, dataclasses.replace(adding, tests=tests), max_tests=40, stop_at_failure=False)
    assert judgement.verdict is Verdict.TIMEOUT
    assert 0 < judgement.passed == judgement.run < 5
    assert judgement.total == 40


def test_the_first_failure_can_end_it(judge: Judge, adding: Problem) -> None:
    judgement = _judge(judge, "print(8)", adding, stop=True)
    assert (judgement.verdict, judgement.run, judgement.total) == (Verdict.WRONG, 1, 2)


def test_c32_endless_programs_beside_a_right_one(judge: Judge, adding: Problem, children: set[int]) -> None:
    """Four at once, limit half a second: three time out, one passes, no process is left (the fixture looks)."""
    judge = dataclasses.replace(judge, time_limit_s=0.5)
    programs = ["while True: pass", RIGHT, "while True: pass", "while True: pass"]
    with ThreadPoolExecutor(4) as pool:
        verdicts = [j.verdict for j in pool.map(lambda program: _judge(judge, program, adding), programs)]
    assert verdicts == [Verdict.TIMEOUT, Verdict.PASS, Verdict.TIMEOUT, Verdict.TIMEOUT]


def test_many_threads_share_a_judge(judge: Judge, adding: Problem, children: set[int]) -> None:
    problem = dataclasses.replace(adding, tests=adding.tests[:1])
    programs = [f"{RIGHT}{'raise ValueError' * (index % 2)}" for index in range(24)]
    with ThreadPoolExecutor(12) as pool:
        verdicts = [j.verdict for j in pool.map(lambda program: _judge(judge, program, problem), programs)]
    assert verdicts == [Verdict.PASS, Verdict.ERROR] * 12


def test_a_child_that_does_not_start_says_nothing_about_the_program(judge: Judge, adding: Problem) -> None:
    for python in ("/bin/false", "/no/such/interpreter"):
        broken = dataclasses.replace(judge, sandbox=dataclasses.replace(judge.sandbox, python=python))
        assert _judge(broken, RIGHT, adding).verdict is Verdict.JUDGE_FAILURE
    broken = dataclasses.replace(judge, sandbox=dataclasses.replace(judge.sandbox, wrapper=("/no/such/wrapper",)))
    assert _judge(broken, RIGHT, adding).verdict is Verdict.JUDGE_FAILURE


def test_a_judge_that_fails_later_is_a_failure_all_the_same(
    judge: Judge, adding: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ragen_jax.envs.deepcoder import judge as module

    runs = [module.run_child, lambda *_, **__: (_ for _ in ()).throw(OSError("no more processes"))]
    monkeypatch.setattr(module, "run_child", lambda *args, **options: runs.pop(0)(*args, **options))
    judgement = _judge(judge, "print(8)", adding)
    assert (judgement.verdict, judgement.detail) == (Verdict.JUDGE_FAILURE, "OSError: no more processes")


def test_an_unknown_tier_is_refused() -> None:
    with pytest.raises(ValueError, match="sandbox='none': use one of bubblewrap, rlimits"):
        make_judge("none")


def test_a_tier_that_does_not_work_is_refused_and_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    from ragen_jax.envs.deepcoder import judge as module
    from ragen_jax.envs.deepcoder import sandbox

    monkeypatch.setattr(
        sandbox.shutil, "which", lambda name, path=None: None if name == "bwrap" else f"/usr/bin/{name}"
    )
    module._tried_sandbox.cache_clear()
    with pytest.raises(ValueError, match="bwrap is not there; install the system's package bubblewrap, or ask for"):
        make_judge("bubblewrap")
    broken = dataclasses.replace(make_judge("rlimits").sandbox, python="/bin/false")
    monkeypatch.setattr(module, "describe_sandbox", lambda tier: broken)
    module._tried_sandbox.cache_clear()
    with pytest.raises(ValueError, match="sandbox='rlimits' does not work on this machine"):
        make_judge("rlimits")
    module._tried_sandbox.cache_clear()


def test_at_most_so_many_tests_count_evenly_spread() -> None:
    tests = tuple(HiddenTest(str(number), "") for number in range(100))
    for limit in (1, 2, 3, 16, 99, 100, 200):
        chosen = [int(test.input) for test in spread(tests, limit)]
        assert len(chosen) == len(set(chosen)) == min(limit, 100)
        assert chosen == sorted(chosen)
        assert chosen[-1] == 99
        assert limit == 1 or chosen[0] == 0
