"""Episodes of Sudoku: placements in both spellings, refusals, no reward before the end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragen_jax.envs import make_env
from ragen_jax.envs.sudoku import Sudoku
from ragen_jax.envs.sudoku.puzzles import candidates


def _env(seed: int = 1, **options: object) -> Sudoku:
    env = make_env("sudoku", **options)
    assert isinstance(env, Sudoku)
    env.reset(seed)
    return env


def _empty(env: Sudoku) -> list[tuple[int, int, int]]:
    """(row, column, right digit) of the empty cells."""
    size = env.config.size
    return [
        (cell // size + 1, cell % size + 1, env._solution[cell]) for cell, digit in enumerate(env.grid) if not digit
    ]


def _wrong_but_allowed(env: Sudoku) -> tuple[int, int, int]:
    """A placement that the rule allows and the solution does not have."""
    return next(
        (row, column, digit)
        for row, column, right in _empty(env)
        for digit in candidates(env.grid, (row - 1) * env.config.size + column - 1)
        if digit != right
    )


@pytest.mark.parametrize(
    "spelling",
    [
        "{r},{c},{d}",
        "({r}, {c}, {d})",
        "place {d} at row {r} col {c}",
        "Place {d} at row {r} column {c}",
        "place {d} at ({r}, {c})",
        "{d} at {r},{c}",
    ],
)
def test_spellings(spelling: str) -> None:
    env = _env()
    row, column, digit = _empty(env)[0]
    result = env.step(spelling.format(r=row, c=column, d=digit))
    assert result.info["action_is_valid"]
    assert result.info["placed"] == 1
    assert f"({digit})" in result.observation.text.splitlines()[row - 1 + (row > 2)]


@pytest.mark.parametrize("piece", ["1,1", "0,1,1", "5,1,1", "1,1,5", "1;1;1", "1,1,1,1", "one", "1 1 1", "\u0661,1,1"])
def test_what_is_no_placement_is_not_valid(piece: str) -> None:
    env = _env()
    before = env.grid
    result = env.step(piece)
    assert not result.info["action_is_valid"]
    assert not result.info["action_is_effective"]
    assert env.grid == before


def test_clues_stay() -> None:
    env = _env()
    cell = next(cell for cell, digit in enumerate(env.grid) if digit)
    for digit in range(5):
        env = _env()
        assert not env.step(f"{cell // 4 + 1},{cell % 4 + 1},{digit}").info["action_is_valid"]
        assert env.grid == env._puzzle


def test_a_clash_is_refused_and_said() -> None:
    env = _env()
    row, column, _ = _empty(env)[0]
    clash = next(d for d in range(1, 5) if d not in candidates(env.grid, (row - 1) * 4 + column - 1))
    result = env.step(f"{row},{column},{clash}")
    assert (result.info["placed"], result.info["refused"]) == (0, 1)
    assert result.info["action_is_valid"]
    assert f"Against the rule: {row},{column},{clash}" in result.observation.text


def test_a_solution_pays_one_and_ends() -> None:
    env = _env()
    cells = _empty(env)
    results = []
    for start in (0, 4):
        results.append(env.step(" || ".join(f"{r},{c},{d}" for r, c, d in cells[start : start + 4])))
    assert [result.reward for result in results] == [0.0, 1.0]
    assert results[1].terminated
    assert results[1].info["success"]


def test_nothing_before_the_end_tells_whether_a_placement_is_right() -> None:
    """Reward and info after a right and a wrong, but allowed, first placement are the same."""
    compared = 0
    for seed in range(30):
        env = _env(seed, difficulty="hard")
        try:
            row, column, wrong = _wrong_but_allowed(env)
        except StopIteration:
            continue
        outcomes = []
        for digit in (wrong, env._solution[(row - 1) * 4 + column - 1]):
            env = _env(seed, difficulty="hard")
            result = env.step(f"{row},{column},{digit}")
            assert result.info.pop("actions_taken") == (f"{row},{column},{digit}",)
            outcomes.append((result.reward, result.done, result.info, result.observation.text.replace(str(digit), "")))
        assert outcomes[0][:3] == outcomes[1][:3]
        compared += 1
    assert compared > 10


def test_changing_a_cell_again_and_again_pays_nothing_more() -> None:
    env = _env(2, difficulty="hard")
    row, column, wrong = _wrong_but_allowed(env)
    right = env._solution[(row - 1) * 4 + column - 1]
    rewards = [env.step(f"{row},{column},{digit}").reward for digit in (wrong, right, wrong, right)]
    last = env.step(f"{row},{column},{right}")
    assert rewards == [0.0] * 4
    assert last.truncated
    assert last.reward == pytest.approx(0.5 / env.config.empty)


def test_a_cell_can_be_emptied() -> None:
    env = _env()
    row, column, digit = _empty(env)[0]
    assert env.step(f"{row},{column},{digit} || {row},{column},0").info["placed"] == 2
    assert env.grid == env._puzzle


def test_partial_score_can_be_off() -> None:
    env = _env(partial_score=0.0, max_turns=2)
    row, column, digit = _empty(env)[0]
    env.step(f"{row},{column},{digit}")
    assert env.step("").reward == 0.0
    assert "An unsolved grid" not in env.instructions()


@pytest.mark.parametrize("size", [4, 9])
def test_a_careful_player_mends_what_a_careless_one_did(size: int) -> None:
    budget = {"max_turns": 60, "max_actions_per_turn": 4, "max_actions": 240}
    for seed in range(6):
        env = _env(seed, size=size, **budget)
        rng = np.random.default_rng(seed)
        for _ in range(5):
            if env.step(env.demonstrate(rng, skill=0.0).answer).done:
                break
        while not env._done:
            result = env.step(env.demonstrate(rng, skill=1.0).answer)
            assert not result.info["refused"]
        assert env.grid == env._solution


def test_random_placements_seldom_solve() -> None:
    rng = np.random.default_rng(0)
    solved, earned = [], []
    for seed in range(60):
        env = _env(seed)
        while not (result := env.step(env.demonstrate(rng, skill=0.0).answer)).done:
            pass
        solved.append(result.info["success"])
        earned.append(result.reward)
    assert np.mean(solved) < 0.3
    assert np.mean(earned) < 0.6


@given(text=st.text(alphabet="0123456789,() |placetrowcolumn", max_size=60))
@settings(max_examples=25, deadline=None)
def test_any_text_leaves_a_grid_that_obeys_the_rule(text: str) -> None:
    env = _env()
    env.step(text)
    assert all(not digit or digit in candidates(env.grid, cell) for cell, digit in enumerate(env.grid))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 5}, "use one of 4, 9"),
        ({"difficulty": "evil"}, "use one of easy, medium, hard"),
        ({"partial_score": 1.0}, "less than 1"),
        ({"size": 9}, "40 empty cells, but the budgets allow 20"),
        ({"max_actions": 7}, "8 empty cells, but the budgets allow 7"),
    ],
)
def test_options_without_sense_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_env("sudoku", **options)
