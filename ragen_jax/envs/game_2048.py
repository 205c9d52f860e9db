"""2048: slide the tiles of a board, equal ones merge; reach the goal tile within the budgets."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from ragen_jax.envs.base import Demonstration, EnvConfig, Observation, StepResult, TextEnv, check_replay
from ragen_jax.envs.demonstrations import answer_rule, with_fillers
from ragen_jax.envs.instances import draw_instance, dynamics_rng, replay_rng
from ragen_jax.envs.parsing import split_actions

SIZE = 4
ACTIONS = ("up", "right", "down", "left")
FOUR_SHARE = 0.1
"""Probability that a new tile is a 4, not a 2."""
IDLE_COST = 0.1

Row = tuple[int, ...]
Board = tuple[Row, ...]
"""Rows of tiles from the top; 0 is an empty cell."""


@lru_cache(maxsize=1 << 16)
def merge_left(row: Row) -> tuple[Row, int]:
    """A row after a slide to the left, and the sum of the tiles that merged. No tile merges twice."""
    tiles = [tile for tile in row if tile]
    merged: list[int] = []
    gained, index = 0, 0
    while index < len(tiles):
        if index + 1 < len(tiles) and tiles[index] == tiles[index + 1]:
            merged.append(2 * tiles[index])
            gained += merged[-1]
            index += 2
        else:
            merged.append(tiles[index])
            index += 1
    return tuple(merged) + (0,) * (len(row) - len(merged)), gained


def slide(board: Board, action: str) -> tuple[Board, int]:
    """The board after a slide, without a new tile, and the sum of the tiles that merged.

    Args:
      board: rows from the top.
      action: one of ``ACTIONS``.
    """
    columns = action in ("up", "down")
    backwards = action in ("right", "down")
    lines = list(zip(*board, strict=True)) if columns else list(board)
    slid, gained = [], 0
    for line in lines:
        moved, points = merge_left(line[::-1] if backwards else line)
        slid.append(moved[::-1] if backwards else moved)
        gained += points
    return tuple(zip(*slid, strict=True)) if columns else tuple(slid), gained


def legal_actions(board: Board) -> tuple[str, ...]:
    """The actions that change the board."""
    return tuple(action for action in ACTIONS if slide(board, action)[0] != board)


def add_tile(board: Board, rng: np.random.Generator) -> Board:
    """The board with a 2, or seldom a 4, in an empty cell; all empty cells are equally likely."""
    empty = [(r, c) for r in range(SIZE) for c in range(SIZE) if not board[r][c]]
    row, column = empty[int(rng.integers(len(empty)))]
    tile = 4 if rng.random() < FOUR_SHARE else 2
    return _with_tile(board, row, column, tile)


def best_action(board: Board) -> str:
    """The action with the best outlook: what it merges, and what the two slides behind it will merge on average."""
    slid = {action: slide(board, action)[0] for action in ACTIONS}
    worth = {
        action: _merged(board, action) + _outlook_of_two(after) for action, after in slid.items() if after != board
    }
    return max(worth, key=lambda action: worth[action]) if worth else ACTIONS[0]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Game2048Config(EnvConfig):
    """Options of 2048. The default goal can be reached within the default budgets; the game's own needs about 1,000.

    There are more turns than slides, since a reply may be unusable.

    Attributes:
      goal: tile that ends the episode with success, a power of two from 8 on.
      shared_dynamics: all members of a group meet the same new tiles.
    """

    max_turns: int = 50
    max_actions: int = 40
    goal: int = 64
    shared_dynamics: bool = False

    def __post_init__(self) -> None:
        """Refuse values outside their range, and a goal that the budgets do not allow."""
        super().__post_init__()
        if self.goal < 8 or self.goal & (self.goal - 1):
            raise ValueError(f"goal={self.goal}: use a power of two, 8 or more")
        budget = min(self.max_actions, self.max_turns * self.max_actions_per_turn)
        if self.goal > 4 * (budget + 2):
            raise ValueError(
                f"goal={self.goal}: all tiles of {budget} slides sum up to {4 * (budget + 2)} at most; lower it, or "
                "raise max_actions, max_turns or max_actions_per_turn"
            )


class Game2048(TextEnv):
    """Reach the goal tile, which pays 1; a slide that changes nothing costs 0.1.

    A board without a legal slide ends the episode too.

    ``info`` has, beside the common entries, ``max_tile``, ``score`` (sum of all merged tiles so far), ``stuck`` and
    ``actions_taken``.
    """

    name: ClassVar[str] = "game_2048"
    Config: ClassVar[type[Game2048Config]] = Game2048Config

    @classmethod
    def words(cls, config: Game2048Config) -> tuple[str, ...]:
        """See ``TextEnv.words``; tiles are symbols."""
        return (*ACTIONS, ".", *(str(2**power) for power in range(1, config.goal.bit_length())))

    def __init__(self, config: Game2048Config) -> None:
        """Make an environment that still has to be reset."""
        self.config: Game2048Config = config
        self._board: Board | None = None
        self._done = True

    def reset(self, seed: int, member: int = 0) -> Observation:
        """Begin with the two tiles of ``seed``; the new tiles come from ``(seed, member)``."""
        self._begin(seed, dynamics_rng(seed, 0 if self.config.shared_dynamics else member))
        return self._observe()

    def step(self, answer: str) -> StepResult:
        """Slide; see ``TextEnv.step``."""
        if self._done:
            raise RuntimeError("the episode is over or was never begun: call reset")
        config = self.config
        parsed = split_actions(
            answer, separator=config.action_separator, limit=config.max_actions_per_turn, names=ACTIONS
        )
        before, reward, taken = self.board, 0.0, []
        for action in parsed.actions[: config.max_actions - self._actions]:
            reward += self._slide(ACTIONS[action])
            taken.append(ACTIONS[action])
            if self._won or not legal_actions(self.board):
                break
        self._turns += 1
        stuck = not legal_actions(self.board)
        terminated = self._won or stuck
        truncated = not terminated and (self._turns >= config.max_turns or self._actions >= config.max_actions)
        self._done = terminated or truncated
        info: dict[str, Any] = {
            "success": self._won,
            "action_is_valid": parsed.valid,
            "action_is_effective": self.board != before,
            "max_tile": max(map(max, self.board)),
            "score": self._score,
            "stuck": stuck,
            "actions_taken": tuple(taken),
        }
        return StepResult(self._observe(), reward=reward, terminated=terminated, truncated=truncated, info=info)

    def instructions(self) -> str:
        """Task description; the terse one is empty, tiny policies know the task from their warm start."""
        config = self.config
        if config.instructions == "terse":
            return ""
        return "\n".join(
            (
                f"Play 2048 on a board of {SIZE} x {SIZE} cells until a tile shows {config.goal}.",
                "A slide pushes all tiles to one side; two equal tiles that meet become one with their sum. After a "
                f"slide that changes the board a new tile appears in an empty cell: 2, or seldom 4. "
                f"The tile {config.goal} pays 1, and a slide that changes nothing costs {IDLE_COST}.",
                "The state shows the rows from the top; a dot is an empty cell.",
                f"Actions: {', '.join(ACTIONS)}. {answer_rule(config, ('left', 'down'))}",
                f"Limits: {config.max_turns} turns and {config.max_actions} actions in all.",
            )
        )

    def canonical(self) -> str:
        """The board at the start."""
        if self._board is None:
            raise RuntimeError("no episode was begun: call reset")
        return render(self._start)

    def demonstrate(self, rng: np.random.Generator, *, skill: float) -> Demonstration:
        """Name the largest tile and the slides that change something, and make the best one, or carelessly any.

        One slide at a time, since nobody knows the new tile.
        """
        legal = legal_actions(self.board)
        action = best_action(self.board) if rng.random() < skill else ACTIONS[int(rng.integers(len(ACTIONS)))]
        largest = max(map(max, self.board))
        row = next(index for index, tiles in enumerate(self.board, start=1) if largest in tiles)
        parts = (f"largest {largest} in row {row}", f"can go {' '.join(legal)}", f"so {action}")
        return Demonstration(reasoning=with_fillers(parts, rng), answer=action)

    def replay(self, plan: Sequence[str], *, seed: int, member: int, draws: int) -> np.ndarray:
        """Play a one-turn plan ``draws`` times with fresh tiles; see ``TextEnv.replay``."""
        check_replay(self.name, self.config, plan, draws)
        rng = replay_rng(seed, member)
        rewards = np.zeros(draws)
        game = Game2048(self.config)
        for draw in range(draws if plan else 0):
            game._begin(seed, rng)
            rewards[draw] = game.step(plan[0]).reward
        return rewards

    @property
    def board(self) -> Board:
        """The board as it is now."""
        if self._board is None:
            raise RuntimeError("no episode was begun: call reset")
        return self._board

    def _begin(self, seed: int, rng: np.random.Generator) -> None:
        self._start = self._board = _start_of_seed(self.config, seed)
        self._rng = rng
        self._turns = self._actions = self._score = 0
        self._won = self._done = False

    def _slide(self, action: str) -> float:
        """Slide once; the reward."""
        self._actions += 1
        moved, gained = slide(self.board, action)
        if moved == self.board:
            return -IDLE_COST
        self._won = max(map(max, moved)) >= self.config.goal
        self._score += gained
        self._board = add_tile(moved, self._rng)
        return float(self._won)

    def _observe(self) -> Observation:
        return Observation(f"{render(self.board)}\nLargest tile: {max(map(max, self.board))}")


def render(board: Board) -> str:
    """Rows of tiles with blanks between them, a dot for an empty cell."""
    return "\n".join(" ".join(str(tile) if tile else "." for tile in row) for row in board)


@lru_cache(maxsize=4096)
def _start_of_seed(config: Game2048Config, seed: int) -> Board:
    """Two tiles on an empty board. Cached, since all members of a group share it."""
    empty: Board = ((0,) * SIZE,) * SIZE
    return draw_instance(
        lambda rng: add_tile(add_tile(empty, rng), rng),
        render,
        seed=seed,
        split=config.split,
        validation_percent=config.validation_percent,
    )


@lru_cache(maxsize=1 << 16)
def _growth(line: Row) -> int:
    """By how much a slide along a line raises the sum of the squared tiles; to both sides alike.

    Two tiles t that merge raise it by ``(2t)^2 - 2t^2``. For the near goals of a short episode no other worth of a
    board did better.
    """
    return sum(tile * tile for tile in merge_left(line)[0]) - sum(tile * tile for tile in line)


def _merged(board: Board, action: str) -> int:
    """What a slide merges, in squares."""
    return sum(map(_growth, zip(*board, strict=True) if action in ("up", "down") else board))


def _outlook_of_two(board: Board) -> float:
    """What the best slide and the one behind it merge, in squares: the mean over the places of a new 2."""
    empty = [(r, c) for r in range(SIZE) for c in range(SIZE) if not board[r][c]]
    total = 0.0
    for row, column in empty:
        after = _with_tile(board, row, column, 2)
        slid = ((action, slide(after, action)[0]) for action in ACTIONS)
        total += max((_merged(after, action) + _outlook(last) for action, last in slid if last != after), default=0.0)
    return total / len(empty)


def _outlook(board: Board) -> float:
    """What the best slide merges, in squares: the mean over the places of a new 2.

    The new tile changes its own row and column only; left and right merge the same, and so do up and down.
    """
    columns: Board = tuple(zip(*board, strict=True))
    across, down = [_growth(row) for row in board], [_growth(column) for column in columns]
    all_across, all_down = sum(across), sum(down)
    total, empty = 0, 0
    for r, row in enumerate(board):
        for c, tile in enumerate(row):
            if not tile:
                empty += 1
                wide = all_across - across[r] + _growth((*row[:c], 2, *row[c + 1 :]))
                high = all_down - down[c] + _growth((*columns[c][:r], 2, *columns[c][r + 1 :]))
                total += max(wide, high)
    return total / empty


def _with_tile(board: Board, row: int, column: int, tile: int) -> Board:
    line = (*board[row][:column], tile, *board[row][column + 1 :])
    return (*board[:row], line, *board[row + 1 :])
