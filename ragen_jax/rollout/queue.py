"""Finished batches on their way from the actor to the learner: bounded, ordered, versioned.

The learner publishes the version of its parameters (the number of finished steps); the actor begins the rollout of step
s only when version s - max_staleness is out. With ``max_staleness=0`` the two take turns.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from ragen_jax.rollout.episodes import Rollout

Item = TypeVar("Item")


class QueueClosedError(RuntimeError):
    """The other side is gone and nothing is left to take."""


@dataclasses.dataclass(frozen=True)
class Entry(Generic[Item]):
    """A batch with its place in the run.

    Attributes:
      step: learner step that it is for.
      version: parameters that sampled it.
      item: the batch.
    """

    step: int
    version: int
    item: Item


class RolloutQueue(Generic[Item]):
    """At most ``maxsize`` entries, handed out in the order of their steps, whoever puts them in whatever order."""

    def __init__(self, maxsize: int, *, first_step: int = 0) -> None:
        """Make an empty queue.

        Raises:
          ValueError: for a size below 1.
        """
        if maxsize < 1:
            raise ValueError(f"maxsize={maxsize}: use 1 or more")
        self._maxsize = maxsize
        self._next_step = first_step
        self._entries: deque[Entry[Item]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._error: BaseException | None = None

    def put(self, entry: Entry[Item]) -> None:
        """Add an entry, once all earlier steps were added and there is room.

        Raises:
          QueueClosedError: when the queue was closed before the entry could be added.
          ValueError: for a step that was added before.
        """
        with self._changed:
            if entry.step < self._next_step:
                raise ValueError(f"step {entry.step} was put before; the next is {self._next_step}")
            self._changed.wait_for(
                lambda: self._closed or (entry.step == self._next_step and len(self._entries) < self._maxsize)
            )
            if self._closed:
                raise QueueClosedError(f"the queue was closed before step {entry.step} was added")
            self._entries.append(entry)
            self._next_step += 1
            self._changed.notify_all()

    def get(self, timeout_s: float | None = None) -> Entry[Item]:
        """Take the oldest entry, waiting for it.

        Entries that were finished before an error come first, then the error itself.

        Raises:
          QueueClosedError: when the queue is closed and empty.
          TimeoutError: when nothing came in time.
          BaseException: the error that was reported by ``fail``, with its traceback.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._entries or self._closed, timeout_s):
                raise TimeoutError(f"no rollout came within {timeout_s} seconds")
            if self._entries:
                entry = self._entries.popleft()
                self._changed.notify_all()
                return entry
            if self._error is not None:
                raise self._error
            raise QueueClosedError("the queue is closed: no further rollout will come")

    def fail(self, error: BaseException) -> None:
        """Close the queue for a reason, which ``get`` raises."""
        with self._changed:
            self._error = error
            self._closed = True
            self._changed.notify_all()

    def close(self) -> None:
        """Let nothing in any more; waiting ``put`` calls give up, entries that are in can still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def __len__(self) -> int:
        """Entries that wait."""
        with self._changed:
            return len(self._entries)


class ActorThread:
    """Produces the rollouts of steps ``first_step`` to ``last_step - 1`` in one daemon thread."""

    def __init__(
        self,
        produce: Callable[[int, int], Rollout],
        *,
        first_step: int,
        last_step: int,
        queue_size: int,
        max_staleness: int,
    ) -> None:
        """Start the thread; it waits for the first ``publish``.

        Args:
          produce: (step, version) -> rollout, called in the thread with the newest published version.
          first_step: step of the first rollout.
          last_step: step at which the actor is done.
          queue_size: finished rollouts that may wait.
          max_staleness: steps by which the parameters of a rollout may lag behind.

        Raises:
          ValueError: for a negative staleness or a queue size below 1.
        """
        if max_staleness < 0:
            raise ValueError(f"max_staleness={max_staleness}: use 0 (on-policy) or more")
        self.queue: RolloutQueue[Rollout] = RolloutQueue(queue_size, first_step=first_step)
        self._produce = produce
        self._steps = range(first_step, last_step)
        self._max_staleness = max_staleness
        self._published = threading.Condition()
        self._version: int | None = None
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="rollout-actor", daemon=True)
        self._thread.start()

    def publish(self, version: int) -> None:
        """Announce that parameters of this version can be sampled from.

        Raises:
          ValueError: for a version older than the newest.
        """
        with self._published:
            if self._version is not None and version < self._version:
                raise ValueError(f"version {version} after version {self._version}: versions only grow")
            self._version = version
            self._published.notify_all()

    def get(self, timeout_s: float | None = None) -> Entry[Rollout]:
        """The next rollout, in order of steps; see ``RolloutQueue.get``."""
        return self.queue.get(timeout_s)

    def stop(self, timeout_s: float = 10.0) -> bool:
        """End the thread, after the rollout that it is busy with.

        Returns:
          False when it was still busy after ``timeout_s`` seconds; as a daemon it cannot keep the process alive.
        """
        with self._published:
            self._stopping = True
            self._published.notify_all()
        self.queue.close()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _work(self) -> None:
        try:
            for step in self._steps:
                version = self._wait_for_version(step - self._max_staleness)
                if version is None:
                    return
                self.queue.put(Entry(step, version, self._produce(step, version)))
            self.queue.close()
        except QueueClosedError:
            return
        except BaseException as error:  # whatever ends this thread must reach the learner, or it would wait for ever
            self.queue.fail(error)

    def _wait_for_version(self, oldest: int) -> int | None:
        """The newest version, once it is not older than ``oldest``; None when the thread shall end."""
        with self._published:
            self._published.wait_for(lambda: self._stopping or (self._version is not None and self._version >= oldest))
            return None if self._stopping else self._version
