"""The judge: runs a program on hidden tests and compares, here in the parent, where the expected outputs stay."""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import logging
import math
import signal
import subprocess
from typing import Any

from ragen_jax.envs.deepcoder.compare import same_output, same_value
from ragen_jax.envs.deepcoder.problem import HiddenTest, Problem
from ragen_jax.envs.deepcoder.process import MAX_OUTPUT, Outcome, run_child, wall_limit_s
from ragen_jax.envs.deepcoder.runner import READY
from ragen_jax.envs.deepcoder.sandbox import Sandbox, describe_sandbox

logger = logging.getLogger(__name__)
_DETAIL = 300  # characters of a detail that are kept


class Verdict(enum.StrEnum):
    """What became of a program.

    ``judge_failure`` is no statement about the program: nothing may be concluded from it, least of all a reward of 0.
    """

    PASS = "pass"
    WRONG = "wrong"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    ERROR = "error"
    FORBIDDEN = "forbidden"
    JUDGE_FAILURE = "judge_failure"


@dataclasses.dataclass(frozen=True)
class Judgement:
    """Outcome of all tests of a program.

    Attributes:
      verdict: ``PASS`` when every test passed, else that of the first test that did not.
      passed: tests that passed.
      total: tests of the problem that count.
      run: tests that were run; the others count as not passed.
      compiles: False when the program is no Python.
      detail: of the first failure, for logs; it may hold text of the program.
    """

    verdict: Verdict
    passed: int
    total: int
    run: int
    compiles: bool = True
    detail: str = ""


@dataclasses.dataclass(frozen=True)
class Judge:
    """Judges programs. It has no state: threads may share it, and the number of children is bounded for all of them.

    Attributes:
      sandbox: how children are started.
      time_limit_s: processor seconds of a program on one test; the wall time is bounded by ``wall_limit_s``.
      memory_limit_mb: address space of a program, MiB.
      total_limit_s: wall time of the tests of a program together, behind which no further one is begun; waiting for a
        free place among the children does not count.
    """

    sandbox: Sandbox
    time_limit_s: float = 1.0
    memory_limit_mb: int = 512
    total_limit_s: float = 6.0

    @property
    def wall_limit_s(self) -> float:
        """Seconds after which a child is killed; see ``process.wall_limit_s``."""
        return wall_limit_s(self.time_limit_s)

    def judge(self, program: str, problem: Problem, *, max_tests: int, stop_at_failure: bool) -> Judgement:
        """Run the tests one by one, each in a fresh child.

        A test that ran out of time or memory, or did something forbidden, ends the judging, and so does the total limit
        (as a time-out): the tests behind it are not run and count as not passed.

        Args:
          program: text of the program.
          problem: what it should solve.
          max_tests: at most so many tests count, evenly spread over those of the problem.
          stop_at_failure: any failure ends the judging.
        """
        tests = spread(problem.tests, max_tests)
        first: _Failure | None = None
        passed = run = 0
        left_s = self.total_limit_s
        for test in tests:
            if left_s <= 0:
                first = first or _Failure(Verdict.TIMEOUT, "all tests together took too long")
                break
            run += 1
            failure, seconds = self._test(program, problem, test)
            left_s -= seconds
            if failure is None:
                passed += 1
                continue
            if failure.verdict is Verdict.JUDGE_FAILURE:
                first = failure  # whatever was seen before, the whole is not known
                break
            first = first or failure
            hopeless = not failure.compiles or failure.verdict not in (Verdict.WRONG, Verdict.ERROR)
            if stop_at_failure or hopeless:
                break
        if first is None:
            return Judgement(Verdict.PASS, passed=passed, total=len(tests), run=run)
        logger.debug("%s: %s at a test of %s: %s", problem.name, first.verdict, problem.kind, first.detail)
        return Judgement(first.verdict, passed, len(tests), run, first.compiles, first.detail)

    def _test(self, program: str, problem: Problem, test: HiddenTest) -> tuple[_Failure | None, float]:
        """None when the program passes the test, and the seconds that it took."""
        task = {
            "program": program,
            "function": problem.function,
            "arguments": json.loads(test.input) if problem.function else [],
            "cpu_s": self.time_limit_s,
            "limits": {
                "cpu_seconds": math.ceil(self.time_limit_s) + 1,
                "memory_bytes": self.memory_limit_mb << 20,
                "tasks": self.sandbox.tasks,
            },
        }
        stdin = "" if problem.function else test.input
        try:
            outcome = run_child(self.sandbox, task, stdin=stdin, wall_s=self.wall_limit_s)
        except (OSError, subprocess.TimeoutExpired) as error:
            return _Failure(Verdict.JUDGE_FAILURE, f"{type(error).__name__}: {error}"), 0.0
        return _read(outcome, problem, test), outcome.seconds


