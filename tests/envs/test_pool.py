"""The pool: rows, groups, and environments that raise or hang."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from ragen_jax.envs import EnvConfig, env_config, make_env
from ragen_jax.envs.base import Demonstration, Observation, StepResult, TextEnv
from ragen_jax.envs.pool import EnvPool

LAKE = env_config("frozen_lake", observation_format="compact")


class Troubled(TextEnv):
    """Does what the answer says: fail, hang, or work."""

    name = "troubled"
    Config = EnvConfig
    release = threading.Event()  # lets hung threads of the tests end

    def __init__(self, config: EnvConfig) -> None:
        self.config = config
        self.closed = False

    def instructions(self) -> str:
        return "work"

    def reset(self, seed: int, member: int = 0) -> Observation:
        if seed < 0:
            raise OSError("disk is gone")
        self.answers: list[str] = []
        return Observation(f"{seed} {member}")

    def step(self, answer: str) -> StepResult:
        if answer == "fail":
            raise ZeroDivisionError("bad luck")
        if answer == "hang":
            self.release.wait()
        self.answers.append(answer)
        return StepResult(Observation(answer), 1.0, terminated=False, truncated=False, info={})

    def canonical(self) -> str:
        return ""

    def demonstrate(self, rng, *, skill: float) -> Demonstration:
        return Demonstration("", "work")

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def pool():
    Troubled.release.clear()
    with EnvPool(Troubled, EnvConfig(), groups=2, group_size=3, workers=2, step_timeout_s=0.2) as made:
        yield made
        Troubled.release.set()


class OneAtATime(Troubled):
    """Counts how many are inside at once."""

    max_workers = 1
    inside = 0
    most = 0

    def step(self, answer: str) -> StepResult:
        kind = type(self)
        kind.inside += 1
        kind.most = max(kind.most, kind.inside)
        time.sleep(0.3)
        kind.inside -= 1
        return super().step(answer)


def test_rows_wait_for_their_turn_without_being_late() -> None:
    """Six steps of 0.3 seconds, one after the other, each within 1.5 seconds."""
    with EnvPool(OneAtATime, EnvConfig(), groups=6, group_size=1, workers=6, step_timeout_s=1.5) as made:
        made.reset(range(6))
        assert all(made.step(["a"] * 6))
        assert made.errors == [None] * 6
    assert OneAtATime.most == 1


def _texts(observations) -> list[str | None]:
    return [observation and observation.text for observation in observations]


def test_rows_are_group_major(pool: EnvPool) -> None:
    assert len(pool) == 6
    assert pool.instructions() == "work"
    assert _texts(pool.reset([7, 9])) == ["7 0", "7 1", "7 2", "9 0", "9 1", "9 2"]
    results = pool.step(["a", None, "c", None, "e", "f"])
    assert [result and result.observation.text for result in results] == ["a", None, "c", None, "e", "f"]
    assert pool.errors == [None] * 6


def test_same_texts_as_single_environments() -> None:
    with EnvPool("frozen_lake", LAKE, groups=3, group_size=4, workers=3) as pool:
        assert (pool.name, pool.config) == ("frozen_lake", LAKE)
        texts = _texts(pool.reset([5, 6, 7]))
        results = pool.step(["left || down"] * 12)
    env = make_env("frozen_lake", observation_format="compact")
    for row in range(12):
        assert env.reset(5 + row // 4, row % 4).text == texts[row]
        assert env.step("left || down") == results[row]


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_environment_that_raises_costs_its_row(pool: EnvPool) -> None:
    pool.reset([1, 2])
    results = pool.step(["a", "fail", "c", "d", "e", "f"])
    assert [result is None for result in results] == [False, True, False, False, False, False]
    assert pool.errors[1] == "ZeroDivisionError: bad luck"
    assert pool.step(["a"] * 6)[1] is None  # later answers are ignored
    assert pool.envs[1].answers == []
    assert pool.errors[1] == "ZeroDivisionError: bad luck"
    assert None not in pool.reset([1, 2])  # a new episode is a new chance
    assert pool.errors == [None] * 6
    assert None not in pool.step(["a"] * 6)


def test_a_failing_reset_costs_its_rows(pool: EnvPool) -> None:
    assert _texts(pool.reset([-1, 2])) == [None, None, None, "2 0", "2 1", "2 2"]
    assert pool.errors[:3] == ["OSError: disk is gone"] * 3
    assert [result is None for result in pool.step(["a"] * 6)] == [True] * 3 + [False] * 3


def test_environments_that_hang_cost_their_rows_and_time_once(pool: EnvPool) -> None:
    pool.reset([1, 2])
    old = pool.envs[0]
    start = time.perf_counter()
    results = pool.step(["hang", "b", "hang", "hang", "e", "f"])  # more than there are workers
    assert time.perf_counter() - start < 20  # far from the time that the hung ones would take
    assert [result is None for result in results] == [True, False, True, True, False, False]
    assert pool.errors[0] == "took longer than step_timeout_s=0.2 seconds"
    assert [result is None for result in pool.step(["a"] * 6)] == [True, False, True, True, False, False]
    assert None not in pool.reset([1, 2])
    assert pool.envs[0] is not old  # the hung thread still holds the old one
    Troubled.release.set()
    time.sleep(0.05)
    assert None not in pool.step(["x"] * 6)
    assert pool.envs[0].answers == ["x"]


def test_close_ends_threads_and_environments() -> None:
    before = threading.active_count()
    pool = EnvPool(Troubled, EnvConfig(), groups=1, group_size=2, workers=3)
    assert threading.active_count() == before + 3
    pool.reset([0])
    pool.step(["fail", "work"])
    pool.close()
    assert threading.active_count() == before
    assert [env.closed for env in pool.envs] == [False, True]
    with pytest.raises(RuntimeError, match="the pool is closed"):
        pool.reset([0])


def test_a_hung_thread_does_not_keep_the_process_alive() -> None:
    script = """
import time
from ragen_jax.envs.bandit import Bandit, BanditConfig
from ragen_jax.envs.pool import EnvPool
class Hanging(Bandit):
    def step(self, answer):
        time.sleep(60)
pool = EnvPool(Hanging, BanditConfig(), groups=1, group_size=2, workers=2, step_timeout_s=0.1)
pool.reset([0])
pool.step(["a", None])
print(pool.errors)
"""
    start = time.perf_counter()
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30)
    assert time.perf_counter() - start < 20
    assert run.stdout.strip() == "['took longer than step_timeout_s=0.1 seconds', None]"


def test_wrong_lengths_and_sizes_are_refused(pool: EnvPool) -> None:
    with pytest.raises(ValueError, match="3 seeds for 2 groups"):
        pool.reset([1, 2, 3])
    with pytest.raises(ValueError, match="1 answers for 6 rows"):
        pool.step(["a"])
    for options in ({"groups": 0}, {"group_size": 0}, {"workers": 0}, {"step_timeout_s": 0.0}):
        with pytest.raises(ValueError, match=f"{next(iter(options))}=0"):
            EnvPool(Troubled, EnvConfig(), **({"groups": 1, "group_size": 1} | options))
    with pytest.raises(KeyError, match="unknown environment 'lake'"):
        EnvPool("lake", EnvConfig(), groups=1, group_size=1)
