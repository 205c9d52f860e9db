"""The DeepCoder environment: one episode is one program."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ragen_jax.envs.base import Demonstration, Observation, StepResult, TextEnv
from ragen_jax.envs.data_source import EMBEDDED, DataSource
from ragen_jax.envs.deepcoder.config import DeepCoderConfig
from ragen_jax.envs.deepcoder.judge import Judgement, Verdict, make_judge
from ragen_jax.envs.deepcoder.loader import load_problems
from ragen_jax.envs.deepcoder.problem import Problem, is_teachable
from ragen_jax.envs.deepcoder.process import MAX_CHILDREN
from ragen_jax.envs.deepcoder.program import program_of
from ragen_jax.envs.demonstrations import with_fillers
from ragen_jax.envs.instances import draw_instance

_FAILURES = (Verdict.WRONG, Verdict.TIMEOUT, Verdict.MEMORY, Verdict.ERROR, Verdict.FORBIDDEN)
_INVALID = Judgement(Verdict.ERROR, passed=0, total=1, run=0, compiles=False)


class JudgeError(RuntimeError):
    """The judge failed, so nothing is known about the program: the row is invalid, its reward is not 0."""


class DeepCoder(TextEnv):
    """Solve a programming problem; hidden tests decide, in a sandbox.

    Reward 1 when every hidden test passes, else 0; with ``reward="fraction"`` the share of tests that pass. The whole
    answer is the program, without one code fence around it.

    ``info`` has, beside the common entries (valid: a Python program; effective: it ran to its end): ``verdict`` as
    text, ``level`` where it is known, a ``verdict_<name>`` flag for each kind of failure, and ``passed_share`` with
    ``reward="fraction"``.
    """

    name: ClassVar[str] = "deepcoder"
    max_workers: ClassVar[int | None] = MAX_CHILDREN
    Config: ClassVar[type[DeepCoderConfig]] = DeepCoderConfig

    def __init__(self, config: DeepCoderConfig) -> None:
        """Load the problems and try the sandbox.

        Raises:
          ValueError: the problems cannot be loaded, or the sandbox does not work on this machine.
        """
        self.config: DeepCoderConfig = config
        self._data = load_problems(config)
        self._judge = make_judge(
            config.sandbox,
            time_limit_s=config.time_limit_s,
            memory_limit_mb=config.memory_limit_mb,
            total_limit_s=config.total_limit_s,
        )
        self._problem: Problem | None = None
        self._done = True

    def reset(self, seed: int, member: int = 0) -> Observation:
        """Begin the problem of ``seed``; without noise all members are alike."""
        problems = self._data.rows
        self._problem = draw_instance(
            lambda rng: problems[rng.integers(len(problems))],
            Problem.text,
            seed=seed,
            split=self.config.split,
            validation_percent=self.config.validation_percent,
            rows=len(problems),
        )
        self._done = False
        return Observation(_question(self._problem))

    def step(self, answer: str) -> StepResult:
        """Judge the program in the answer, which ends the episode; see ``TextEnv.step``.

        Raises:
          JudgeError: the judge failed.
        """
        if self._done:
            raise RuntimeError("the episode is over or was never begun: call reset")
        self._done = True
        config, problem = self.config, self.problem
        program = program_of(answer, max_bytes=config.max_program_bytes)
        judgement = _INVALID
        if program is not None:
            judgement = self._judge.judge(
                program, problem, max_tests=config.max_tests, stop_at_failure=config.reward == "all"
            )
        if judgement.verdict is Verdict.JUDGE_FAILURE:
            raise JudgeError(f"the judge failed at problem {problem.name!r}: {judgement.detail}")
        success = judgement.verdict is Verdict.PASS
        share = judgement.passed / judgement.total
        info = {
            "success": success,
            "action_is_valid": judgement.compiles,
            "action_is_effective": judgement.verdict in (Verdict.PASS, Verdict.WRONG),
            "verdict": str(judgement.verdict),
        } | {f"verdict_{name}": judgement.verdict is name for name in _FAILURES}
        if problem.level:
            info["level"] = problem.level
        if config.reward == "fraction":
            info["passed_share"] = share
        feedback = "All hidden tests passed." if success else _FEEDBACK[judgement.verdict]
        reward = share if config.reward == "fraction" else float(success)
        return StepResult(Observation(feedback), reward=reward, terminated=True, truncated=False, info=info)

    def instructions(self) -> str:
        """Task description; the terse one is empty, tiny policies know the task from their warm start."""
        config = self.config
        if config.instructions == "terse":
            return ""
        pay = "1 when every hidden test passes, else 0"
        if config.reward == "fraction":
            pay = "the share of hidden tests that pass"
        examples = "the examples of the problem may be among them"
        if self._data.source.kind == EMBEDDED:
            examples = "the examples of the problem are not among them"
        return "\n".join(
            (
                "Write a Python 3 program that solves the problem, with the standard library only. When a function is "
                "asked for, write that function; else read standard input and print to standard output.",
                f"The whole answer is the program: no words around it. Hidden tests decide; {examples}.",
                f"A test may take {config.time_limit_s:g} seconds and {config.memory_limit_mb} MiB. Files, network "
                "and other processes are out of reach.",
                f"You have one answer. It pays {pay}.",
            )
        )

    def canonical(self) -> str:
        """Statement and starter code."""
        return self.problem.text()

    def demonstrate(self, rng: np.random.Generator, *, skill: float) -> Demonstration:
        """Name the problem and the way to its solution, and give the solution, or carelessly a broken program.

        Raises:
          ValueError: the data set has no solution for the problem that an answer could hold.
        """
        problem = self.problem
        if not problem.solution:
            raise ValueError(
                f"problem {problem.name!r} has no reference solution: demonstrations need a data set with solutions, "
                "such as the embedded one"
            )
        if not (is_teachable(problem.solution) and is_teachable(problem.broken)):
            raise ValueError(
                f"the solution of problem {problem.name!r} holds a marker such as </answer>, so it would end its own "
                "answer: leave the problem out of the data set"
            )
        right = rng.random() < skill
        what = f"function {problem.function}" if problem.function else "program from input to output"
        parts = (problem.name, what, problem.idea or "as the text says", "write it")
        return Demonstration(
            reasoning=with_fillers(parts, rng),
            answer=problem.solution if right else problem.broken or _careless(problem),
        )

    def data_source(self) -> DataSource:
        """Where the problems come from."""
        return self._data.source

    @property
    def problem(self) -> Problem:
        """The problem of the running episode."""
        if self._problem is None:
            raise RuntimeError("no episode was begun: call reset")
        return self._problem


_FEEDBACK = {
    Verdict.WRONG: "A hidden test has another output.",
    Verdict.TIMEOUT: "The program ran out of time on a hidden test.",
    Verdict.MEMORY: "The program ran out of memory on a hidden test.",
    Verdict.ERROR: "The program failed with an error, or is no Python program.",
    Verdict.FORBIDDEN: "The program tried something forbidden.",
}


def _question(problem: Problem) -> str:
    return f"{problem.statement}\n\nBegin with:\n{problem.starter_code}" if problem.starter_code else problem.statement


def _careless(problem: Problem) -> str:
    """A program for a problem without a broken one: it gives its input back."""
    if problem.function:
        return f"def {problem.function}(*arguments):\n    return arguments[0] if arguments else None\n"
    return "print(input())\n"
