"""The 2x2 cube: its turns are those of a real cube, distances are exact, and episodes end as they should."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragen_jax.envs import make_env
from ragen_jax.envs.rubik import (
    FACES,
    MAX_DISTANCE,
    SOLVED,
    TURNS,
    apply_turn,
    is_solved,
    permutation,
    render,
    shells,
    solution,
    stickers,
)

turns = st.lists(st.sampled_from(TURNS), max_size=25)


def _play(cube: bytes, *sequence: str) -> bytes:
    for turn in sequence:
        cube = apply_turn(cube, turn)
    return cube


def _corners(cube: bytes) -> list[frozenset[int]]:
    """Colours that meet at each of the eight corners, in a fixed order."""
    met: dict[tuple[int, int, int], set[int]] = {}
    for (corner, _), colour in zip(stickers(), cube, strict=True):
        met.setdefault(corner, set()).add(colour)
    return [frozenset(met[corner]) for corner in sorted(met)]


@pytest.mark.parametrize("turn", TURNS)
def test_a_turn_has_order_four_and_moves_twelve_stickers(turn: str) -> None:
    labelled = bytes(range(24))
    assert sorted(permutation(turn)) == list(range(24))
    assert sum(a != b for a, b in zip(labelled, _play(labelled, turn), strict=True)) == 12
    assert [_play(labelled, *[turn] * n) == labelled for n in range(1, 5)] == [False, False, False, True]


@pytest.mark.parametrize("face", FACES)
def test_the_apostrophe_turns_back_and_opposite_faces_commute(face: str) -> None:
    labelled = bytes(range(24))
    assert _play(labelled, face, f"{face}'") == labelled
    for one, other in ("UD", "LR", "FB"):
        assert _play(labelled, one, other) == _play(labelled, other, one)


@given(sequence=turns)
@settings(max_examples=25, deadline=None)
def test_turns_keep_the_corner_pieces_whole(sequence: list[str]) -> None:
    cube = _play(SOLVED, *sequence)
    assert sorted(map(sorted, _corners(cube))) == sorted(map(sorted, _corners(SOLVED)))
    assert all(cube.count(colour) == 4 for colour in range(6))


def test_known_sequences() -> None:
    assert _play(SOLVED, *["R", "U", "R'", "U'"] * 6) == SOLVED
    assert _play(SOLVED, *["R", "U", "R'", "U'"] * 3) != SOLVED
    assert _play(SOLVED, *["R'", "D'", "R", "D"] * 6) == SOLVED
    assert _play(SOLVED, *["B", "L", "B'", "L'"] * 6) == SOLVED
    assert is_solved(_play(SOLVED, "U", "D'")), "two layers turned together are a rotation of the whole cube"
    assert is_solved(_play(SOLVED, "B", "F'"))
    assert not is_solved(_play(SOLVED, "U", "D"))


def test_a_turn_in_colours() -> None:
    """U clockwise: the upper row of the front goes to the left, and that of the right comes to the front."""
    shown = {turn: " | ".join(render(_play(SOLVED, turn)).splitlines()) for turn in "UFR"}
    assert shown == {
        "U": "U: WW WW | L: GG OO | F: RR GG | R: BB RR | B: OO BB | D: YY YY",
        "F": "U: WW OO | L: OY OY | F: GG GG | R: WR WR | B: BB BB | D: RR YY",
        "R": "U: WG WG | L: OO OO | F: GY GY | R: RR RR | B: WB WB | D: YB YB",
    }


def test_shells_have_the_known_sizes() -> None:
    """States of the 2x2 cube by quarter turns, as the literature on the cube counts them."""
    assert [len(shell) for shell in shells(6)] == [1, 6, 27, 120, 534, 2256, 8969]


@pytest.mark.slow
def test_all_states_and_the_diameter() -> None:
    """3,674,160 states up to a rotation, the farthest at 14 quarter turns: level by level, as sorted arrays."""
    moves = np.array([permutation(turn) for turn in ("U", "U'", "R", "R'", "F", "F'")])

    def keys_of(cubes: np.ndarray) -> np.ndarray:
        """One number per cube, its colours as digits; 6 ** 24 fits into 63 bits. By columns, to spare memory."""
        total = np.zeros(len(cubes), np.int64)
        for place in range(24):
            total = total * 6 + cubes[:, place]
        return total

    shell = np.frombuffer(SOLVED, np.uint8)[None]
    before, keys = np.empty(0, np.int64), keys_of(shell)
    sizes = [1]
    while len(shell):
        after = shell[:, moves].reshape(-1, 24)
        found, first = np.unique(keys_of(after), return_index=True)
        fresh = ~np.isin(found, np.concatenate([before, keys]))  # a turn leads to a neighbouring level, or stays
        before, keys, shell = keys, found[fresh], after[first[fresh]]
        sizes.append(len(shell))
    assert sum(sizes) == 3_674_160
    assert len(sizes) - 2 == 14


@pytest.mark.parametrize("distance", range(MAX_DISTANCE + 1))
def test_solutions_are_as_short_as_the_distance(distance: int) -> None:
    rng = np.random.default_rng(distance)
    shell = shells(MAX_DISTANCE)[distance]
    for index in rng.integers(len(shell), size=20):
        found = solution(shell[index])
        assert len(found) == distance
        assert is_solved(_play(shell[index], *found))


@given(sequence=turns)
@settings(max_examples=10, deadline=None)
def test_every_state_is_solved_within_fourteen_turns(sequence: list[str]) -> None:
    cube = _play(SOLVED, *sequence)
    found = solution(cube)
    assert is_solved(_play(cube, *found))
    assert len(found) <= min(14, len(sequence))


def test_each_turn_of_a_solution_comes_nearer() -> None:
    cube = _play(SOLVED, "U", "R'", "F", "L", "D", "B'", "R", "U'", "F", "F")
    lengths = [len(solution(cube))]
    for turn in solution(cube):
        cube = apply_turn(cube, turn)
        lengths.append(len(solution(cube)))
    assert [a - b for a, b in pairwise(lengths)] == [1] * lengths[0]


def test_scrambles_have_distances_in_the_range_and_are_never_solved() -> None:
    env = make_env("rubik", min_distance=2, max_distance=4)
    lengths = []
    for seed in range(60):
        env.reset(seed)
        lengths.append(len(solution(env.cube)))
        assert env.step("").info["optimal_length"] == lengths[-1]
    assert set(lengths) == {2, 3, 4}


def test_an_episode() -> None:
    env = make_env("rubik", min_distance=3, max_distance=3)
    env.reset(1)
    first, second, third = solution(env.cube)
    result = env.step(f"{first.lower()} || {second}")
    assert (result.reward, result.done, result.info["action_is_effective"]) == (0.0, False, True)
    result = env.step(f"{third} || U")
    assert (result.reward, result.terminated, result.info["success"]) == (1.0, True, True)
    assert is_solved(env.cube), "nothing is turned behind the solution"


def test_budgets_truncate() -> None:
    env = make_env("rubik", max_turns=2, max_actions_per_turn=3, max_actions=5)
    env.reset(1)
    assert not env.step("U || U || U || U").info["action_is_valid"]
    result = env.step("U || D || D")
    assert (result.terminated, result.truncated, result.reward) == (False, True, 0.0)


def test_turning_back_and_forth_pays_nothing() -> None:
    env = make_env("rubik", max_turns=20, max_actions=40)
    for seed in range(20):
        env.reset(seed)
        earned = 0.0
        while not (result := env.step("U || U'")).done:
            earned += result.reward
        assert earned + result.reward <= 1.0
        assert result.info["success"] == (result.reward == 1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_distance": 0}, "1 <= min_distance"),
        ({"max_distance": 8}, "max_distance <= 7"),
        ({"max_turns": 1, "max_actions_per_turn": 3}, "the budgets allow 3 turns"),
    ],
)
def test_options_without_sense_are_refused(options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_env("rubik", **options)
