"""Rooms made from random numbers: walls and targets at random, then play backwards to find good starts."""

from __future__ import annotations

import numpy as np

from ragen_jax.envs.instances import draw_instance, in_split
from ragen_jax.envs.sokoban.config import SokobanConfig
from ragen_jax.envs.sokoban.rules import Puzzle, Room, State, bits, cells, reachable
from ragen_jax.envs.sokoban.solver import SearchLimitError, distances_to_solution, shortest_solution

_STARTS_PER_ROOM = 30  # starts tried in one room before another room is drawn
_ATTEMPTS = 2_000  # rooms tried for one seed
_MAX_STATES = 2_000_000  # states looked at for one seed


def generate(config: SokobanConfig, seed: int) -> Puzzle:
    """The generated puzzle of a seed, inside the split of the config.

    Raises:
      ValueError: when the options ask for rooms that (almost) never occur.
    """
    looked_at = 0

    def make(rng: np.random.Generator) -> Puzzle | None:
        nonlocal looked_at
        if looked_at > _MAX_STATES:
            raise ValueError(
                f"seed {seed}: no room fits after {looked_at} states: min_solution_len={config.min_solution_len} to "
                f"max_solution_len={config.max_solution_len} is too rare with height={config.height}, "
                f"width={config.width}, boxes={config.boxes}; loosen them"
            )
        hopeless = rng.random() < config.unsolvable_share and config.split != "validation"
        room = _draw_room(config, rng)
        if room is None:
            return None
        if hopeless:
            return _unsolvable_start(config, room, rng)
        distances = distances_to_solution(room, max_length=config.max_solution_len)
        looked_at += len(distances)
        return _solvable_start(config, room, distances, rng)

    return draw_instance(
        make,
        Puzzle.text,
        seed=seed,
        split=config.split,
        validation_percent=config.validation_percent,
        attempts=_ATTEMPTS,
    )


def _draw_room(config: SokobanConfig, rng: np.random.Generator) -> Room | None:
    """Inner walls and targets; None when the walls cut the floor in two."""
    empty = Room(config.height, config.width, walls=0, targets=0)
    inner = list(cells(empty.floor & ~empty.border))
    wall_count = int(rng.integers(config.min_walls, config.max_walls + 1))
    order = [inner[index] for index in rng.permutation(len(inner))]
    walls = empty.border | bits(order[:wall_count])
    targets = bits(order[wall_count : wall_count + config.boxes])
    room = Room(config.height, config.width, walls, targets)
    return room if reachable(room, order[wall_count]) == room.floor else None


def _solvable_start(
    config: SokobanConfig, room: Room, distances: dict[State, int], rng: np.random.Generator
) -> Puzzle | None:
    """A start with no box on a target, whose optimal length is uniform over those of the band that the room offers."""
    by_length: dict[int, list[State]] = {}
    for state, length in distances.items():
        if length >= config.min_solution_len and not state[1] & room.targets:
            by_length.setdefault(length, []).append(state)
    if not by_length:
        return None
    lengths = sorted(by_length)
    for _ in range(_STARTS_PER_ROOM):
        length = lengths[rng.integers(len(lengths))]
        states = by_length[length]
        puzzle = Puzzle(room, states[rng.integers(len(states))], optimal_length=length)
        # Another start of this room is cheaper than another room, so the split is asked here already.
        if in_split(puzzle.text(), split=config.split, validation_percent=config.validation_percent):
            return puzzle
    return None


def _unsolvable_start(config: SokobanConfig, room: Room, rng: np.random.Generator) -> Puzzle | None:
    """A random start that is not solvable within the action budget; boxes may be stuck from the beginning."""
    floor = list(cells(room.floor))
    for _ in range(_STARTS_PER_ROOM):
        player, *boxes = (floor[index] for index in rng.permutation(len(floor))[: config.boxes + 1])
        puzzle = Puzzle(room, (player, bits(boxes)))
        if not _solvable_within_budget(config, puzzle):
            return puzzle
    return None


def _solvable_within_budget(config: SokobanConfig, puzzle: Puzzle) -> bool:
    try:
        return shortest_solution(puzzle.room, puzzle.start, max_length=config.action_budget) is not None
    except SearchLimitError:
        return True  # not proven hopeless, so not used as hopeless
