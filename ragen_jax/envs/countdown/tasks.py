"""Countdown tasks: drawn from random numbers or from the lines of a file, and solved either way."""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ragen_jax.envs.countdown.config import CountdownConfig
from ragen_jax.envs.countdown.expressions import MAX_LENGTH, Expression
from ragen_jax.envs.countdown.solver import MAX_NUMBERS, is_additive, smallest, solve
from ragen_jax.envs.data_source import DataSet, load_rows, locate, read_json_lines, read_parquet
from ragen_jax.envs.instances import draw_instance, in_split

Row = tuple[tuple[int, ...], int]  # numbers and target

_ATTEMPTS = 5_000  # sets of numbers tried for one seed
_AROUND = 5  # characters beside a number: an operator, its blanks, two brackets
_LOOKED_AT = 1_000  # rows of a file, at most, that are searched for one that can be solved


@dataclasses.dataclass(frozen=True)
class Task:
    """Numbers and a target.

    Attributes:
      numbers: in the order in which they are shown.
      target: value that an expression should have.
      operators: the smallest set of operators that solves it without negative intermediate results; "" when it cannot
        be solved.
      solution: one expression with these operators; None when it cannot be solved.
    """

    numbers: tuple[int, ...]
    target: int
    operators: str = ""
    solution: Expression | None = None

    def text(self) -> str:
        """The same for all orders of the numbers."""
        return f"{' '.join(map(str, sorted(self.numbers)))} -> {self.target}"


@lru_cache(maxsize=4096)
def task_of_seed(config: CountdownConfig, seed: int) -> Task:
    """The task of a seed, inside the split of the config. Cached, since all members of a group share it.

    Raises:
      ValueError: when the options ask for tasks that cannot be drawn, or the data file is missing or broken.
    """
    rows = rows_of(config).rows

    def make(rng: np.random.Generator) -> Task | None:
        if not rows:
            return _draw(config, rng)
        numbers, target = rows[rng.integers(len(rows))]
        return _solved(config, numbers, low=target, high=target).get(target)

    return draw_instance(
        make,
        Task.text,
        seed=seed,
        split=config.split,
        validation_percent=config.validation_percent,
        attempts=_ATTEMPTS,
        rows=len(rows) or None,
    )


def rows_of(config: CountdownConfig) -> DataSet[Row]:
    """Rows of ``data_file``, JSON lines or, by its name, parquet; none where tasks are drawn.

    Raises:
      ValueError: no such file, a row that is no task (the message has its line), no row at all, or no row that can be
        solved.
    """
    return _load(config, locate(config.data_file, option="data_file"))


@lru_cache(maxsize=32)
def _load(config: CountdownConfig, found: tuple[str, Path] | None) -> DataSet[Row]:
    read = read_parquet if config.data_file.endswith(".parquet") else read_json_lines
    data: DataSet[Row] = load_rows(
        "countdown", found, read=read, convert=_row, embedded=tuple, skip_malformed=config.skip_malformed
    )
    some = data.rows[:: len(data.rows) // _LOOKED_AT + 1]
    if some and not any(_solved(config, numbers, low=target, high=target) for numbers, target in some):
        raise ValueError(
            f"countdown: {len(some)} of the {len(data.rows)} rows of {data.source.file} were looked at, and none can "
            f"be solved with use_all={config.use_all}, ops_filter={config.ops_filter!r}: change these or the file"
        )
    return data


def _row(record: Any) -> Row:
    fields: dict[str, Any] = record if isinstance(record, dict) else {}
    target, numbers = fields.get("target"), fields.get("nums")
    if target is None or not isinstance(numbers, list) or not all(map(_is_whole, [target, *numbers])):
        raise ValueError("'target' must be a whole number and 'nums' a list of them, zero or more")
    if not 2 <= len(numbers) <= MAX_NUMBERS:
        raise ValueError(f"{len(numbers)} numbers in 'nums', use 2 to {MAX_NUMBERS}")
    longest = sum(len(str(number)) + _AROUND for number in numbers)
    if longest > MAX_LENGTH:
        raise ValueError(
            f"'nums' are too long: an expression of them may take {longest} characters, an answer has {MAX_LENGTH} or "
            "less"
        )
    return tuple(numbers), target


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _draw(config: CountdownConfig, rng: np.random.Generator) -> Task | None:
    """Numbers at random, then a target that is uniform over the fitting ones; None when no target fits."""
    hopeless = rng.random() < config.unsolvable_share and config.split != "validation"
    count = int(rng.integers(config.numbers_min, config.numbers_max + 1))
    numbers = tuple(rng.integers(1, config.max_number + 1, size=count).tolist())
    low, high = config.min_target, config.max_target
    if hopeless:
        reached = solve(numbers, low=low, high=high, use_all=config.use_all)
        tasks = [Task(numbers, target) for target in range(low, high + 1) if target not in reached]
    else:
        tasks = list(_solved(config, numbers, low=low, high=high).values())
    # The split is asked here already, since one set of numbers offers many targets and solving it is the costly part.
    order: list[int] = rng.permutation(len(tasks)).tolist()
    for index in order:
        if in_split(tasks[index].text(), split=config.split, validation_percent=config.validation_percent):
            return tasks[index]
    return None


def _solved(config: CountdownConfig, numbers: tuple[int, ...], *, low: int, high: int) -> dict[int, Task]:
    """The solvable tasks with these numbers that the filter keeps, by target."""
    tasks = {}
    for target, solutions in solve(numbers, low=low, high=high, use_all=config.use_all).items():
        additive = any(map(is_additive, solutions))
        trivial = not config.use_all and target in numbers
        if not trivial and config.ops_filter in ("any", "additive" if additive else "needs_muldiv"):
            operators = smallest(solutions)
            tasks[target] = Task(numbers, target, operators, solutions[operators])
    return tasks
