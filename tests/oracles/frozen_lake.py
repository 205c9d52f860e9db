"""Exact success of a plan on a slippery lake, by walking the distribution over cells; float64."""

from __future__ import annotations

from ragen_jax.envs.frozen_lake.lake import Lake

STEPS = {"left": (0, -1), "down": (1, 0), "right": (0, 1), "up": (-1, 0)}
SIDES = {"left": ("up", "down"), "right": ("up", "down"), "up": ("left", "right"), "down": ("left", "right")}


def success_of_plan(lake: Lake, plan: list[str], slip_rate: float) -> float:
    """Probability that the walk has met the goal when it ends; 0 on a locked lake."""
    if lake.locked:
        return 0.0
    won, standing = 0.0, {lake.start: 1.0}
    for action in plan:
        after: dict[tuple[int, int], float] = {}
        first, second = SIDES[action]
        for cell, mass in standing.items():
            for direction, share in ((action, 1 - slip_rate), (first, slip_rate / 2), (second, slip_rate / 2)):
                row, column = cell[0] + STEPS[direction][0], cell[1] + STEPS[direction][1]
                place = (row, column) if 0 <= row < lake.size and 0 <= column < lake.size else cell
                if place == lake.goal:
                    won += mass * share
                elif place not in lake.holes:
                    after[place] = after.get(place, 0.0) + mass * share
        standing = after
    return won
