"""P x G environments of one kind, stepped by threads, where a bad environment costs its own row and nothing else."""

from __future__ import annotations

import dataclasses
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

from ragen_jax.envs import env_class
from ragen_jax.envs.base import Ending, EnvConfig, Observation, StepResult, TextEnv

logger = logging.getLogger(__name__)


class EnvPool:
    """``groups * group_size`` environments; row ``i * group_size + k`` is member k of group i.

    An environment that raises, or whose reset, step or finish exceeds the time limit, makes its row invalid until the
    next reset: ``errors[row]`` says why, the row's results are None and later answers for it are ignored. The thread of
    a hung environment is abandoned (threads are daemons, so it cannot keep the process alive) and replaced.

    Attributes:
      name: name of the environment.
      config: config of every environment.
      groups: P.
      group_size: G.
      envs: the environments, one a row.
      errors: one entry a row, None or the error of the running episode.
    """

    def __init__(
        self,
        env: str | type[TextEnv],
        config: EnvConfig,
        *,
        groups: int,
        group_size: int,
        workers: int = 4,
        step_timeout_s: float = 10.0,
    ) -> None:
        """Make the environments and start the threads.

        Args:
          env: a name of ``ENVS`` or an environment class.
          config: config of every environment.
          groups: P.
          group_size: G, members that share a layout seed.
          workers: threads; an environment with ``max_workers`` has no more than that.
          step_timeout_s: seconds that one reset, step or finish may take.

        Raises:
          KeyError: for an unknown name.
          ValueError: for sizes below 1 or a time limit of 0.
        """
        for field, value in (("groups", groups), ("group_size", group_size), ("workers", workers)):
            if value < 1:
                raise ValueError(f"{field}={value}: use 1 or more")
        if step_timeout_s <= 0:
            raise ValueError(f"step_timeout_s={step_timeout_s}: use a positive number of seconds")
        self._factory = env_class(env)
        self.name: str = self._factory.name
        self.config = config
        self.groups, self.group_size = groups, group_size
        self.envs: list[TextEnv] = [self._factory(config) for _ in range(groups * group_size)]
        self.errors: list[str | None] = [None] * len(self.envs)
        self._timeout = step_timeout_s
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()  # None stops a worker
        # A row that waits for its turn waits here, in the queue of tasks, where its time limit does not run yet.
        threads = min(workers, self._factory.max_workers or workers)
        if threads < workers:
            logger.info("workers=%d: environment %r has at most %d at once", workers, self.name, threads)
        self._workers = [_Worker(self._tasks) for _ in range(threads)]

    def __len__(self) -> int:
        """Rows."""
        return len(self.envs)

    def instructions(self) -> str:
        """Task description, shared by all rows."""
        return self.envs[0].instructions()

    def reset(self, seeds: Sequence[int]) -> list[Observation | None]:
        """Begin an episode in every row; rows of group i share ``seeds[i]``.

        Returns:
          One observation a row, None where the environment failed.

        Raises:
          ValueError: when there is not one seed per group.
        """
        if len(seeds) != self.groups:
            raise ValueError(f"{len(seeds)} seeds for {self.groups} groups: give one seed per group")
        for row, error in enumerate(self.errors):
            if error is not None:  # a hung thread may still hold the old one
                self.envs[row] = self._factory(self.config)
        self.errors = [None] * len(self)
        # First members first: they draw the instances of their groups, which the others find in the cache.
        order = [i * self.group_size + k for k in range(self.group_size) for i in range(self.groups)]
        calls = (
            (row, self.envs[row].reset, (int(seeds[row // self.group_size]), row % self.group_size)) for row in order
        )
        return self._run(calls)

    def step(self, answers: Sequence[str | None]) -> list[StepResult | None]:
        """Step the rows that have an answer.

        Args:
          answers: one a row; None for a row that does not act.

        Returns:
          One result a row, None where nothing was done or the environment failed.

        Raises:
          ValueError: when there is not one answer per row.
        """
        if len(answers) != len(self):
            raise ValueError(f"{len(answers)} answers for {len(self)} rows: give one per row, None for no action")
        calls = (
            (row, self.envs[row].step, (answer,))
            for row, answer in enumerate(answers)
            if answer is not None and self.errors[row] is None
        )
        return self._run(calls)

    def finish(self, rows: Sequence[int]) -> list[Ending | None]:
        """End the episodes of some rows where they stand; see ``TextEnv.finish``.

        Returns:
          One ending a row of the pool, None for the other rows and where the environment failed.
        """
        return self._run((row, self.envs[row].finish, ()) for row in rows if self.errors[row] is None)

    def close(self) -> None:
        """Stop the threads and close the environments that still work."""
        for _ in self._workers:
            self._tasks.put(None)
        for worker in self._workers:
            worker.thread.join(self._timeout)
        self._workers = []
        for env, error in zip(self.envs, self.errors, strict=True):
            if error is None:
                env.close()

    def __enter__(self) -> Self:
        """The pool itself; leaving the block closes it."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the pool."""
        self.close()

    def _run(self, calls: Iterable[tuple[int, Callable[..., Any], tuple[Any, ...]]]) -> list[Any]:
        """Run one call for some rows; collect values, and errors of those that raise or hang."""
        if not self._workers:
            raise RuntimeError("the pool is closed: make a new one")
        results: list[Any] = [None] * len(self)
        outcomes: queue.SimpleQueue[_Task] = queue.SimpleQueue()  # of this run alone, an interrupted one left its own
        open_tasks = set()
        for row, function, arguments in calls:
            task = _Task(row, function, arguments, outcomes)
            open_tasks.add(task)
            self._tasks.put(task)
        while open_tasks:
            try:
                task = outcomes.get(timeout=self._timeout / 4)
            except queue.Empty:
                open_tasks -= self._abandon_hung_workers()
                continue
            open_tasks.remove(task)
            results[task.row] = task.value
            if task.error is not None:
                self._fail(task.row, task.error)
        return results

    def _abandon_hung_workers(self) -> set[_Task]:
        """Replace the workers whose task is over its time; return the tasks that are given up."""
        given_up = set()
        for index, worker in enumerate(self._workers):
            task = worker.overdue(self._timeout)
            if task is not None:
                given_up.add(task)
                self._fail(task.row, f"took longer than step_timeout_s={self._timeout:g} seconds")
                self._workers[index] = _Worker(self._tasks)
        return given_up

    def _fail(self, row: int, error: str) -> None:
        self.errors[row] = error
        logger.warning("environment of row %d failed, the row is invalid: %s", row, error)


@dataclasses.dataclass(eq=False)
class _Task:
    """One call of one row; the worker fills in value or error and puts the task into ``outcomes``."""

    row: int
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    outcomes: queue.SimpleQueue[_Task]
    value: Any = None
    error: str | None = None


class _Worker:
    """A daemon thread that takes tasks until it is told to stop or given up as hung."""

    def __init__(self, tasks: queue.SimpleQueue[_Task | None]) -> None:
        self._tasks = tasks
        self._lock = threading.Lock()  # guards the three fields below
        self._running: _Task | None = None
        self._started = 0.0
        self._abandoned = False
        self.thread = threading.Thread(target=self._work, name="env-pool", daemon=True)
        self.thread.start()

    def overdue(self, limit_s: float) -> _Task | None:
        """Return the running task when it is over its time; the worker then takes no further task."""
        with self._lock:
            if self._running is None or time.monotonic() - self._started < limit_s:
                return None
            self._abandoned = True
            return self._running

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            with self._lock:
                self._running, self._started = task, time.monotonic()
            try:
                task.value = task.function(*task.arguments)
            except Exception as error:  # an environment may fail in any way; the row says how
                task.error = f"{type(error).__name__}: {error}"
            with self._lock:
                self._running = None
                if self._abandoned:  # its row was given up and its place is taken
                    return
            task.outcomes.put(task)