def make_judge(
    tier: str, *, time_limit_s: float = 1.0, memory_limit_mb: int = 512, total_limit_s: float = 6.0
) -> Judge:
    """A judge whose sandbox has been tried on this machine.

    Raises:
      ValueError: an unknown tier, or one that does not work here. It is never replaced by another one.
    """
    return Judge(_tried_sandbox(tier), time_limit_s, memory_limit_mb, total_limit_s)


def spread(tests: tuple[HiddenTest, ...], limit: int) -> tuple[HiddenTest, ...]:
    """At most ``limit`` tests, evenly spread, the first and the last among them when there are two or more."""
    if len(tests) <= limit:
        return tests
    if limit == 1:
        return tests[-1:]
    return tuple(tests[round(index * (len(tests) - 1) / (limit - 1))] for index in range(limit))


@functools.cache
def _tried_sandbox(tier: str) -> Sandbox:
    sandbox = describe_sandbox(tier)
    problem = Problem("echo", "Return the argument.", "functional", "echo", (HiddenTest("[7]", "7"),))
    program = "def echo(x):\n    return x\n"
    result = Judge(sandbox, time_limit_s=10.0, total_limit_s=30.0).judge(
        program, problem, max_tests=1, stop_at_failure=True
    )
    if result.verdict is not Verdict.PASS:
        raise ValueError(
            f"sandbox={tier!r} does not work on this machine ({result.verdict}: {result.detail or 'no detail'}). "
            "Bubblewrap needs user namespaces, which containers and some systems forbid; allow them, or ask for "
            "sandbox='rlimits', which does not stop hostile programs"
        )
    return sandbox


@dataclasses.dataclass(frozen=True)
class _Failure:
    """Why a test was not passed."""

    verdict: Verdict
    detail: str = ""
    compiles: bool = True


def _read(outcome: Outcome, problem: Problem, test: HiddenTest) -> _Failure | None:
    """Verdict of one test. Everything the child wrote is untrusted; the runner's first line came before the program."""
    ready, _, rest = outcome.report.partition(b"\n")
    if _parse(ready).get("status") != READY:
        said = outcome.errors.decode(errors="replace").strip()
        return _Failure(Verdict.JUDGE_FAILURE, f"the child did not start, exit code {outcome.exit_code}: {said}")
    if outcome.flooded:
        return _Failure(Verdict.WRONG, f"more than {MAX_OUTPUT} bytes of output")
    if outcome.timed_out or outcome.signal is signal.SIGKILL:  # the latter is the hard limit of processor time
        return _Failure(Verdict.TIMEOUT)
    report = _parse(rest.partition(b"\n")[0])
    detail = report.get("detail")
    detail = detail[:_DETAIL] if isinstance(detail, str) else ""
    match report.get("status"):
        case "forbidden":
            return _Failure(Verdict.FORBIDDEN, detail)
        case "timeout":
            return _Failure(Verdict.TIMEOUT)
        case "memory":
            return _Failure(Verdict.MEMORY)
        case "syntax":
            return _Failure(Verdict.ERROR, detail, compiles=False)
        case "error":
            return _Failure(Verdict.ERROR, detail)
        case "value" if problem.function:
            return _compare_value(report.get("value"), test)
    if problem.function or outcome.exit_code != 0:
        return _Failure(Verdict.ERROR, f"ended without a result, exit code {outcome.exit_code}")
    right = same_output(test.expected, outcome.output.decode(errors="replace"))
    return None if right else _Failure(Verdict.WRONG)


def _compare_value(packed: Any, test: HiddenTest) -> _Failure | None:
    try:
        right = same_value(json.loads(test.expected), packed)
    except RecursionError as error:
        return _Failure(Verdict.ERROR, f"{type(error).__name__}: {error}")
    return None if right else _Failure(Verdict.WRONG)


def _parse(line: bytes) -> dict[str, Any]:
    """A report; empty when it is none."""
    try:
        report = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return report if isinstance(report, dict) else {}
