"""Our own problems: written for this project, with hidden tests, a solution and a broken one each."""

from __future__ import annotations

from ragen_jax.envs.deepcoder.problem import Problem
from ragen_jax.envs.deepcoder.problems.lists import LISTS
from ragen_jax.envs.deepcoder.problems.numbers import NUMBERS
from ragen_jax.envs.deepcoder.problems.programs import PROGRAMS
from ragen_jax.envs.deepcoder.problems.tables import TABLES
from ragen_jax.envs.deepcoder.problems.text import TEXT

DRAFTS = (*NUMBERS, *TEXT, *LISTS, *TABLES, *PROGRAMS)


def embedded_problems() -> tuple[Problem, ...]:
    """All of them, the same in every process."""
    return tuple(draft.problem() for draft in DRAFTS)
