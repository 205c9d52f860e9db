"""The solver against brute force over all ways of merging the numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from ragen_jax.envs.countdown.expressions import Expression, Operation, numbers, render, value
from ragen_jax.envs.countdown.solver import is_additive, smallest, solve
from tests.oracles import countdown as oracle


def _draws(count: int, size: int, highest: int) -> list[tuple[int, ...]]:
    rng = np.random.default_rng(size)
    return [tuple(rng.integers(1, highest + 1, size=size).tolist()) for _ in range(count)]


@pytest.mark.parametrize("use_all", [True, False])
@pytest.mark.parametrize(("count", "size", "highest"), [(10, 2, 12), (12, 3, 30), (2, 4, 12)])
def test_reachable_targets_are_those_of_brute_force(count: int, size: int, highest: int, use_all: bool) -> None:
    for given in [*_draws(count, size, highest), (0, 3, 3)[:size] + (5,) * max(0, size - 3)]:
        whole = {int(v) for v in oracle.reachable(given, use_all=use_all) if v.denominator == 1 and 0 <= v <= 200}
        assert set(solve(given, low=0, high=200, use_all=use_all)) == whole, given


def test_solutions_are_right_and_use_the_operators_they_are_filed_under() -> None:
    for given in _draws(6, 4, 50):
        for target, solutions in solve(given, low=10, high=99, use_all=True).items():
            for used, expression in solutions.items():
                assert value(expression) == target
                assert sorted(numbers(expression)) == sorted(given)
                parts = list(_operations(expression))
                assert {part.operator for part in parts} == set(used)
                assert all(value(part) >= 0 for part in parts)


def test_fractions_on_the_way_are_exact() -> None:
    found = solve((3, 3, 8, 8), low=24, high=24, use_all=True)
    assert [render(expression) for expression in found[24].values()] == ["8 / (3 - 8 / 3)"]


def test_additive_tasks_are_those_of_brute_force() -> None:
    for given in _draws(20, 3, 30):
        expected = oracle.reachable(given, use_all=True, operators="+-")
        for target, solutions in solve(given, low=1, high=99, use_all=True).items():
            assert any(map(is_additive, solutions)) == (target in expected)


def test_the_smallest_set_of_operators_is_chosen() -> None:
    solutions = solve((2, 2, 4), low=8, high=8, use_all=True)[8]
    assert {"+", "*-", "-*"} & set(solutions) == {"+"}
    assert smallest(solutions) == "+"
    assert smallest(solve((6, 3, 3), low=54, high=54, use_all=True)[54]) == "*"
    assert smallest(dict.fromkeys(["*/", "+-*", "+/"], solutions["+"])) == "+/"


@pytest.mark.parametrize("given", [(3,), (1, 2, 3, 4, 5, 6)])
def test_the_count_of_numbers_is_bounded(given: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=f"{len(given)} numbers: use 2 to 5"):
        solve(given, low=1, high=9, use_all=True)


def _operations(expression: Expression) -> Iterator[Operation]:
    if isinstance(expression, Operation):
        yield expression
        yield from _operations(expression.left)
        yield from _operations(expression.right)
