"""Order, bounds, staleness, errors and shutdown of the queue."""

from __future__ import annotations

import threading
import time
import traceback

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragen_jax.rollout.queue import ActorThread, Entry, QueueClosedError, RolloutQueue

PATIENCE_S = 10.0


@settings(max_examples=25, deadline=None)
@given(
    delays=st.lists(st.sampled_from([0.0, 0.0005, 0.002]), min_size=12, max_size=12),
    maxsize=st.integers(1, 3),
    producers=st.integers(1, 3),
)
def test_order_is_kept_under_random_delays(delays: list[float], maxsize: int, producers: int) -> None:
    queue: RolloutQueue[str] = RolloutQueue(maxsize)

    def produce(first: int) -> None:
        for step in range(first, len(delays), producers):
            time.sleep(delays[step])
            queue.put(Entry(step, version=step, item=f"batch {step}"))

    threads = [threading.Thread(target=produce, args=(first,), daemon=True) for first in range(producers)]
    for thread in threads:
        thread.start()
    taken = []
    for delay in reversed(delays):
        time.sleep(delay)
        assert len(queue) <= maxsize
        taken.append(queue.get(PATIENCE_S))
    assert [entry.step for entry in taken] == list(range(len(delays)))
    assert [entry.item for entry in taken] == [f"batch {step}" for step in range(len(delays))]
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_put_waits_for_room() -> None:
    queue: RolloutQueue[str] = RolloutQueue(1)
    queue.put(Entry(0, 0, "a"))
    second = threading.Thread(target=queue.put, args=(Entry(1, 0, "b"),), daemon=True)
    second.start()
    second.join(0.05)
    assert second.is_alive()
    assert queue.get().item == "a"
    second.join(PATIENCE_S)
    assert not second.is_alive()
    assert queue.get().item == "b"


def test_closing_frees_those_who_wait_and_keeps_what_is_in() -> None:
    queue: RolloutQueue[str] = RolloutQueue(1)
    queue.put(Entry(0, 0, "a"))
    outcome: list[BaseException] = []

    def put() -> None:
        try:
            queue.put(Entry(1, 0, "b"))
        except QueueClosedError as error:
            outcome.append(error)

    waiting = threading.Thread(target=put, daemon=True)
    waiting.start()
    queue.close()
    waiting.join(PATIENCE_S)
    assert "before step 1" in str(outcome[0])
    assert queue.get().item == "a"
    with pytest.raises(QueueClosedError):
        queue.get(PATIENCE_S)


def test_wrong_use() -> None:
    with pytest.raises(ValueError, match="maxsize=0"):
        RolloutQueue(0)
    queue: RolloutQueue[str] = RolloutQueue(2, first_step=3)
    queue.put(Entry(3, 0, "a"))
    with pytest.raises(ValueError, match="step 3 was put before; the next is 4"):
        queue.put(Entry(3, 0, "again"))
    queue.get()
    with pytest.raises(TimeoutError, match=r"within 0\.01 seconds"):
        queue.get(0.01)
    with pytest.raises(ValueError, match="max_staleness=-1"):
        ActorThread(lambda step, version: None, first_step=0, last_step=1, queue_size=1, max_staleness=-1)


@pytest.mark.parametrize("max_staleness", [0, 1, 2])
def test_no_rollout_is_staler_than_allowed(max_staleness: int) -> None:
    produced: list[tuple[int, int]] = []

    def produce(step: int, version: int) -> str:
        produced.append((step, version))
        return f"batch {step}"

    actor = ActorThread(produce, first_step=0, last_step=8, queue_size=2, max_staleness=max_staleness)
    for step in range(8):
        actor.publish(step)
        entry = actor.get(PATIENCE_S)
        time.sleep(0.002)
        assert entry.step == step
        assert step - max_staleness <= entry.version <= step
        assert entry.item == f"batch {step}"
        assert produced[-1][0] <= step + max_staleness
    with pytest.raises(QueueClosedError):
        actor.get(PATIENCE_S)
    assert actor.stop(PATIENCE_S)
    with pytest.raises(ValueError, match="version 3 after version 7"):
        actor.publish(3)


def test_the_actor_waits_for_the_first_version() -> None:
    actor = ActorThread(lambda step, version: step, first_step=5, last_step=6, queue_size=1, max_staleness=9)
    with pytest.raises(TimeoutError):
        actor.get(0.02)
    actor.publish(5)
    assert actor.get(PATIENCE_S) == Entry(5, 5, 5)
    assert actor.stop(PATIENCE_S)


def test_an_error_of_the_actor_reaches_the_learner_with_its_traceback() -> None:
    def broken_environment(step: int, version: int) -> str:
        if step == 1:
            raise RuntimeError("the board is gone")
        return "batch"

    actor = ActorThread(broken_environment, first_step=0, last_step=9, queue_size=3, max_staleness=9)
    actor.publish(0)
    assert actor.get(PATIENCE_S).item == "batch"
    with pytest.raises(RuntimeError, match="the board is gone") as caught:
        actor.get(PATIENCE_S)
    assert "broken_environment" in "".join(traceback.format_tb(caught.value.__traceback__))
    assert actor.stop(PATIENCE_S)


@settings(max_examples=25, deadline=None)
@given(taken=st.integers(0, 3), queue_size=st.integers(1, 2), delay=st.sampled_from([0.0, 0.001]))
def test_shutdown_never_hangs(taken: int, queue_size: int, delay: float) -> None:
    def produce(step: int, version: int) -> int:
        time.sleep(delay)
        return step

    actor = ActorThread(produce, first_step=0, last_step=1000, queue_size=queue_size, max_staleness=1000)
    actor.publish(0)
    for step in range(taken):
        assert actor.get(PATIENCE_S).item == step
    assert actor.stop(PATIENCE_S)


def test_stopping_an_actor_that_waits_for_a_version_or_is_busy() -> None:
    waiting = ActorThread(lambda step, version: step, first_step=0, last_step=9, queue_size=1, max_staleness=0)
    assert waiting.stop(PATIENCE_S)
    begun, release = threading.Event(), threading.Event()

    def produce(step: int, version: int) -> bool:
        begun.set()
        return release.wait(PATIENCE_S)

    busy = ActorThread(produce, first_step=0, last_step=9, queue_size=1, max_staleness=0)
    busy.publish(0)
    assert begun.wait(PATIENCE_S)
    assert not busy.stop(0.02)
    release.set()
    assert busy.stop(PATIENCE_S)
