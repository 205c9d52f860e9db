"""A programming problem: its statement, and tests that the program's author never sees."""

from __future__ import annotations

import dataclasses
import re

from ragen_jax.envs.parsing import ANSWER, THINK

STDIN, FUNCTIONAL = "stdin", "functional"
_MARKERS = (*THINK, *ANSWER, "<|")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


@dataclasses.dataclass(frozen=True)
class HiddenTest:
    """One input and its expected output.

    For a problem of kind "stdin" both are texts. For "functional" they are JSON: the list of arguments and the value,
    in the form of ``runner.pack``.
    """

    input: str
    expected: str


@dataclasses.dataclass(frozen=True)
class Problem:
    """A problem.

    Attributes:
      name: short name inside its data set.
      statement: what the policy reads, examples included.
      kind: "stdin" (a program reads standard input and prints) or "functional" (a function is called).
      function: name of the function, or of the method of a class ``Solution``; "" for a program.
      tests: hidden tests, at least one.
      starter_code: beginning of the program, shown below the statement; "" = none.
      level: difficulty, 1 and up; 0 = unknown.
      idea: the way to the solution in a few words; "" = unknown.
      solution: a program that passes; "" = unknown.
      broken: a plausible program that fails; "" = unknown.
    """

    name: str
    statement: str
    kind: str
    function: str
    tests: tuple[HiddenTest, ...]
    starter_code: str = ""
    level: int = 0
    idea: str = ""
    solution: str = ""
    broken: str = ""

    def __post_init__(self) -> None:
        """Refuse a problem that cannot be judged."""
        if not self.statement.strip():
            raise ValueError("the problem has no statement")
        if not self.tests:
            raise ValueError("the problem has no test, so no program could pass it")
        if (self.kind == FUNCTIONAL) != bool(self.function):
            raise ValueError(f"kind {self.kind!r} with function {self.function!r}: only a functional problem has one")
        if self.function and not self.function.isidentifier():
            raise ValueError(f"{self.function!r} is no name of a function")
        tests = (text for test in self.tests for text in (test.input, test.expected))
        refuse_surrogates(self.name, self.statement, self.starter_code, self.solution, self.broken, *tests)

    def text(self) -> str:
        """Statement and starter code: equal for two problems if and only if they are the same task."""
        return f"{self.statement}\n\n{self.starter_code}".strip()


def refuse_surrogates(*texts: str) -> None:
    """Refuse half of a character, which no program could be given.

    Raises:
      ValueError: a text has a lone surrogate.
    """
    for text in texts:
        half = _SURROGATE.search(text)
        if half:
            raise ValueError(f"a text holds the lone surrogate {half[0]!r}, which is half of a character")


def is_teachable(program: str) -> bool:
    """True when an answer can hold the program: nothing in it reads as the end of a block or of a turn."""
    return not any(marker in program for marker in _MARKERS)
