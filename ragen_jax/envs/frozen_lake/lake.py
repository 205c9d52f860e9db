"""The lake itself: maps, moves, shortest paths and the exact transition table. No text, no episode."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Sequence
from functools import cached_property, lru_cache

import numpy as np

Cell = tuple[int, int]  # (row, column), from the top left

ACTIONS = ("left", "down", "right", "up")  # neighbours in this circle are perpendicular
MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))


@dataclasses.dataclass(frozen=True)
class Lake:
    """One map.

    Attributes:
      size: rows and columns.
      start: where the player begins.
      goal: where the player should go.
      holes: cells that end the episode.
      locked: the goal pays nothing and is no success.
    """

    size: int
    start: Cell
    goal: Cell
    holes: frozenset[Cell]
    locked: bool = False

    def neighbour(self, cell: Cell, action: int) -> Cell:
        """Cell that a move without a slip leads to; a move against the edge stays."""
        row, column = cell[0] + MOVES[action][0], cell[1] + MOVES[action][1]
        return (row, column) if 0 <= row < self.size and 0 <= column < self.size else cell

    @cached_property
    def distances(self) -> dict[Cell, int]:
        """Fewest moves to the goal around the holes, for each cell from which the goal can be reached."""
        found = {self.goal: 0}
        queue = deque([self.goal])
        while queue:
            cell = queue.popleft()
            for action in range(len(ACTIONS)):
                nearby = self.neighbour(cell, action)
                if nearby not in found and nearby not in self.holes:
                    found[nearby] = found[cell] + 1
                    queue.append(nearby)
        return found

    def shortest_path(self, cell: Cell) -> list[int]:
        """Actions of a shortest path from a cell of ``distances`` to the goal."""
        path = []
        while cell != self.goal:
            action = next(
                a
                for a in range(len(ACTIONS))
                if self.distances.get(self.neighbour(cell, a), -1) == self.distances[cell] - 1
            )
            path.append(action)
            cell = self.neighbour(cell, action)
        return path

    def map_text(self) -> str:
        """The map in letters (start, frozen, hole, goal), one row a line; says nothing about the lock."""
        letters = {self.start: "S", self.goal: "G"} | dict.fromkeys(self.holes, "H")
        return "\n".join("".join(letters.get((r, c), "F") for c in range(self.size)) for r in range(self.size))


@dataclasses.dataclass(frozen=True)
class TransitionTable:
    """Exact dynamics over S cells (row by row) and four actions, each with three outcomes.

    The outcomes of action a are the directions a - 1, a, a + 1 (modulo 4): slipped to one side, as meant, slipped to
    the other side. Holes and the goal are absorbing.

    Attributes:
      probabilities: [3] float64.
      next_states: [S, 4, 3] int64.
      rewards: [S, 4, 3] float64.
      terminal: [S] bool, holes and goal.
    """

    probabilities: np.ndarray
    next_states: np.ndarray
    rewards: np.ndarray
    terminal: np.ndarray

    def optimal_success(self, *, horizon: int) -> np.ndarray:
        """Best chance to collect the goal's reward within ``horizon`` moves, [S]; value iteration, undiscounted."""
        values = np.zeros(len(self.terminal))
        for _ in range(horizon):
            outcomes = self.rewards + values[self.next_states]
            values = np.where(self.terminal, 0.0, (outcomes @ self.probabilities).max(axis=1))
        return values

    def plan_value(self, start: int, plan: Sequence[int]) -> float:
        """Expected reward of walking a plan of actions from a cell; follows the distribution over cells."""
        standing = np.zeros(len(self.terminal))
        standing[start] = 1.0
        value = 0.0
        for action in plan:
            mass = standing[:, None] * self.probabilities
            value += float((mass * self.rewards[:, action]).sum())
            standing = np.zeros_like(standing)
            np.add.at(standing, self.next_states[:, action], mass)
        return value


def walk(lake: Lake, slip_rate: float, plan: Sequence[int], rng: np.random.Generator, draws: int) -> np.ndarray:
    """Rewards [draws] float64 of walking a plan of actions from the start so many times, each with its own slips."""
    table = _shared_table(lake, slip_rate=slip_rate)
    state = np.full(draws, lake.start[0] * lake.size + lake.start[1])
    rewards = np.zeros(draws)
    for action in plan:
        outcome = np.searchsorted(np.cumsum(table.probabilities)[:2], rng.random(draws), side="right")
        rewards += table.rewards[state, action, outcome]
        state = table.next_states[state, action, outcome]
    return rewards


def transition_table(lake: Lake, *, slip_rate: float) -> TransitionTable:
    """Transition table of a lake whose moves slip with probability ``slip_rate``, half of it to each side."""
    size = lake.size
    cells = [(row, column) for row in range(size) for column in range(size)]
    terminal = np.array([cell == lake.goal or cell in lake.holes for cell in cells])
    next_states = np.empty((len(cells), len(ACTIONS), 3), dtype=np.int64)
    for state, cell in enumerate(cells):
        for action in range(len(ACTIONS)):
            for outcome, turn in enumerate((-1, 0, 1)):
                row, column = cell if terminal[state] else lake.neighbour(cell, (action + turn) % len(ACTIONS))
                next_states[state, action, outcome] = row * size + column
    goal = lake.goal[0] * size + lake.goal[1]
    reached = (next_states == goal) & ~terminal[:, None, None]
    rewards = np.zeros_like(reached, dtype=np.float64) if lake.locked else reached.astype(np.float64)
    probabilities = np.array([slip_rate / 2, 1 - slip_rate, slip_rate / 2])
    return TransitionTable(probabilities=probabilities, next_states=next_states, rewards=rewards, terminal=terminal)


_shared_table = lru_cache(maxsize=1024)(transition_table)  # read only: the plans of a group walk one lake


def draw_lake(
    rng: np.random.Generator, *, size: int, frozen_share: float, min_path_len: int, min_holes: int
) -> Lake | None:
    """Draw a map: each cell frozen with probability ``frozen_share``, start and goal anywhere, both frozen.

    Returns:
      None when holes cut the goal off, or when path or holes are fewer than asked.
    """
    is_hole = rng.random((size, size)) >= frozen_share
    start, goal = divmod(int(rng.integers(size * size)), size), divmod(int(rng.integers(size * size)), size)
    if start == goal:
        return None
    holes = {(int(row), int(column)) for row, column in np.argwhere(is_hole)} - {start, goal}
    lake = Lake(size=size, start=start, goal=goal, holes=frozenset(holes))
    if len(holes) < min_holes or lake.distances.get(start, 0) < min_path_len:
        return None
    return lake
