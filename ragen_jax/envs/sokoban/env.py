"""The Sokoban environment: episode, instructions and demonstrations."""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

import numpy as np

from ragen_jax.envs.base import Demonstration, Observation, StepResult, TextEnv
from ragen_jax.envs.data_source import DataSource
from ragen_jax.envs.demonstrations import answer_rule, join_actions, with_fillers
from ragen_jax.envs.instances import draw_instance
from ragen_jax.envs.parsing import split_actions
from ragen_jax.envs.sokoban import rules, views
from ragen_jax.envs.sokoban.config import SokobanConfig
from ragen_jax.envs.sokoban.generator import generate
from ragen_jax.envs.sokoban.levels import load_levels
from ragen_jax.envs.sokoban.render import render
from ragen_jax.envs.sokoban.rules import ACTIONS, Puzzle, State
from ragen_jax.envs.sokoban.solver import SearchLimitError, shortest_solution

STEP_REWARD = -0.1  # every action, also one that changes nothing
BOX_REWARD = 1.0  # a box came onto a target; the negative when one left
SOLVED_REWARD = 10.0  # all boxes are on targets, in addition

_DEMONSTRATION_STATES = 20_000  # search limit of a demonstration, about 0.2 s


@lru_cache(maxsize=4096)
def puzzle_of_seed(config: SokobanConfig, seed: int) -> Puzzle:
    """The puzzle of a seed. Cached, since all members of a group share it.

    Raises:
      ValueError: when the options ask for rooms that cannot be drawn, or the level file is missing or broken.
    """
    if not config.level_file:
        return generate(config, seed)
    levels = load_levels(config.level_file).rows
    return draw_instance(
        lambda rng: levels[rng.integers(len(levels))],
        Puzzle.text,
        seed=seed,
        split=config.split,
        validation_percent=config.validation_percent,
        rows=len(levels),
    )


