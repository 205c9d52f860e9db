"""2048: known slides and boards, new tiles, rewards, ends, and players."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ragen_jax.envs import make_env
from ragen_jax.envs.game_2048 import ACTIONS, Board, Game2048, add_tile, best_action, legal_actions, merge_left, slide

rows = st.lists(st.sampled_from((0, 0, 2, 4, 8, 16)), min_size=4, max_size=4).map(tuple)
boards = st.lists(rows, min_size=4, max_size=4).map(tuple)


@pytest.mark.parametrize(
    ("row", "after", "points"),
    [
        ((0, 0, 0, 0), (0, 0, 0, 0), 0),
        ((0, 2, 0, 2), (4, 0, 0, 0), 4),
        ((2, 2, 2, 0), (4, 2, 0, 0), 4),
        ((2, 2, 2, 2), (4, 4, 0, 0), 8),
        ((4, 2, 2, 0), (4, 4, 0, 0), 4),  # the new 4 does not merge again
        ((2, 4, 8, 16), (2, 4, 8, 16), 0),
        ((8, 0, 8, 8), (16, 8, 0, 0), 16),
    ],
)
def test_known_rows(row: tuple[int, ...], after: tuple[int, ...], points: int) -> None:
    assert merge_left(row) == (after, points)


def test_a_known_board_in_four_directions() -> None:
    board: Board = ((2, 0, 0, 2), (4, 0, 2, 0), (0, 0, 2, 0), (4, 8, 0, 2))
    assert slide(board, "left") == (((4, 0, 0, 0), (4, 2, 0, 0), (2, 0, 0, 0), (4, 8, 2, 0)), 4)
    assert slide(board, "right") == (((0, 0, 0, 4), (0, 0, 4, 2), (0, 0, 0, 2), (0, 4, 8, 2)), 4)
    assert slide(board, "up") == (((2, 8, 4, 4), (8, 0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0)), 16)
    assert slide(board, "down") == (((0, 0, 0, 0), (0, 0, 0, 0), (2, 0, 0, 0), (8, 8, 4, 4)), 16)


def _oracle(board: np.ndarray, quarter_turns: int) -> tuple[np.ndarray, int]:
    """Slide to the left of the board turned counterclockwise, tile by tile: a pair of neighbours merges once."""
    turned, points = np.rot90(board, quarter_turns).copy(), 0
    for row in turned:
        stack: list[list[int]] = []  # [tile, may still merge]
        for tile in row[row > 0]:
            if stack and stack[-1] == [tile, 1]:
                stack[-1] = [2 * tile, 0]
                points += 2 * int(tile)
            else:
                stack.append([int(tile), 1])
        row[:] = [tile for tile, _ in stack] + [0] * (4 - len(stack))
    return np.rot90(turned, -quarter_turns), points


@given(board=boards)
@settings(max_examples=25, deadline=None)
def test_slides_agree_with_an_array_oracle(board: Board) -> None:
    for action, quarter_turns in (("left", 0), ("up", 1), ("right", 2), ("down", 3)):
        expected, points = _oracle(np.array(board), quarter_turns)
        after, gained = slide(board, action)
        assert np.array_equal(after, expected)
        assert gained == points
        assert sum(map(sum, after)) == sum(map(sum, board)), "tiles keep their sum"


def test_new_tiles_are_twos_and_seldom_fours_in_empty_cells() -> None:
    board: Board = ((2, 0, 2, 2), (2, 2, 2, 2), (2, 2, 2, 2), (2, 2, 2, 0))
    rng = np.random.default_rng(0)
    fours = places = 0
    for _ in range(2000):
        after = add_tile(board, rng)
        changed = [(r, c) for r in range(4) for c in range(4) if after[r][c] != board[r][c]]
        assert changed in ([(0, 1)], [(3, 3)])
        places += changed == [(0, 1)]
        fours += after[changed[0][0]][changed[0][1]] == 4
    assert abs(places - 1000) < 3 * math.sqrt(2000 / 4)
    assert abs(fours - 200) < 3 * math.sqrt(2000 * 0.09)


def _on(board: Board, **options: object) -> Game2048:
    env = make_env("game_2048", **options)
    assert isinstance(env, Game2048)
    env.reset(0)
    env._board = board
    return env


def test_a_full_board_without_a_merge_ends() -> None:
    stuck: Board = ((2, 4, 2, 4), (4, 2, 4, 2), (2, 4, 2, 4), (4, 2, 4, 2))
    assert legal_actions(stuck) == ()
    nearly: Board = ((2, 4, 2, 4), (4, 2, 4, 2), (2, 4, 2, 4), (4, 2, 8, 8))
    assert legal_actions(nearly) == ("right", "left")
    result = _on(stuck).step("left")
    assert (result.terminated, result.info["success"], result.info["stuck"]) == (True, False, True)
    assert best_action(stuck) in ACTIONS


def test_reaching_the_goal_ends_with_success() -> None:
    board: Board = ((32, 32, 0, 0), (0,) * 4, (0,) * 4, (0,) * 4)
    result = _on(board).step("left || up")
    assert (result.reward, result.terminated, result.info["success"]) == (1.0, True, True)
    assert (result.info["max_tile"], result.info["score"]) == (64, 64)


def test_an_idle_slide_costs_and_brings_no_tile() -> None:
    board: Board = ((2, 0, 0, 0), (4, 0, 0, 0), (0,) * 4, (0,) * 4)
    env = _on(board)
    result = env.step("left || left")
    assert result.reward == pytest.approx(-0.2)
    assert env.board == board
    assert result.info["action_is_valid"]
    assert not result.info["action_is_effective"]


def test_members_share_the_start_and_not_the_new_tiles() -> None:
    boards = set()
    for member in range(8):
        env = make_env("game_2048")
        start = env.reset(3, member)
        assert start.text == env.reset(3, 0).text
        env.reset(3, member)
        env.step("left || up")
        boards.add(env.board)
    assert len(boards) > 4
    shared = [make_env("game_2048", shared_dynamics=True) for _ in range(2)]
    texts = [(env.reset(3, member).text, env.step("left || up").observation.text) for member, env in enumerate(shared)]
    assert texts[0] == texts[1]


def test_replays_of_a_plan_vary_and_leave_the_episode_alone() -> None:
    env = make_env("game_2048", max_turns=1, max_actions_per_turn=10, max_actions=10, goal=8)
    env.reset(3)
    before = env.board
    plan = ["left || up || left || up || left || up"]
    rewards = env.replay(plan, seed=3, member=0, draws=20)
    assert len(set(rewards.tolist())) > 3
    assert np.array_equal(rewards, env.replay(plan, seed=3, member=0, draws=20))
    assert env.board == before
    assert env.replay([], seed=3, member=0, draws=4).tolist() == [0.0] * 4
    with pytest.raises(ValueError, match="max_turns=1"):
        make_env("game_2048").replay(plan, seed=3, member=0, draws=2)


def test_players() -> None:
    """A good player reaches the goal; one that cycles through all actions seldom does, a random one hardly ever."""
    blind = {"to and fro": ("left", "right"), "cycle": ("right", "down", "left", "up"), "other": ACTIONS}
    success = {}
    for name in ("good", "random", *blind):
        rng = np.random.default_rng(0)
        won = []
        for seed in range(30 if name == "good" else 60):
            env = make_env("game_2048")
            env.reset(seed)
            for turn in itertools.count():
                if name in blind:
                    answer = blind[name][turn % len(blind[name])]
                else:
                    answer = env.demonstrate(rng, skill=float(name == "good")).answer
                if (result := env.step(answer)).done:
                    break
            won.append(result.info["success"])
        success[name] = np.mean(won)
    assert success["good"] >= 0.85
    assert success["random"] < 0.1
    assert success["to and fro"] == 0
    assert 0 < success["cycle"] < 0.45 and success["other"] < 0.45


_tiles = st.sampled_from([0, 0, 0, 2, 2, 4, 8])
_boards = st.tuples(*[st.tuples(*[_tiles] * 4)] * 4)


@given(_boards)
@settings(max_examples=25, deadline=None)
def test_the_best_action_merges_most_in_three_slides(board: Board) -> None:
    """The same search without any short cut: squares after the last slide, averaged over the places of new twos."""

    def squares(tiles: Board) -> int:
        return sum(tile * tile for row in tiles for tile in row)

    def outlook(tiles: Board, ahead: int) -> float:
        grown = []
        for r, c in [(r, c) for r in range(4) for c in range(4) if not tiles[r][c]]:
            after = tuple(tuple(2 if (i, j) == (r, c) else tiles[i][j] for j in range(4)) for i in range(4))
            slid = [slide(after, action)[0] for action in legal_actions(after)]
            further = [squares(new) - squares(after) + (outlook(new, ahead - 1) if ahead > 1 else 0) for new in slid]
            grown.append(max(further, default=0))
        return sum(grown) / len(grown)

    legal = legal_actions(board)
    assume(len(legal) > 1 and sum(not tile for row in board for tile in row) < 8)  # the plain search takes its time
    worth = {}
    for action in legal:
        after = slide(board, action)[0]
        worth[action] = squares(after) - squares(board) + outlook(after, 2)
    assert worth[best_action(board)] == pytest.approx(max(worth.values()))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"goal": 48}, "power of two"),
        ({"goal": 4}, "8 or more"),
        ({"goal": 2048}, "168 at most"),
    ],
)
def test_options_without_sense_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_env("game_2048", **options)
