"""Any gymnax environment with action names and a text renderer as a text environment; needs the extra ``gymnax``.

The one module of this package that uses jax, and only when such an environment is made. The game runs on the CPU, one
compiled step for all environments of a kind; renderers see its state as NumPy arrays.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from ragen_jax.envs.base import Demonstration, EnvConfig, Observation, StepResult, TextEnv
from ragen_jax.envs.demonstrations import answer_rule, join_actions, with_fillers
from ragen_jax.envs.instances import draw_instance, dynamics_rng
from ragen_jax.envs.parsing import split_actions

PACKAGES = ("gymnax", "six")  # gymnax imports six without declaring it
CART_POLE_LIMIT = 500  # steps after which the game itself ends
_KEYS = 2**31


@dataclasses.dataclass(frozen=True)
class Program:
    """The compiled game.

    Attributes:
      game: the gymnax environment.
      begin: key -> state.
      move: (key, state, action) -> (state, reward, whether the game has ended, whether its own time limit is reached).
    """

    game: Any
    begin: Callable[[int], Any]
    move: Callable[[int, Any, int], tuple[Any, float, bool, bool]]


def require_packages() -> None:
    """Refuse to go on without the extra ``gymnax``; imports nothing.

    Raises:
      ValueError: names what is missing and how to install it.
    """
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(f"gymnax environments need {' and '.join(missing)}: pip install 'ragen_jax[gymnax]'")


@lru_cache(maxsize=32)
def load_program(game: str, params: tuple[tuple[str, Any], ...]) -> Program:
    """Make and compile a game, once per process.

    Args:
      game: id of a gymnax environment.
      params: names and values of its parameters that differ from their defaults.

    Raises:
      ValueError: jax was told to do without the CPU.
    """
    import gymnax
    import jax

    env, defaults = gymnax.make(game)
    chosen = defaults.replace(**dict(params))
    try:
        cpu = jax.local_devices(backend="cpu")[0]
    except RuntimeError as error:
        raise ValueError(
            f"{game} runs on the CPU, which jax was told to do without: add it, as in JAX_PLATFORMS=cuda,cpu"
        ) from error

    # Not env.step: it would begin a new episode by itself.
    @jax.jit
    def begin(key: Any) -> Any:
        return env.reset_env(jax.random.key(key), chosen)[1]

    @jax.jit
    def move(key: Any, state: Any, action: Any) -> tuple[Any, Any, Any, Any]:
        _, after, reward, terminated, _ = env.step_env(jax.random.key(key), state, action, chosen)
        return after, reward, terminated, env.is_truncated(after, chosen)

    def begin_on_cpu(key: int) -> Any:
        with jax.default_device(cpu):
            return jax.device_get(begin(np.uint32(key)))

    def move_on_cpu(key: int, state: Any, action: int) -> tuple[Any, float, bool, bool]:
        with jax.default_device(cpu):
            after, reward, terminated, truncated = jax.device_get(move(np.uint32(key), state, np.int32(action)))
        return after, float(reward), bool(terminated), bool(truncated)

    return Program(env, begin_on_cpu, move_on_cpu)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GymnaxConfig(EnvConfig):
    """Options of a gymnax environment: the common ones."""

    def __post_init__(self) -> None:
        """Refuse values outside their range, and missing packages."""
        super().__post_init__()
        require_packages()


class GymnaxEnv(TextEnv):
    """A gymnax environment with discrete actions in words; the reward is the game's own.

    A subclass sets the class attributes and writes ``describe`` and ``plan``; see ``FourRooms``.

    Attributes:
      game: id of the gymnax environment.
      params: parameters of the game that differ from their defaults.
      actions: names of the actions, in the order of their ids.
      task: what the player should do, and how the state is to be read.
      survive: success is to use up ``max_actions`` without an end of the game; else the end of the game is success.
    """

    Config: ClassVar[type[GymnaxConfig]] = GymnaxConfig
    game: ClassVar[str]
    params: ClassVar[dict[str, Any]] = {}
    actions: ClassVar[tuple[str, ...]]
    task: ClassVar[str]
    survive: ClassVar[bool] = False

    @classmethod
    def words(cls, config: GymnaxConfig) -> tuple[str, ...]:
        """See ``TextEnv.words``."""
        return cls.actions

    def __init__(self, config: GymnaxConfig) -> None:
        """Load the game; it still has to be reset."""
        self.config: GymnaxConfig = config
        self.program = load_program(self.game, tuple(self.params.items()))
        self._state: Any = None
        self._done = True

    @abstractmethod
    def describe(self, state: Any) -> str:
        """The state as text, complete enough to act on; equal for two states if and only if they are the same task."""

    @abstractmethod
    def plan(self, state: Any, limit: int) -> list[int]:
        """A solver: 1 to ``limit`` next actions."""

    def reset(self, seed: int, member: int = 0) -> Observation:
        """Begin with the state of ``seed``; the game's own chance comes from ``(seed, member)``."""
        self._start = self._state = _state_of_seed(type(self), self.config, seed)
        self._rng = dynamics_rng(seed, member)
        self._turns = self._actions = 0
        self._done = False
        return Observation(self.describe(self._state))

    def step(self, answer: str) -> StepResult:
        """Act; see ``TextEnv.step``."""
        if self._done:
            raise RuntimeError("the episode is over or was never begun: call reset")
        config = self.config
        parsed = split_actions(
            answer, separator=config.action_separator, limit=config.max_actions_per_turn, names=self.actions
        )
        before = self.describe(self.state)
        reward, ended, out_of_time, taken = 0.0, False, False, []
        for action in parsed.actions[: config.max_actions - self._actions]:
            key = int(self._rng.integers(_KEYS))
            self._state, gained, ended, out_of_time = self.program.move(key, self._state, action)
            reward += gained
            self._actions += 1
            taken.append(self.actions[action])
            if ended or out_of_time:
                break
        self._turns += 1
        truncated = not ended and (
            out_of_time or self._turns >= config.max_turns or self._actions >= config.max_actions
        )
        self._done = ended or truncated
        text = self.describe(self._state)
        return StepResult(
            Observation(text),
            reward=reward,
            terminated=ended,
            truncated=truncated,
            info={
                "success": not ended and self._actions >= config.max_actions if self.survive else ended,
                "action_is_valid": parsed.valid,
                "action_is_effective": text != before,
                "actions_taken": tuple(taken),
            },
        )

    def instructions(self) -> str:
        """Task description; the terse one is empty, tiny policies know the task from their warm start."""
        config = self.config
        if config.instructions == "terse":
            return ""
        return "\n".join(
            (
                self.task,
                f"Actions: {', '.join(self.actions)}. {answer_rule(config, self.actions[:2])}",
                f"Limits: {config.max_turns} turns and {config.max_actions} actions in all.",
            )
        )

    def canonical(self) -> str:
        """The state at the start."""
        if self._state is None:
            raise RuntimeError("no episode was begun: call reset")
        return self.describe(self._start)

    def demonstrate(self, rng: np.random.Generator, *, skill: float) -> Demonstration:
        """Say what there is to see and act as the solver would, or carelessly in any way."""
        limit = self.config.max_actions_per_turn
        if rng.random() < skill:
            plan = self.plan(self.state, limit)
        else:
            plan = rng.integers(len(self.actions), size=rng.integers(1, limit + 1)).tolist()
        names = [self.actions[action] for action in plan]
        parts = (self.describe(self.state).splitlines()[0], "so", f"first {names[0]}")
        return Demonstration(
            reasoning=with_fillers(parts, rng), answer=join_actions(names, self.config.action_separator)
        )

    @property
    def state(self) -> Any:
        """The game's state, as NumPy arrays."""
        if self._state is None:
            raise RuntimeError("no episode was begun: call reset")
        return self._state


