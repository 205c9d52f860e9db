"""The FrozenLake environment: configuration, episode, instructions and demonstrations."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

import numpy as np

from ragen_jax.envs.base import Demonstration, EnvConfig, Observation, StepResult, TextEnv, check_replay
from ragen_jax.envs.demonstrations import answer_rule, join_actions, with_fillers
from ragen_jax.envs.frozen_lake import views
from ragen_jax.envs.frozen_lake.lake import ACTIONS, Cell, Lake, TransitionTable, draw_lake, transition_table, walk
from ragen_jax.envs.instances import draw_instance, dynamics_rng, replay_rng
from ragen_jax.envs.options import refuse_changed
from ragen_jax.envs.parsing import split_actions

MAX_SIZE = 32
_CELLS = 160_000  # drawn for one seed at most, so that a lake that cannot be found is given up within seconds
CARELESS_MOVES = 6  # longest random plan of a careless demonstration


@dataclasses.dataclass(frozen=True, kw_only=True)
class FrozenLakeConfig(EnvConfig):
    """Options of FrozenLake. One-turn plans are ``max_turns=1, max_actions_per_turn=10``.

    Attributes:
      size: rows and columns, 2 to 32.
      frozen_share: probability that a cell is ice, not a hole.
      slip_rate: probability that a move goes sideways, half of it to each side, never backwards.
      shared_dynamics: all members of a group slip alike. Reward variance in a group then lacks the noise of the
        environment; off unless that is the subject.
      min_path_len: fewest moves from start to goal.
      min_holes: fewest holes.
      observation_format: "grid", "coord", "grid_coord", or "compact" (one line, for tiny policies).
      vocabulary: symbols of the grid, "default" or "ascii".
      render_images: observations carry a picture too.
      locked_share: probability that an instance has a locked goal, which is shown, ends the episode and pays nothing:
        prompts without any reward variance. The validation split never has one.
    """

    size: int = 4
    frozen_share: float = 0.9
    slip_rate: float = 0.02
    shared_dynamics: bool = False
    min_path_len: int = 1
    min_holes: int = 0
    observation_format: str = "grid"
    vocabulary: str = "default"
    render_images: bool = False
    locked_share: float = 0.0

    @property
    def action_budget(self) -> int:
        """Most actions that an episode can hold."""
        return min(self.max_actions, self.max_turns * self.max_actions_per_turn)

    def __post_init__(self) -> None:
        """Refuse values outside their range, and lakes on which nobody could reach the goal."""
        super().__post_init__()
        if not 2 <= self.size <= MAX_SIZE:
            raise ValueError(f"size={self.size}: a lake has 2 to {MAX_SIZE} rows")
        for field in ("frozen_share", "slip_rate", "locked_share"):
            if not 0 <= getattr(self, field) <= 1:
                raise ValueError(f"{field}={getattr(self, field)}: use a probability, 0 to 1")
        if self.slip_rate == 0:
            refuse_changed(self, ("shared_dynamics",), because="slip_rate=0: nobody slips")
        cells = self.size**2
        if not 1 <= self.min_path_len < cells:
            raise ValueError(f"min_path_len={self.min_path_len}: use 1 to {cells - 1} on a lake with size={self.size}")
        if self.min_path_len > self.action_budget:
            raise ValueError(
                f"min_path_len={self.min_path_len} is more than the {self.action_budget} actions of an episode "
                "(max_actions, or max_turns * max_actions_per_turn), so nobody could reach a goal: lower it or allow "
                "more actions"
            )
        if not 0 <= self.min_holes <= cells - 2:
            raise ValueError(f"min_holes={self.min_holes}: use 0 to {cells - 2} on a lake with size={self.size}")
        if self.observation_format not in views.FORMATS:
            raise ValueError(f"observation_format={self.observation_format!r}: use one of {', '.join(views.FORMATS)}")
        if self.vocabulary not in views.VOCABULARIES:
            raise ValueError(f"vocabulary={self.vocabulary!r}: use one of {', '.join(views.VOCABULARIES)}")
        if "grid" not in self.observation_format:
            drawn = f"observation_format={self.observation_format!r} draws no grid"
            refuse_changed(self, ("vocabulary",), because=drawn)


@lru_cache(maxsize=4096)
def lake_of_seed(config: FrozenLakeConfig, seed: int) -> Lake:
    """The lake of a seed. Cached, since all members of a group share it.

    The split goes by the map alone: a locked training lake never has the map of a validation lake. The goal of every
    lake can be reached with the ``action_budget``.

    Raises:
      ValueError: when the options ask for lakes that cannot be drawn.
    """

    def make(rng: np.random.Generator) -> Lake | None:
        lake = draw_lake(
            rng,
            size=config.size,
            frozen_share=config.frozen_share,
            min_path_len=config.min_path_len,
            min_holes=config.min_holes,
        )
        locked = rng.random() < config.locked_share and config.split != "validation"
        if lake is None or lake.distances[lake.start] > config.action_budget:
            return None
        return dataclasses.replace(lake, locked=locked)

    return draw_instance(
        make,
        Lake.map_text,
        seed=seed,
        split=config.split,
        validation_percent=config.validation_percent,
        attempts=_CELLS // config.size**2,
    )


class FrozenLake(TextEnv):
    """Reach the goal over slippery ice: reward 1 on the goal, else 0; goal and holes end the episode.

    Beside the common entries ``info`` has ``fell_in_hole``, ``goal_locked``, ``slipped`` (moves of this turn that went
    sideways), ``optimal_length`` (moves of a shortest path from the start) and ``actions_taken`` (directions really
    moved).
    An answer with too many actions runs the first ``max_actions_per_turn`` and counts as not valid.
    """

    name: ClassVar[str] = "frozen_lake"
    Config: ClassVar[type[FrozenLakeConfig]] = FrozenLakeConfig

    @classmethod
    def words(cls, config: FrozenLakeConfig) -> tuple[str, ...]:
        """See ``TextEnv.words``."""
        return ACTIONS + views.symbols(style=config.observation_format, vocabulary=config.vocabulary)

    def __init__(self, config: FrozenLakeConfig) -> None:
        """Make an environment that still has to be reset."""
        self.config: FrozenLakeConfig = config
        self._lake: Lake | None = None
        self._done = True

    def reset(self, seed: int, member: int = 0) -> Observation:
        """Begin on the lake of ``seed``, with the slips of ``(seed, member)``."""
        return self.begin(lake_of_seed(self.config, seed), seed=seed, member=member)

    def begin(self, lake: Lake, *, seed: int = 0, member: int = 0) -> Observation:
        """Begin on a given lake, with the slips of ``(seed, member)``.

        Raises:
          ValueError: when the size of the lake is not the one of the config, or its goal cannot be reached.
        """
        if lake.size != self.config.size:
            raise ValueError(
                f"a lake of size {lake.size} in an environment with size={self.config.size}: make them equal"
            )
        if lake.start not in lake.distances:
            raise ValueError(f"no way leads from start {lake.start} to goal {lake.goal}: take away some holes")
        self._lake, self._player = lake, lake.start
        self._rng = dynamics_rng(seed, 0 if self.config.shared_dynamics else member)
        self._turns = self._actions = 0
        self._done = False
        return self._observe()

    def step(self, answer: str) -> StepResult:
        """Walk; see ``TextEnv.step``."""
        if self._done:
            raise RuntimeError("the episode is over or was never begun: call reset")
        config, lake = self.config, self.lake
        parsed = split_actions(
            answer, separator=config.action_separator, limit=config.max_actions_per_turn, names=ACTIONS
        )
        before, taken, slipped = self._player, [], 0
        for action in parsed.actions[: config.max_actions - self._actions]:
            direction = self._slip(action)
            slipped += direction != action
            taken.append(ACTIONS[direction])
            self._player = lake.neighbour(self._player, direction)
            if self._ended():
                break
        self._turns += 1
        self._actions += len(taken)
        on_goal = self._player == lake.goal
        terminated = self._ended()
        truncated = not terminated and (self._turns >= config.max_turns or self._actions >= config.max_actions)
        self._done = terminated or truncated
        success = on_goal and not lake.locked
        return StepResult(
            observation=self._observe(),
            reward=float(success),
            terminated=terminated,
            truncated=truncated,
            info={
                "success": success,
                "action_is_valid": parsed.valid,
                "action_is_effective": self._player != before,
                "fell_in_hole": self._player in lake.holes,
                "goal_locked": lake.locked,
                "slipped": slipped,
                "optimal_length": lake.distances[lake.start],
                "actions_taken": tuple(taken),
            },
        )

    def instructions(self) -> str:
        """Task description; the terse one is empty, tiny policies know the task from their warm start."""
        config = self.config
        if config.instructions == "terse":
            return ""
        ice = (
            f"The ice is slippery: a move goes where you want with probability {1 - config.slip_rate:.4g} "
            f"and to each side of that direction with probability {config.slip_rate / 2:.4g}."
            if config.slip_rate
            else "The ice is not slippery: every move goes where you want."
        )
        lines = [
            f"You stand on a frozen lake with {config.size} x {config.size} cells. "
            "Walk to the goal. Do not step into a hole: that ends the episode with nothing.",
            ice + " A move against the edge leaves you where you are.",
            views.legend(size=config.size, style=config.observation_format, vocabulary=config.vocabulary),
            f"Actions: {', '.join(ACTIONS)}. {answer_rule(config, ('right', 'up'))}",
            f"Limits: {config.max_turns} turns and {config.max_actions} actions in all. The goal pays 1.",
        ]
        if config.locked_share:
            lines.append("Some goals are locked, which the first state says; a locked goal pays nothing.")
        return "\n".join(lines)

    def canonical(self) -> str:
        """The map, and whether its goal is locked."""
        return self.lake.map_text() + ("\nlocked" if self.lake.locked else "")

    def demonstrate(self, rng: np.random.Generator, *, skill: float) -> Demonstration:
        """Say where player and goal are and walk a shortest path, or carelessly somewhere.

        The moves stand in the answer only. A reasoning that named the first one would carry that word for as long as
        the answer is any good, and its dependence on the input could not fall below the entropy of a move.
        """
        config, lake = self.config, self.lake
        if rng.random() < skill:
            plan = lake.shortest_path(self._player)
        else:
            plan = rng.integers(len(ACTIONS), size=rng.integers(1, CARELESS_MOVES + 1)).tolist()
        names = [ACTIONS[action] for action in plan[: config.max_actions_per_turn]]
        (row, column), (goal_row, goal_column) = self._player, lake.goal
        parts = (f"me {row} {column}", f"goal {goal_row} {goal_column}", "so", "go")
        return Demonstration(reasoning=with_fillers(parts, rng), answer=join_actions(names, config.action_separator))

    def replay(self, plan: Sequence[str], *, seed: int, member: int, draws: int) -> np.ndarray:
        """Walk a one-turn plan ``draws`` times under fresh slips; see ``TextEnv.replay``."""
        config = self.config
        check_replay(self.name, config, plan, draws)
        answer = plan[0] if plan else ""
        parsed = split_actions(
            answer, separator=config.action_separator, limit=config.max_actions_per_turn, names=ACTIONS
        )
        rng = replay_rng(seed, member)
        return walk(lake_of_seed(config, seed), config.slip_rate, parsed.actions[: config.max_actions], rng, draws)

    @property
    def lake(self) -> Lake:
        """The lake of the running episode."""
        if self._lake is None:
            raise RuntimeError("no episode was begun: call reset")
        return self._lake

    @property
    def player(self) -> Cell:
        """Where the player stands, (row, column)."""
        return self._player

    def render(self) -> np.ndarray:
        """Picture of the current state, [16 size, 16 size, 3] uint8."""
        return views.render(self.lake, self._player)

    def transition_table(self) -> TransitionTable:
        """Exact dynamics of the running episode's lake."""
        return transition_table(self.lake, slip_rate=self.config.slip_rate)

    def optimal_success_probability(self) -> float:
        """Success of the best policy from the start within the action budget, an upper bound for every policy."""
        lake = self.lake
        values = self.transition_table().optimal_success(horizon=self.config.action_budget)
        return float(values[lake.start[0] * lake.size + lake.start[1]])

    def _slip(self, action: int) -> int:
        """Direction that the ice makes of an action."""
        draw = self._rng.random()
        if draw < self.config.slip_rate:
            action += -1 if draw < self.config.slip_rate / 2 else 1
        return action % len(ACTIONS)

    def _ended(self) -> bool:
        return self._player == self.lake.goal or self._player in self.lake.holes

    def _observe(self) -> Observation:
        config = self.config
        text = views.describe(
            self.lake,
            self._player,
            style=config.observation_format,
            vocabulary=config.vocabulary,
            first=self._turns == 0,
        )
        return Observation(text=text, image=self.render() if config.render_images else None)
