"""The Countdown environment: one episode is one expression."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import ClassVar

import numpy as np

from ragen_jax.envs.base import Demonstration, Observation, StepResult, TextEnv
from ragen_jax.envs.countdown import expressions
from ragen_jax.envs.countdown.config import CountdownConfig
from ragen_jax.envs.countdown.expressions import Expression, MalformedExpressionError, Number, Operation
from ragen_jax.envs.countdown.solver import OPERATORS
from ragen_jax.envs.countdown.tasks import Task, rows_of, task_of_seed
from ragen_jax.envs.data_source import DataSource
from ragen_jax.envs.demonstrations import with_fillers


class Countdown(TextEnv):
    """Combine numbers with ``+ - * /`` to a target.

    Reward 1 for an expression with the right numbers and value; ``format_score`` for the right numbers and another
    value, or none because it divides by zero; 0 else. The whole answer is the expression; ``= target`` may follow it.

    ``info`` has, beside the common entries (valid: an expression of the grammar; effective: it has the right numbers):
    ``reachable`` (the target can be reached), ``operators_needed`` (size of the smallest set of operators that solves
    the task; left out where none does), that set as ``operators`` and one ``solution``, as text.
    """

    name: ClassVar[str] = "countdown"
    Config: ClassVar[type[CountdownConfig]] = CountdownConfig

    def __init__(self, config: CountdownConfig) -> None:
        """Make an environment that still has to be reset."""
        self.config: CountdownConfig = config
        self._task: Task | None = None
        self._done = True

    def reset(self, seed: int, member: int = 0) -> Observation:
        """Begin the task of ``seed``; without noise all members are alike."""
        self._task = task_of_seed(self.config, seed)
        self._done = False
        return Observation(self._question())

    def step(self, answer: str) -> StepResult:
        """Score the answer, which ends the episode; see ``TextEnv.step``."""
        if self._done:
            raise RuntimeError("the episode is over or was never begun: call reset")
        self._done = True
        task = self.task
        reward, valid, feedback = self._score(answer)
        success = reward == 1.0
        info = {
            "success": success,
            "action_is_valid": valid,
            "action_is_effective": valid and feedback != _WRONG_NUMBERS,
            "reachable": task.solution is not None,
            "operators": task.operators,
            "solution": expressions.render(task.solution) if task.solution else "",
        }
        if task.solution:
            info["operators_needed"] = len(task.operators)
        return StepResult(Observation(feedback), reward=float(reward), terminated=True, truncated=False, info=info)

    def instructions(self) -> str:
        """Task description; the terse one is empty, tiny policies know the task from their warm start."""
        config = self.config
        if config.instructions == "terse":
            return ""
        rule = "every given number exactly once" if config.use_all else "each given number at most once"
        layout = (
            'The task is one line: the numbers behind "N", the target behind "T".'
            if config.observation_format == "compact"
            else "The task shows the numbers and the target."
        )
        score = config.format_score
        partly = f", {score:g} when it only keeps the rule about the numbers" if score else ""
        return "\n".join(
            (
                f"Write an arithmetic expression whose value is the target. Use {rule}.",
                f"{layout} Allowed are + - * / and brackets; * and / bind tighter than + and -, fractions are exact.",
                "Example: with the numbers 4, 6, 2 and the target 20 the answer is (4 + 6) * 2",
                f"You have one answer. It pays 1 when it hits the target{partly}, else 0.",
            )
        )

    def canonical(self) -> str:
        """Sorted numbers and target."""
        return self.task.text()

    def demonstrate(self, rng: np.random.Generator, *, skill: float) -> Demonstration:
        """Name numbers and target and work an expression out: a solution, or a careless try with right arithmetic.

        Where the target cannot be reached, the try is careless too.
        """
        task = self.task
        expression = task.solution if rng.random() < skill else None
        if expression is None:
            expression = _careless(task, rng)
        parts = (
            f"use {' '.join(map(str, task.numbers))}",
            f"for {task.target}",
            f"try {' then '.join(expressions.steps(expression))}",
        )
        return Demonstration(reasoning=with_fillers(parts, rng), answer=expressions.render(expression))

    def data_source(self) -> DataSource | None:
        """The file of tasks; None when they are drawn."""
        return rows_of(self.config).source if self.config.data_file else None

    @property
    def task(self) -> Task:
        """The task of the running episode."""
        if self._task is None:
            raise RuntimeError("no episode was begun: call reset")
        return self._task

    def _question(self) -> str:
        task = self.task
        if self.config.observation_format == "compact":
            return f"N {' '.join(map(str, task.numbers))} T {task.target}"
        return f"Numbers: {', '.join(map(str, task.numbers))}\nTarget: {task.target}"

    def _score(self, answer: str) -> tuple[float, bool, str]:
        """Reward, whether the answer is an expression, and feedback."""
        task = self.task
        try:
            expression = expressions.parse_answer(answer, target=task.target)
        except MalformedExpressionError:
            return 0.0, False, _MALFORMED
        used, given = Counter(expressions.numbers(expression)), Counter(task.numbers)
        if used != given if self.config.use_all else not used <= given:
            return 0.0, True, _WRONG_NUMBERS
        try:
            result = expressions.value(expression)
        except ZeroDivisionError:
            return self.config.format_score, True, _ZERO_DIVISION
        if result == task.target:
            return 1.0, True, f"The value is {result}, as it should be."
        return self.config.format_score, True, f"The value is {result}, the target is {task.target}."


_MALFORMED = "That is no arithmetic expression."
_WRONG_NUMBERS = "The expression does not use the given numbers as the rule says."
_ZERO_DIVISION = "The expression divides by zero."


def _careless(task: Task, rng: np.random.Generator) -> Expression:
    """A random expression over all numbers without negative, broken or very large intermediate results."""
    largest = 2 * max(task.target, *task.numbers)
    terms: list[tuple[Fraction, Expression]] = [(Fraction(number), Number(number)) for number in task.numbers]
    while len(terms) > 1:
        first, second = sorted(rng.choice(len(terms), size=2, replace=False).tolist(), reverse=True)
        (high, big), (low, small) = sorted((terms.pop(first), terms.pop(second)), key=lambda t: t[0], reverse=True)
        choices = [
            (result, Operation(operator, big, small))
            for operator in OPERATORS
            if operator != "/" or low
            if (result := expressions.apply(operator, high, low)).denominator == 1
            and (operator == "+" or result <= largest)
        ]
        terms.append(choices[rng.integers(len(choices))])
    return terms[0][1]
