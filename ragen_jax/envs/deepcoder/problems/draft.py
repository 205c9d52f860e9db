"""How our own problems are written down."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from ragen_jax.envs.deepcoder.problem import FUNCTIONAL, STDIN, HiddenTest, Problem
from ragen_jax.envs.deepcoder.runner import pack

SHOWN = 2
"""Of the tests of a draft the first are shown as examples; the others stay hidden."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Draft:
    """A problem in the form in which it is easy to write.

    Attributes:
      name: short name.
      function: name of the function to write; "" for a program.
      level: 1 to 3.
      idea: the way to the solution in a few words.
      statement: the task, without examples.
      solution: a program that passes.
      broken: a plausible program that fails a hidden test.
      tests: (input, output): a tuple of arguments and a value, or two texts.
    """

    name: str
    function: str = ""
    level: int
    idea: str
    statement: str
    solution: str
    broken: str
    tests: tuple[tuple[Any, Any], ...]

    def problem(self) -> Problem:
        """The problem, with examples in its statement."""
        shown, hidden = self.tests[:SHOWN], self.tests[SHOWN:]
        starter = ""
        if self.function:
            examples = "\n".join(f"{self.function}({', '.join(map(repr, given))}) -> {out!r}" for given, out in shown)
            tests = tuple(HiddenTest(json.dumps(pack(list(given))), json.dumps(pack(out))) for given, out in hidden)
            starter = next(line for line in self.solution.splitlines() if line.startswith(f"def {self.function}("))
        else:
            examples = "\n".join(f"Input:\n{given}\nOutput:\n{out}" for given, out in shown)
            tests = tuple(HiddenTest(given, out) for given, out in hidden)
        return Problem(
            name=self.name,
            statement=f"{self.statement}\n\nExamples\n{examples}",
            kind=FUNCTIONAL if self.function else STDIN,
            function=self.function,
            tests=tests,
            starter_code=starter,
            level=self.level,
            idea=self.idea,
            solution=self.solution,
            broken=self.broken,
        )
