"""Exact breadth-first search over (player, boxes)."""

from __future__ import annotations

import functools

from ragen_jax.envs.sokoban.rules import Room, State, bits, cells, is_solved, move


class SearchLimitError(RuntimeError):
    """The search met its limit before it could say whether a solution exists."""


def shortest_solution(
    room: Room, state: State, *, max_length: int | None = None, max_states: int = 200_000
) -> tuple[int, ...] | None:
    """Fewest actions that bring every box onto a target.

    Pushes onto cells from which no box can ever reach a target are not followed; no solution holds one, so the answer
    stays exact.

    Args:
      room: the fixed part.
      state: player and boxes.
      max_length: longest solution of interest; None for any length.
      max_states: states that the search may visit.

    Returns:
      Actions (numbers of ``ACTIONS``), empty for a solved state; None when no solution (of this length) exists.

    Raises:
      SearchLimitError: when ``max_states`` were visited without an answer.
    """
    if is_solved(room, state):
        return ()
    live = live_cells(room)
    came_from: dict[State, tuple[State, int]] = {state: (state, -1)}
    frontier = [state]
    length = 0
    while frontier and length != max_length:
        length += 1
        following: list[State] = []
        for here in frontier:
            for action in range(4):
                there = move(room, here, action)
                if there in came_from or there[1] & ~live:
                    continue
                came_from[there] = (here, action)
                if is_solved(room, there):
                    return _path(came_from, there)
                following.append(there)
        if len(came_from) > max_states:
            raise SearchLimitError(f"no answer within {max_states} states: raise max_states")
        frontier = following
    return None


def distances_to_solution(room: Room, *, max_length: int, max_states: int = 50_000) -> dict[State, int]:
    """Exact solution lengths of all states that can be solved within ``max_length`` actions.

    Plays backwards from every solved state: the player steps back, and may pull the box that stood before it.

    Args:
      room: the fixed part; it has as many boxes as targets.
      max_length: longest solution of interest.
      max_states: bound on the table; a level that would pass it is left out whole, so every entry stays exact and only
        longer solutions are missing.
    """
    frontier: list[State] = [(player, room.targets) for player in cells(room.floor & ~room.targets)]
    distance = dict.fromkeys(frontier, 0)
    for length in range(1, max_length + 1):
        found: dict[State, int] = {}
        for player, boxes in frontier:
            blocked = room.walls | boxes
            for offset in room.offsets:
                before = player - offset
                if blocked >> before & 1:
                    continue
                walked = (before, boxes)
                if walked not in distance:
                    found[walked] = length
                if boxes >> (player + offset) & 1:
                    pushed = (before, boxes ^ (1 << player | 1 << player + offset))
                    if pushed not in distance:
                        found[pushed] = length
        if not found or len(distance) + len(found) > max_states:
            break
        distance.update(found)
        frontier = list(found)
    return distance


@functools.lru_cache(maxsize=256)
def live_cells(room: Room) -> int:
    """Bits of the cells from which a lone box can be pushed onto some target."""
    live = frontier = room.targets
    while frontier:
        # A box at `cell` came from `cell - offset`, pushed by a player who stood one cell further back.
        frontier = (
            bits(
                cell - offset
                for cell in cells(frontier)
                for offset in room.offsets
                if room.floor >> (cell - offset) & 1 and _is_floor(room, cell - 2 * offset)
            )
            & ~live
        )
        live |= frontier
    return live


def _is_floor(room: Room, cell: int) -> bool:
    return cell >= 0 and bool(room.floor >> cell & 1)


def _path(came_from: dict[State, tuple[State, int]], state: State) -> tuple[int, ...]:
    actions: list[int] = []
    while True:
        state, action = came_from[state]
        if action < 0:
            return tuple(reversed(actions))
        actions.append(action)
