"""A programming problem: its statement, and tests that the program's author never sees."""

from __future__ import annotations

import dataclasses

STDIN, FUNCTIONAL = "stdin", "functional"


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

    def text(self) -> str:
        """Statement and starter code: equal for two problems if and only if they are the same task."""
        return f"{self.statement}\n\n{self.starter_code}".strip()
