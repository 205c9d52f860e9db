"""The 2x2 cube: turns as permutations made from geometry, scrambles of an exact distance, an exact solver.

Whole-cube rotations are never made: turns of U, R and F leave the corner at D, B and L in place, and the others equal
them up to a rotation. So distance is counted over these six turns, after the colours are renamed to those of a cube
whose fixed corner is at home.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache, lru_cache
from itertools import product
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np

from ragen_jax.envs.base import Demonstration, EnvConfig, Observation, StepResult, TextEnv
from ragen_jax.envs.demonstrations import answer_rule, join_actions, with_fillers
from ragen_jax.envs.instances import draw_instance
from ragen_jax.envs.parsing import split_actions

FACES = "ULFRBD"
COLOURS = "WOGRBY"  # of a solved cube, in the order of FACES
TURNS = tuple(face + mark for face in "UDLRFB" for mark in ("", "'"))
MAX_DISTANCE = 7
"""Largest distance of a scramble in quarter turns: 45,000 states are this near; the farthest state has distance 14."""

Vector = tuple[int, int, int]
Cube = bytes
"""24 colours as indices of ``COLOURS``: the faces in the order of ``FACES``, each row by row as seen from outside."""

# Outward normal of each face, then the directions of its rows (to the right) and columns (downwards), in a frame whose
# axes point to the right, up and to the viewer. U is seen with F below it, D with F above it, the others with U above.
_FRAMES: dict[str, tuple[Vector, Vector, Vector]] = {
    "U": ((0, 1, 0), (1, 0, 0), (0, 0, 1)),
    "L": ((-1, 0, 0), (0, 0, 1), (0, -1, 0)),
    "F": ((0, 0, 1), (1, 0, 0), (0, -1, 0)),
    "R": ((1, 0, 0), (0, 0, -1), (0, -1, 0)),
    "B": ((0, 0, -1), (-1, 0, 0), (0, -1, 0)),
    "D": ((0, -1, 0), (1, 0, 0), (0, 0, -1)),
}
SOLVED: Cube = bytes(face for face in range(6) for _ in range(4))


def stickers() -> list[tuple[Vector, Vector]]:
    """Corner (each coordinate 1 or -1) and outward normal of the 24 stickers, in the order of ``Cube``."""
    return [
        (_add(_add(normal, _scale(right, column)), _scale(down, row)), normal)
        for normal, right, down in (_FRAMES[face] for face in FACES)
        for row, column in product((-1, 1), repeat=2)
    ]


def permutation(turn: str) -> tuple[int, ...]:
    """For each place, the place where its sticker comes from: a quarter turn of a face, clockwise as seen from outside.

    Args:
      turn: one of ``TURNS``; the apostrophe turns counterclockwise.
    """
    axis = _FRAMES[turn[0]][0]
    places = stickers()
    source = list(range(24))
    for index, (corner, normal) in enumerate(places):
        if _dot(corner, axis) == 1:
            target = places.index((_rotate(corner, axis), _rotate(normal, axis)))
            if turn.endswith("'"):
                source[index] = target
            else:
                source[target] = index
    return tuple(source)


@cache
def _getter(turn: str) -> Callable[[Cube], tuple[int, ...]]:
    return itemgetter(*permutation(turn))


def apply_turn(cube: Cube, turn: str) -> Cube:
    """The cube after one turn."""
    return bytes(_getter(turn)(cube))


def is_solved(cube: Cube) -> bool:
    """True when every face has one colour, wherever it is."""
    return all(len(set(cube[start : start + 4])) == 1 for start in range(0, 24, 4))


@lru_cache(maxsize=8)
def shells(radius: int) -> tuple[tuple[Cube, ...], ...]:
    """The states at distance 0, 1, ..., ``radius`` with the fixed corner at home, in a fixed order."""
    found = {SOLVED}
    result: list[tuple[Cube, ...]] = [(SOLVED,)]
    for _ in range(radius):
        shell = []
        for cube in result[-1]:
            for turn in _GENERATORS:
                after = apply_turn(cube, turn)
                if after not in found:
                    found.add(after)
                    shell.append(after)
        result.append(tuple(shell))
    return tuple(result)


def solution(cube: Cube) -> tuple[str, ...]:
    """A shortest way to a solved cube, in quarter turns of U, R and F."""
    table = _distances()
    start = _at_home(cube)
    came_from: dict[Cube, tuple[Cube, str] | None] = {start: None}
    frontier = [start]
    # Forward until the table is met: at most 14 - MAX_DISTANCE levels.
    while not (met := [state for state in frontier if state in table]):
        further = []
        for state in frontier:
            for turn in _GENERATORS:
                after = apply_turn(state, turn)
                if after not in came_from:
                    came_from[after] = (state, turn)
                    further.append(after)
        frontier = further
    state = min(met, key=lambda near: table[near])
    path: list[str] = []
    step = came_from[state]
    while step is not None:
        path.insert(0, step[1])
        step = came_from[step[0]]
    while table[state]:
        turn = next(turn for turn in _GENERATORS if table.get(apply_turn(state, turn), MAX_DISTANCE) < table[state])
        state = apply_turn(state, turn)
        path.append(turn)
    return tuple(path)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RubikConfig(EnvConfig):
    """Options of the 2x2 cube.

    Attributes:
      min_distance: fewest quarter turns that solve a scramble.
      max_distance: most of them; all distances between are equally likely.
    """

    min_distance: int = 1
    max_distance: int = 5

    def __post_init__(self) -> None:
        """Refuse values outside their range."""
        super().__post_init__()
        if not 1 <= self.min_distance <= self.max_distance <= MAX_DISTANCE:
            raise ValueError(
                f"min_distance={self.min_distance}, max_distance={self.max_distance}: "
                f"use 1 <= min_distance <= max_distance <= {MAX_DISTANCE}"
            )
        budget = min(self.max_actions, self.max_turns * self.max_actions_per_turn)
        if self.max_distance > budget:
            raise ValueError(
                f"max_distance={self.max_distance}: the budgets allow {budget} turns of a face; lower it, or raise "
                "max_actions, max_turns or max_actions_per_turn"
            )


class Rubik(TextEnv):
    """Solve a 2x2 cube: reward 1 when every face has one colour, which ends the episode; else 0.

    ``info`` has, beside the common entries, ``optimal_length`` (quarter turns that the scramble needs) and
    ``actions_taken``.
    """

    name: ClassVar[str] = "rubik"
    Config: ClassVar[type[RubikConfig]] = RubikConfig

    @classmethod
    def words(cls, config: RubikConfig) -> tuple[str, ...]:
        """See ``TextEnv.words``."""
        return (*TURNS, *COLOURS)

    def __init__(self, config: RubikConfig) -> None:
        """Make an environment that still has to be reset."""
        self.config: RubikConfig = config
        self._cube: Cube | None = None
        self._done = True

    def reset(self, seed: int, member: int = 0) -> Observation:
        """Begin with the scramble of ``seed``; without noise all members are alike."""
        self._scramble, self._distance = _scramble_of_seed(self.config, seed)
        self._cube = self._scramble
        self._turns = self._actions = 0
        self._done = False
        return Observation(render(self._cube))

    def step(self, answer: str) -> StepResult:
        """Turn faces; see ``TextEnv.step``."""
        if self._done:
            raise RuntimeError("the episode is over or was never begun: call reset")
        config = self.config
        parsed = split_actions(
            answer, separator=config.action_separator, limit=config.max_actions_per_turn, names=TURNS
        )
        cube = before = self.cube
        taken: list[str] = []
        for action in parsed.actions[: config.max_actions - self._actions]:
            cube = apply_turn(cube, TURNS[action])
            taken.append(TURNS[action])
            if is_solved(cube):
                break
        self._cube = cube
        self._turns += 1
        self._actions += len(taken)
        solved = is_solved(cube)
        truncated = not solved and (self._turns >= config.max_turns or self._actions >= config.max_actions)
        self._done = solved or truncated
        info: dict[str, Any] = {
            "success": solved,
            "action_is_valid": parsed.valid,
            "action_is_effective": cube != before,
            "optimal_length": self._distance,
            "actions_taken": tuple(taken),
        }
        return StepResult(
            Observation(render(cube)), reward=float(solved), terminated=solved, truncated=truncated, info=info
        )

    def instructions(self) -> str:
        """Task description; the terse one is empty, tiny policies know the task from their warm start."""
        config = self.config
        if config.instructions == "terse":
            return ""
        return "\n".join(
            (
                "Solve a 2x2 Rubik's cube: turn its faces until each of the six has a single colour.",
                "A line is a face: its letter (Up, Left, Front, Right, Back, Down), its upper row, its lower row, as "
                "seen from outside. U is seen with F below it, D with F above it, the others with U above them. "
                f"Colours are {', '.join(COLOURS)}.",
                f"Turns: {', '.join(TURNS)}. A letter turns that face by a quarter clockwise, as seen from outside; "
                "with ' counterclockwise.",
                answer_rule(config, ("R", "U'")),
                f"Limits: {config.max_turns} turns and {config.max_actions} actions in all. The solved cube pays 1.",
            )
        )

    def canonical(self) -> str:
        """The scramble. No two scrambles are the same up to a rotation, since one corner is always at home."""
        if self._cube is None:
            raise RuntimeError("no episode was begun: call reset")
        return render(self._scramble)

    def demonstrate(self, rng: np.random.Generator, *, skill: float) -> Demonstration:
        """Name two faces and make the next turns of a shortest solution, or carelessly any."""
        limit = self.config.max_actions_per_turn
        if rng.random() < skill:
            plan = solution(self.cube)[:limit]
        else:
            plan = tuple(TURNS[i] for i in rng.integers(len(TURNS), size=rng.integers(1, min(limit, 4) + 1)))
        lines = render(self.cube).splitlines()
        seen = [lines[i].replace(":", "") for i in sorted(rng.choice(6, size=2, replace=False).tolist())]
        parts = [f"see {' and '.join(seen)}", "so", f"begin with {plan[0]}"]
        return Demonstration(
            reasoning=with_fillers(parts, rng), answer=join_actions(plan, self.config.action_separator)
        )

    @property
    def cube(self) -> Cube:
        """The cube as it is now."""
        if self._cube is None:
            raise RuntimeError("no episode was begun: call reset")
        return self._cube


def render(cube: Cube) -> str:
    """Six lines such as ``U: WW OG``: a face, its upper row, its lower row."""
    colours = [COLOURS[colour] for colour in cube]
    lines = []
    for index, face in enumerate(FACES):
        a, b, c, d = colours[4 * index : 4 * index + 4]
        lines.append(f"{face}: {a}{b} {c}{d}")
    return "\n".join(lines)


@lru_cache(maxsize=4096)
def _scramble_of_seed(config: RubikConfig, seed: int) -> tuple[Cube, int]:
    """Scramble and distance. Cached, since all members of a group share it."""
    states = shells(config.max_distance)

    def make(rng: np.random.Generator) -> tuple[Cube, int]:
        distance = int(rng.integers(config.min_distance, config.max_distance + 1))
        shell = states[distance]
        return shell[int(rng.integers(len(shell)))], distance

    return draw_instance(
        make,
        lambda drawn: render(drawn[0]),
        seed=seed,
        split=config.split,
        validation_percent=config.validation_percent,
    )


_GENERATORS = ("U", "U'", "R", "R'", "F", "F'")
_OPPOSITE = {FACES.index(a): FACES.index(b) for a, b in ("UD", "DU", "LR", "RL", "FB", "BF")}


@cache
def _distances() -> dict[Cube, int]:
    return {cube: distance for distance, shell in enumerate(shells(MAX_DISTANCE)) for cube in shell}


@cache
def _home() -> tuple[tuple[int, int], ...]:
    """(place, face) of the three stickers of the corner that U, R and F leave alone."""
    places = stickers()
    return tuple((places.index(((-1, -1, -1), _FRAMES[face][0])), FACES.index(face)) for face in "DBL")


def _at_home(cube: Cube) -> Cube:
    """The cube with its colours renamed, so that the fixed corner has the colours of a solved one."""
    names = bytearray(6)
    for place, face in _home():
        names[cube[place]] = face
        names[_OPPOSITE[cube[place]]] = _OPPOSITE[face]
    return cube.translate(bytes(names) + bytes(range(6, 256)))


def _dot(a: Vector, b: Vector) -> int:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _add(a: Vector, b: Vector) -> Vector:
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


def _scale(a: Vector, factor: int) -> Vector:
    return (a[0] * factor, a[1] * factor, a[2] * factor)


def _rotate(a: Vector, axis: Vector) -> Vector:
    """A quarter turn clockwise as seen from the tip of the axis: ``a x axis + axis (axis . a)``."""
    cross = (a[1] * axis[2] - a[2] * axis[1], a[2] * axis[0] - a[0] * axis[2], a[0] * axis[1] - a[1] * axis[0])
    return _add(cross, _scale(axis, _dot(axis, a)))
