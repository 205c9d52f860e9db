"""The Sudoku environment: place digits turn by turn; what is right is said and paid at the end only."""

from __future__ import annotations

import dataclasses
import re
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from ragen_jax.envs.base import Demonstration, Ending, EnvConfig, Observation, StepResult, TextEnv
from ragen_jax.envs.demonstrations import answer_rule, join_actions, with_fillers
from ragen_jax.envs.instances import draw_instance
from ragen_jax.envs.sudoku.puzzles import SIZES, Grid, candidates, draw_puzzle

EMPTY_SHARES = {"easy": 0.4, "medium": 0.5, "hard": 0.6}
"""Share of the cells that a puzzle leaves empty."""

_NUMBER = "([0-9]{1,2})"
_BARE = re.compile(rf"\(?\s*{_NUMBER}\s*,\s*{_NUMBER}\s*,\s*{_NUMBER}\s*\)?")
_IN_WORDS = re.compile(
    rf"(?:place\s+)?{_NUMBER}\s+at\s+(?:row\s+)?\(?\s*{_NUMBER}\s*,?\s*(?:col(?:umn)?\s*)?{_NUMBER}\s*\)?",
    re.IGNORECASE,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SudokuConfig(EnvConfig):
    """Options of Sudoku.

    Attributes:
      size: rows and digits, 4 or 9.
      difficulty: "easy", "medium" or "hard": 40, 50 or 60 % of the cells are empty.
      partial_score: what an unsolved grid pays at the end, times the share of empty cells that are right; below 1.
    """

    max_actions_per_turn: int = 4
    max_actions: int = 20
    size: int = 4
    difficulty: str = "medium"
    partial_score: float = 0.5

    def __post_init__(self) -> None:
        """Refuse values outside their range, and budgets in which no puzzle can be solved."""
        super().__post_init__()
        if self.size not in SIZES:
            raise ValueError(f"size={self.size}: use one of {', '.join(map(str, SIZES))}")
        if self.difficulty not in EMPTY_SHARES:
            raise ValueError(f"difficulty={self.difficulty!r}: use one of {', '.join(EMPTY_SHARES)}")
        if not 0 <= self.partial_score < 1:
            raise ValueError(f"partial_score={self.partial_score}: use 0 or more, less than 1, what a solution pays")
        budget = min(self.max_actions, self.max_turns * self.max_actions_per_turn)
        if self.empty > budget:
            raise ValueError(
                f"size={self.size}, difficulty={self.difficulty!r}: {self.empty} empty cells, but the budgets allow "
                f"{budget} placements; raise max_actions, max_turns or max_actions_per_turn"
            )

    @property
    def empty(self) -> int:
        """Empty cells of a puzzle."""
        return round(EMPTY_SHARES[self.difficulty] * self.size**2)


class Sudoku(TextEnv):
    """Fill the empty cells of a grid that has one solution.

    A placement against the rule, beside an equal digit of its row, column or box, is refused; own digits may be
    replaced or, with digit 0, taken back. Reward comes at the end alone: 1 for the solution, which ends the episode,
    else ``partial_score`` times the share of right cells. So nothing is gained by changing a cell again and again, and
    nothing tells whether a placement that the rule allows is right.

    ``info`` has, beside the common entries, ``placed`` and ``refused`` (placements of this turn) and ``filled`` (share
    of the empty cells that hold a digit), and ``actions_taken``, the refused ones included.
    """

    name: ClassVar[str] = "sudoku"
    Config: ClassVar[type[SudokuConfig]] = SudokuConfig

    @classmethod
    def words(cls, config: SudokuConfig) -> tuple[str, ...]:
        """See ``TextEnv.words``: every sign of a placement and of the grid, and the words of a placement."""
        return (*"0123456789,().|-", "place", "at", "row", "column")

    def __init__(self, config: SudokuConfig) -> None:
        """Make an environment that still has to be reset."""
        self.config: SudokuConfig = config
        self._grid: Grid | None = None
        self._done = True

    def reset(self, seed: int, member: int = 0) -> Observation:
        """Begin the puzzle of ``seed``; without noise all members are alike."""
        self._puzzle, self._solution = _puzzle_of_seed(self.config, seed)
        self._grid = self._puzzle
        self._turns = self._actions = 0
        self._done = False
        return Observation(render(self._puzzle, self._grid))

    def step(self, answer: str) -> StepResult:
        """Place digits; see ``TextEnv.step``."""
        if self._done:
            raise RuntimeError("the episode is over or was never begun: call reset")
        config = self.config
        placements, valid = self._read(answer)
        before = self.grid
        taken: list[str] = []
        refused: list[str] = []
        for row, column, digit in placements[: config.max_actions - self._actions]:
            cell = (row - 1) * config.size + column - 1
            taken.append(f"{row},{column},{digit}")
            if digit == 0 or digit in candidates(self.grid, cell):
                self._grid = (*self.grid[:cell], digit, *self.grid[cell + 1 :])
            else:
                refused.append(taken[-1])
        self._turns += 1
        self._actions += len(taken)
        solved = self.grid == self._solution
        truncated = not solved and (self._turns >= config.max_turns or self._actions >= config.max_actions)
        self._done = solved or truncated
        reward = 1.0 if solved else self._partial_reward() if truncated else 0.0
        info: dict[str, Any] = {
            "success": solved,
            "action_is_valid": valid,
            "action_is_effective": self.grid != before,
            "placed": len(taken) - len(refused),
            "refused": len(refused),
            "filled": 1 - self.grid.count(0) / config.empty,
            "actions_taken": tuple(taken),
        }
        text = render(self._puzzle, self.grid)
        if refused:
            text += f"\nAgainst the rule: {' '.join(refused)}"
        return StepResult(Observation(text), reward=reward, terminated=solved, truncated=truncated, info=info)

    def finish(self) -> Ending:
        """Pay the share of right cells; see ``TextEnv.finish``."""
        self._done = True
        return Ending(reward=self._partial_reward())

    def instructions(self) -> str:
        """Task description; the terse one is empty, tiny policies know the task from their warm start."""
        config = self.config
        if config.instructions == "terse":
            return ""
        box = "2 x 2" if config.size == 4 else "3 x 3"
        partly = f" An unsolved grid pays {config.partial_score:g} times the share of its right cells at the end."
        return "\n".join(
            (
                f"Fill a Sudoku: each row, each column and each box of {box} cells holds the digits 1 to {config.size} "
                "once. There is one solution.",
                "The state shows the rows from the top: a clue is a plain digit, your digits stand in brackets, a dot "
                "is an empty cell. Clues stay; your digits may be replaced, and digit 0 empties a cell. Rows and "
                "columns count from 1, from the top left.",
                "A placement is row,column,digit. " + answer_rule(config, ("2,3,1", "4,1,2")),
                "A placement next to an equal digit in its row, column or box is refused.",
                f"Limits: {config.max_turns} turns and {config.max_actions} placements in all. The solution pays 1."
                + (partly if config.partial_score else ""),
            )
        )

    def canonical(self) -> str:
        """The clues."""
        if self._grid is None:
            raise RuntimeError("no episode was begun: call reset")
        return render(self._puzzle, self._puzzle)

    def demonstrate(self, rng: np.random.Generator, *, skill: float) -> Demonstration:
        """Place right digits, cells with few candidates first, or carelessly any digits in empty cells.

        Own digits that are wrong are mended before anything else.
        """
        config = self.config
        grid = self.grid
        plan: list[tuple[int, int]] = []
        while len(plan) < config.max_actions_per_turn and grid != self._solution:
            cell, digit = self._next_placement(grid)
            grid = (*grid[:cell], digit, *grid[cell + 1 :])
            plan.append((cell, digit))
        first = plan[0][0]
        options = candidates(self.grid, first)
        if rng.random() >= skill:
            digits = rng.integers(1, config.size + 1, size=len(plan)).tolist()
            plan = [(cell, digit) for (cell, _), digit in zip(plan, digits, strict=True)]
        names = [f"{cell // config.size + 1},{cell % config.size + 1},{digit}" for cell, digit in plan]
        row, column = divmod(first, config.size)
        parts = (f"look at {row + 1} {column + 1}", f"may be {' '.join(map(str, options))}", f"so {plan[0][1]}")
        return Demonstration(reasoning=with_fillers(parts, rng), answer=join_actions(names, config.action_separator))

    @property
    def grid(self) -> Grid:
        """The grid as it is now."""
        if self._grid is None:
            raise RuntimeError("no episode was begun: call reset")
        return self._grid

    def _read(self, answer: str) -> tuple[list[tuple[int, int, int]], bool]:
        """Placements (row, column, digit) that can be tried, and whether every piece of the answer is one."""
        config = self.config
        pieces = answer.split() if config.action_separator == " " else answer.split(config.action_separator)
        pieces = [piece for piece in map(str.strip, pieces) if piece]
        read = [placement for piece in pieces[: config.max_actions_per_turn] if (placement := self._placement(piece))]
        return read, bool(read) and len(read) == len(pieces)

    def _placement(self, piece: str) -> tuple[int, int, int] | None:
        """Row, column and digit of one piece; None when it is no placement into a cell without a clue."""
        if match := _BARE.fullmatch(piece):
            row, column, digit = map(int, match.groups())
        elif match := _IN_WORDS.fullmatch(piece):
            digit, row, column = map(int, match.groups())
        else:
            return None
        size = self.config.size
        if not (1 <= row <= size and 1 <= column <= size and digit <= size):
            return None
        return None if self._puzzle[(row - 1) * size + column - 1] else (row, column, digit)

    def _next_placement(self, grid: Grid) -> tuple[int, int]:
        """Cell and digit that bring an unsolved grid nearer to the solution."""
        wrong = [cell for cell, digit in enumerate(grid) if digit and digit != self._solution[cell]]
        for cell in wrong:
            if self._solution[cell] in candidates(grid, cell):
                return cell, self._solution[cell]
        if wrong:  # each stands in the way of another one
            return wrong[0], 0
        empty = [cell for cell, digit in enumerate(grid) if not digit]
        cell = min(empty, key=lambda cell: len(candidates(grid, cell)))
        return cell, self._solution[cell]

    def _partial_reward(self) -> float:
        """What the grid as it is pays: the share of the empty cells of the puzzle that hold their digit."""
        right = sum(
            digit == wanted and not clue
            for digit, wanted, clue in zip(self.grid, self._solution, self._puzzle, strict=True)
        )
        return self.config.partial_score * (right / self.config.empty)


def render(puzzle: Grid, grid: Grid) -> str:
    """Rows of cells with lines between the boxes: clues plain, other digits in brackets, dots for empty cells."""
    size = round(len(grid) ** 0.5)
    box = round(size**0.5)
    cells = [
        f" {clue} " if clue else f"({digit})" if digit else " . " for clue, digit in zip(puzzle, grid, strict=True)
    ]
    lines = []
    for row in range(size):
        if row and row % box == 0:
            lines.append("-" * (3 * size + box - 1))
        line = cells[row * size : (row + 1) * size]
        lines.append("|".join("".join(line[start : start + box]) for start in range(0, size, box)))
    return "\n".join(lines)


@lru_cache(maxsize=4096)
def _puzzle_of_seed(config: SudokuConfig, seed: int) -> tuple[Grid, Grid]:
    """Puzzle and solution. Cached, since all members of a group share it."""
    return draw_instance(
        lambda rng: draw_puzzle(rng, size=config.size, empty=config.empty),
        lambda drawn: render(drawn[0], drawn[0]),
        seed=seed,
        split=config.split,
        validation_percent=config.validation_percent,
    )
