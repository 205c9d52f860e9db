"""Judges of both tiers, and what the tests say about child processes."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragen_jax.envs.deepcoder import HiddenTest, Judge, Problem, make_judge

_PR_SET_CHILD_SUBREAPER = 36


def judge_of(tier: str) -> Judge:
    """A judge with a short limit; the test is skipped where bubblewrap does not work, never for the other tier."""
    try:
        return make_judge(tier, time_limit_s=0.3, memory_limit_mb=256)
    except ValueError as error:
        if tier == "rlimits":
            raise
        pytest.skip(f"no bubblewrap on this machine: {error}")


@pytest.fixture(params=["bubblewrap", "rlimits"])
def judge(request: pytest.FixtureRequest) -> Judge:
    return judge_of(request.param)


@pytest.fixture
def walled_judge() -> Judge:
    """The tier that is meant for hostile programs."""
    return judge_of("bubblewrap")


@pytest.fixture
def children() -> Iterator[set[int]]:
    """Ids of the processes below this one before the test; the test must leave no other, orphans included."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # orphans of a child become ours, so they are seen
    before = living_children()
    yield before
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    assert living_children() <= before, "a child process, or its remains, outlived the judge"


def living_children() -> set[int]:
    """Processes whose parent is this one, zombies included."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            continue
        if int(fields[1]) == os.getpid():
            found.add(int(stat.parent.name))
    return found


@pytest.fixture
def adding() -> Problem:
    """A program reads two numbers and prints their sum."""
    return Problem(
        "add",
        "Print the sum.",
        "stdin",
        "",
        (HiddenTest("3 4\n", "7\n"), HiddenTest("0 0", "0")),
    )


@pytest.fixture
def adding_function() -> Problem:
    """A function of two numbers returns their sum."""
    tests = (HiddenTest("[3, 4]", "7"), HiddenTest("[0, 0]", "0"))
    return Problem("add", "Return the sum.", "functional", "add", tests)