@lru_cache(maxsize=4096)
def _state_of_seed(kind: type[GymnaxEnv], config: GymnaxConfig, seed: int) -> Any:
    """First state of a seed. Cached, since all members of a group share it."""
    env = kind(config)
    return draw_instance(
        lambda rng: env.program.begin(int(rng.integers(_KEYS))),
        env.describe,
        seed=seed,
        split=config.split,
        validation_percent=config.validation_percent,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class FourRoomsConfig(GymnaxConfig):
    """Options of four rooms. The longest way takes 20 moves or so."""

    max_turns: int = 6
    max_actions_per_turn: int = 5
    max_actions: int = 30


class FourRooms(GymnaxEnv):
    """Walk through the doors of four rooms to a goal; each move goes where it should. The goal pays 1."""

    name: ClassVar[str] = "gymnax_four_rooms"
    Config: ClassVar[type[GymnaxConfig]] = FourRoomsConfig
    game: ClassVar[str] = "FourRooms-misc"
    params: ClassVar[dict[str, Any]] = {"fail_prob": 0.0, "resample_init_pos": True, "resample_goal_pos": True}
    actions: ClassVar[tuple[str, ...]] = ("up", "right", "down", "left")
    task: ClassVar[str] = (
        "Walk through four rooms to the goal. The state names your cell and the goal's as row and column, counted from "
        "0 at the top left, and shows the map: # is a wall, P is you, G is the goal. A move against a wall leaves you "
        "where you are. The goal pays 1."
    )

    @classmethod
    def words(cls, config: GymnaxConfig) -> tuple[str, ...]:
        """See ``TextEnv.words``."""
        return (*cls.actions, "#", ".", "P", "G")

    def describe(self, state: Any) -> str:
        """Cells of player and goal, then the map."""
        player, goal = tuple(map(int, state.pos)), tuple(map(int, state.goal))
        rows = [["." if free else "#" for free in row] for row in self._free_cells()]
        rows[goal[0]][goal[1]] = "G"
        rows[player[0]][player[1]] = "P"
        head = f"player {player[0]} {player[1]} goal {goal[0]} {goal[1]}"
        return "\n".join([head, *map("".join, rows)])

    def plan(self, state: Any, limit: int) -> list[int]:
        """The next moves of a shortest way."""
        free = self._free_cells()
        steps = ((-1, 0), (0, 1), (1, 0), (0, -1))
        player, goal = tuple(map(int, state.pos)), tuple(map(int, state.goal))
        ways: dict[tuple[int, ...], list[int]] = {player: []}
        queue = deque([player])
        while goal not in ways:
            cell = queue.popleft()
            for action, (down, right) in enumerate(steps):
                nearby = (cell[0] + down, cell[1] + right)
                if free[nearby] and nearby not in ways:
                    ways[nearby] = [*ways[cell], action]
                    queue.append(nearby)
        return ways[goal][:limit]

    def _free_cells(self) -> np.ndarray:
        return _as_array(self.program.game, "env_map")


@dataclasses.dataclass(frozen=True, kw_only=True)
class CartPoleConfig(GymnaxConfig):
    """Options of the cart with a pole. There are more turns than pushes need, since a reply may be unusable."""

    max_turns: int = 15
    max_actions_per_turn: int = 5
    max_actions: int = 50

    def __post_init__(self) -> None:
        """Refuse more pushes than an episode can hold, since nobody could make them all."""
        super().__post_init__()
        room = min(self.max_turns * self.max_actions_per_turn, CART_POLE_LIMIT)
        if self.max_actions > room:
            raise ValueError(
                f"max_actions={self.max_actions}: success is to make so many pushes, but an episode holds {room} "
                f"(max_turns * max_actions_per_turn, and the game ends after {CART_POLE_LIMIT}); use {room} or less, "
                "or more turns"
            )


class CartPole(GymnaxEnv):
    """Keep a pole on a cart upright for ``max_actions`` pushes; each push pays 1."""

    name: ClassVar[str] = "gymnax_cart_pole"
    Config: ClassVar[type[GymnaxConfig]] = CartPoleConfig
    game: ClassVar[str] = "CartPole-v1"
    actions: ClassVar[tuple[str, ...]] = ("left", "right")
    task: ClassVar[str] = (
        "A pole stands on a cart. Push the cart so that the pole does not fall: the angle must stay between -0.21 and "
        "0.21 radians, positive to the right, and the position between -2.4 and 2.4 metres. Every push lasts 0.02 "
        "seconds and pays 1; the episode ends when the pole falls."
    )
    survive: ClassVar[bool] = True

    def describe(self, state: Any) -> str:
        """Position, speed, angle and rate of turn, with three decimals."""
        return (
            f"position {state.x:+.3f} m, speed {state.x_dot:+.3f} m/s, "
            f"angle {state.theta:+.3f} rad, turning {state.theta_dot:+.3f} rad/s"
        )

    def plan(self, state: Any, limit: int) -> list[int]:
        """Push to the side to which the pole will fall, as a linear rule on the state tells."""
        pushes = []
        for _ in range(min(limit, self.config.max_actions - self._actions)):
            lean = 10 * state.theta + 2 * state.theta_dot + 0.1 * state.x + 0.4 * state.x_dot
            pushes.append(int(lean > 0))
            state, _, _, _ = self.program.move(0, state, pushes[-1])
        return pushes


@lru_cache(maxsize=32)
def _as_array(game: Any, field: str) -> np.ndarray:
    """A constant array of a game, on the host."""
    return np.asarray(getattr(game, field))