class Sokoban(TextEnv):
    """Push every box onto a target; the dynamics have no noise.

    Each action costs 0.1. A box that comes onto a target pays 1, one that leaves it costs 1, and 10 are added when all
    are on targets, which ends the episode: n optimal moves in a room with one box return ``11 - 0.1 n``.

    ``info`` has, beside the common entries (effective: the player moved): ``boxes_on_target``, ``deadlock`` (a box is
    stuck in a corner off target), ``optimal_length`` (actions of the shortest solution from the start; left out where
    none is known: unsolvable rooms and level files) and ``actions_taken``.
    An answer with too many actions runs the first ``max_actions_per_turn`` and counts as not valid.
    """

    name: ClassVar[str] = "sokoban"
    Config: ClassVar[type[SokobanConfig]] = SokobanConfig

    @classmethod
    def words(cls, config: SokobanConfig) -> tuple[str, ...]:
        """See ``TextEnv.words``."""
        return ACTIONS + views.symbols(style=config.observation_format, vocabulary=config.vocabulary)

    def __init__(self, config: SokobanConfig) -> None:
        """Make an environment that still has to be reset."""
        self.config: SokobanConfig = config
        self._puzzle: Puzzle | None = None
        self._done = True

    def reset(self, seed: int, member: int = 0) -> Observation:
        """Begin the puzzle of ``seed``; without noise all members are alike."""
        self._puzzle = puzzle_of_seed(self.config, seed)
        self._state = self._puzzle.start
        self._turns = self._actions = 0
        self._done = False
        return self._observe()

    def step(self, answer: str) -> StepResult:
        """Move; see ``TextEnv.step``."""
        if self._done:
            raise RuntimeError("the episode is over or was never begun: call reset")
        config, room = self.config, self.puzzle.room
        parsed = split_actions(
            answer, separator=config.action_separator, limit=config.max_actions_per_turn, names=ACTIONS
        )
        reward, effective, taken = 0.0, False, []
        for action in parsed.actions[: config.max_actions - self._actions]:
            gain, moved = self._act(action)
            reward += gain
            effective = effective or moved
            taken.append(ACTIONS[action])
            if self._ended():
                break
        self._turns += 1
        self._actions += len(taken)
        terminated = self._ended()
        truncated = not terminated and (self._turns >= config.max_turns or self._actions >= config.max_actions)
        self._done = terminated or truncated
        info = {
            "success": rules.is_solved(room, self._state),
            "action_is_valid": parsed.valid,
            "action_is_effective": effective,
            "boxes_on_target": rules.boxes_on_targets(room, self._state),
            "deadlock": rules.corner_deadlock(room, self._state),
            "actions_taken": tuple(taken),
        }
        if self.puzzle.optimal_length is not None:
            info["optimal_length"] = self.puzzle.optimal_length
        return StepResult(self._observe(), reward=reward, terminated=terminated, truncated=truncated, info=info)

    def instructions(self) -> str:
        """Task description; the terse one is empty, tiny policies know the task from their warm start."""
        config = self.config
        if config.instructions == "terse":
            return ""
        lines = [
            "You are in a warehouse full of boxes. Bring every box onto a target. "
            "Step towards a box next to you to push it one cell. You cannot pull, "
            "and a box moves only when the cell behind it is free of walls and boxes.",
            views.legend(
                height=config.height,
                width=config.width,
                style=config.observation_format,
                vocabulary=config.vocabulary,
            ),
            f"Actions: {', '.join(ACTIONS)}. {answer_rule(config, ('left', 'up'))}",
            f"Limits: {config.max_turns} turns and {config.max_actions} actions in all. Each action costs "
            f"{-STEP_REWARD:g}; a box that comes onto a target pays {BOX_REWARD:g}, one that leaves it "
            f"costs {BOX_REWARD:g}, and all on targets pay {SOLVED_REWARD:g} more.",
        ]
        if config.end_on_deadlock:
            lines.append("A box that is stuck in a corner off target ends the episode.")
        return "\n".join(lines)

    def canonical(self) -> str:
        """The board at the start, in level notation."""
        return self.puzzle.text()

    def demonstrate(self, rng: np.random.Generator, *, skill: float) -> Demonstration:
        """Say where player, boxes and targets are and begin a shortest solution, or move carelessly.

        Where no solution exists, or none is found within the search limit, the moves are careless too.
        """
        config, room = self.config, self.puzzle.room
        plan = self._solution() if rng.random() < skill else None
        if not plan:
            plan = tuple(rng.integers(len(ACTIONS), size=rng.integers(1, config.max_actions_per_turn + 1)).tolist())
        names = [ACTIONS[action] for action in plan[: config.max_actions_per_turn]]
        player, boxes = self._state
        parts = [
            f"{word} {row} {column}"
            for word, board in (("me", 1 << player), ("box", boxes), ("goal", room.targets))
            for row, column in map(room.position, rules.cells(board))
        ]
        reasoning = with_fillers([*parts, "so", names[0]], rng)
        return Demonstration(reasoning=reasoning, answer=join_actions(names, config.action_separator))

    def data_source(self) -> DataSource | None:
        """The file of levels; None when rooms are generated."""
        return load_levels(self.config.level_file).source if self.config.level_file else None

    @property
    def puzzle(self) -> Puzzle:
        """The puzzle of the running episode."""
        if self._puzzle is None:
            raise RuntimeError("no episode was begun: call reset")
        return self._puzzle

    @property
    def state(self) -> State:
        """Player cell and box bits of the running episode."""
        return self._state

    def render(self) -> np.ndarray:
        """Picture of the current state, [16 height, 16 width, 3] uint8."""
        return render(self.puzzle.room, self._state)

    def _act(self, action: int) -> tuple[float, bool]:
        """Run one action; its reward, and whether the player moved."""
        room = self.puzzle.room
        before = self._state
        self._state = rules.move(room, before, action)
        gained = rules.boxes_on_targets(room, self._state) - rules.boxes_on_targets(room, before)
        solved = rules.is_solved(room, self._state)
        return STEP_REWARD + BOX_REWARD * gained + SOLVED_REWARD * solved, self._state != before

    def _ended(self) -> bool:
        room = self.puzzle.room
        return rules.is_solved(room, self._state) or (
            self.config.end_on_deadlock and rules.corner_deadlock(room, self._state)
        )

    def _solution(self) -> tuple[int, ...] | None:
        try:
            return shortest_solution(self.puzzle.room, self._state, max_states=_DEMONSTRATION_STATES)
        except SearchLimitError:
            return None

    def _observe(self) -> Observation:
        config, room = self.config, self.puzzle.room
        text = views.describe(
            room,
            self._state,
            style=config.observation_format,
            vocabulary=config.vocabulary,
            first=self._turns == 0,
        )
        return Observation(text=text, image=self.render() if config.render_images else None)
