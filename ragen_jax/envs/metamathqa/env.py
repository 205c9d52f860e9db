"""The MetaMathQA environments: a question, and one attempt or several at its answer."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ragen_jax.envs.base import Demonstration, Observation, StepResult, TextEnv
from ragen_jax.envs.data_source import DataSource
from ragen_jax.envs.demonstrations import with_fillers
from ragen_jax.envs.instances import draw_instance
from ragen_jax.envs.metamathqa import answers
from ragen_jax.envs.metamathqa.checker import Verdict, judge, needs_algebra
from ragen_jax.envs.metamathqa.config import MetaMathQAConfig, MetaMathQARetryConfig
from ragen_jax.envs.metamathqa.loader import load_problems
from ragen_jax.envs.metamathqa.problem import Problem
from ragen_jax.envs.metamathqa.symbolic import shared_checker
from ragen_jax.envs.text import neutralise


class MetaMathQA(TextEnv):
    """Answer a mathematical question. The right answer pays 1, halved by every attempt before it; else 0.

    The whole answer block is the answer. An empty one is no attempt; one that could hold several answers is an attempt
    that fails, and not valid.

    ``info`` has, beside the common entries, ``actions_taken``, ``attempts`` so far, ``verdict`` and ``kind`` as text,
    and the flags ``several_answers`` and ``checker_timeout``.
    """

    name: ClassVar[str] = "metamathqa"
    Config: ClassVar[type[MetaMathQAConfig]] = MetaMathQAConfig

    def __init__(self, config: MetaMathQAConfig) -> None:
        """Load the problems, once per process.

        Raises:
          ValueError: the problems cannot be loaded.
        """
        self.config: MetaMathQAConfig = config
        self._data = load_problems(config)
        self._problem: Problem | None = None
        self._done = True

    def data_source(self) -> DataSource:
        """Where the problems come from."""
        return self._data.source

    def reset(self, seed: int, member: int = 0) -> Observation:
        """Begin the problem of ``seed``; without noise all members are alike."""
        problems = self._data.rows
        self._problem = draw_instance(
            lambda rng: problems[int(rng.integers(len(problems)))],
            lambda problem: problem.original,
            seed=seed,
            split=self.config.split,
            validation_percent=self.config.validation_percent,
            rows=len(problems),
        )
        if self.config.checker == "symbolic" and needs_algebra(self._problem.answer):
            shared_checker(self.config.time_limit_s)  # it loads its packages while the policy thinks
        self._turns = self._attempts = 0
        self._done = False
        return Observation(neutralise(self._problem.question))

    def step(self, answer: str) -> StepResult:
        """Judge an attempt; see ``TextEnv.step``.

        Raises:
          CheckerError: the checker failed.
        """
        if self._done:
            raise RuntimeError("the episode is over or was never begun: call reset")
        config, problem = self.config, self.problem
        verdict = judge(answer, problem.answer, checker=config.checker, time_limit_s=config.time_limit_s)
        right, attempted = verdict is Verdict.RIGHT, verdict is not Verdict.EMPTY
        reward = 0.5**self._attempts if right else 0.0
        self._turns += 1
        self._attempts += attempted
        terminated = right or self._attempts >= config.max_actions
        truncated = not terminated and self._turns >= config.max_turns
        self._done = terminated or truncated
        return StepResult(
            Observation(_FEEDBACK[verdict]),
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            info={
                "success": right,
                "action_is_valid": verdict not in (Verdict.EMPTY, Verdict.NOT_SINGLE),
                "action_is_effective": attempted,
                "actions_taken": ("attempt",) if attempted else (),
                "attempts": self._attempts,
                "several_answers": verdict is Verdict.NOT_SINGLE,
                "checker_timeout": verdict is Verdict.TIMEOUT,
                "verdict": str(verdict),
                "kind": problem.kind,
            },
        )

    def instructions(self) -> str:
        """Task description; the terse one is empty, tiny policies know the task from their warm start."""
        config = self.config
        if config.instructions == "terse":
            return ""
        if config.max_actions == 1:
            pay = "You have one attempt. The right answer pays 1."
        else:
            pay = (
                f"You have {config.max_actions} attempts in {config.max_turns} turns; an attempt is one action. The "
                "right answer pays 1 at the first attempt and half as much at each further one."
            )
        return "\n".join(
            (
                "Solve a mathematical problem.",
                "The answer holds the final result alone: a number worked out to the end, or an expression in LaTeX. "
                "No sentence, no calculation, no second result; a unit may follow the number.",
                pay,
            )
        )

    def canonical(self) -> str:
        """The question."""
        return self.problem.question

    def demonstrate(self, rng: np.random.Generator, *, skill: float) -> Demonstration:
        """Quote the numbers of the question and calculate, then give the gold answer, or carelessly another one."""
        problem = self.problem
        right = rng.random() < skill
        given = answers.numbers_in(problem.question)[:8]
        parts = [f"given {' '.join(given)}" if given else "no numbers given"]
        if right:
            parts.append(neutralise(problem.work) or "work it out")
            answer = neutralise(problem.answer)
        else:
            parts.append("guess")
            answer = _careless(problem, given, rng)
        parts.append(f"so {answer}")
        return Demonstration(reasoning=with_fillers(parts, rng), answer=answer)

    @property
    def problem(self) -> Problem:
        """The problem of the running episode."""
        if self._problem is None:
            raise RuntimeError("no episode was begun: call reset")
        return self._problem


class MetaMathQARetry(MetaMathQA):
    """The same with several attempts at one question."""

    name: ClassVar[str] = "metamathqa_retry"
    Config: ClassVar[type[MetaMathQARetryConfig]] = MetaMathQARetryConfig


_FEEDBACK = {
    Verdict.RIGHT: "That is right.",
    Verdict.WRONG: "That is not right.",
    Verdict.NOT_SINGLE: "That is not one final result.",
    Verdict.EMPTY: "The answer is empty.",
    Verdict.TIMEOUT: "That is not right.",
}


def _careless(problem: Problem, given: list[str], rng: np.random.Generator) -> str:
    """A number of the question, or a small one, that is not the gold answer."""
    gold = answers.number(answers.normalise(problem.answer))
    choices = [text for text in (*given, *map(str, range(2, 10))) if answers.number(text) != gold]
    return choices[int(rng.integers(len(choices)))]
