"""The training loop: rollout, diagnosis, filter, update; then validation, checkpoint and the rules that end a run."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ragen_jax.config.schema import Config
from ragen_jax.config.serial import flatten, to_json
from ragen_jax.config.validate import validate
from ragen_jax.learner.checkpoint import Checkpointer
from ragen_jax.learner.state import abstract_state
from ragen_jax.rollout.episodes import Episode, Rollout
from ragen_jax.rollout.queue import ActorThread
from ragen_jax.training import early_stop, json_lines, monitor
from ragen_jax.training.build import Components, build, needs_initial
from ragen_jax.training.compilation_cache import configure_compilation_cache
from ragen_jax.training.compile_counter import CompileCounter
from ragen_jax.training.console import Console
from ragen_jax.training.data_record import data_metrics, data_sources
from ragen_jax.training.disk_errors import disk_errors_of_a_run
from ragen_jax.training.evaluate import validate_policy
from ragen_jax.training.origin import continued, recorded
from ragen_jax.training.resampling import SampledBatch, sample_batch
from ragen_jax.training.run_folder import RolloutLog, RunFolder, claim_folder
from ragen_jax.training.scorer import check_scorer, scorer_fingerprint
from ragen_jax.training.signals import StopSignal
from ragen_jax.training.step import learn
from ragen_jax.training.summary import build_summary, peak_rss_bytes
from ragen_jax.training.writers import JsonLines, Many, MetricWriter, TensorBoard
from ragen_jax.types import Params, TrainState

logger = logging.getLogger(__name__)

FINISHED = "finished"
# What may differ between a run and its continuation; everything else would make it another run.
_FREE_ON_RESUME = ("steps", "folder", "resume", "checkpoint.every", "checkpoint.keep")


class NonFiniteUpdateError(RuntimeError):
    """A loss or gradient was not finite."""


class TooManyFailuresError(RuntimeError):
    """More rows of a batch failed than the configuration allows."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a run left behind.

    Attributes:
      folder: its folder.
      summary: content of ``summary.json``.
      state: last train state.
    """

    folder: RunFolder
    summary: dict[str, Any]
    state: TrainState


def train(config: Config, *, experiment: str = "train", writers: tuple[MetricWriter, ...] | None = None) -> Outcome:
    """Run a configuration to its end, into a run folder.

    With ``config.resume`` the run of that folder goes on after its newest complete checkpoint, bit-identically on CPU
    when ``rollout.max_staleness`` is 0. Ctrl-C and SIGTERM finish the running step, save, and leave it resumable.

    Args:
      config: the configuration; checked before devices are touched.
      experiment: first part of the folder's name.
      writers: further writers of metrics beside the files of the run folder; a console by default.

    Returns:
      Folder, summary and last state.

    Raises:
      ValueError: a configuration or folder that cannot be used.
      NonFiniteUpdateError: the loss of an update was not finite; the batch is saved, and the state without that update.
      TooManyFailuresError: too many environments failed; the batch and the state are saved.
      DiskError: the disk of the run folder is full or broken.
    """
    called = time.monotonic()
    settings = config
    if config.resume:  # parameters are in the checkpoint; where the run once began need not exist any more
        run_folder = RunFolder.open(config.resume, write=True)
        settings = continued(config, run_folder, first_params=needs_initial(config))
    validate(settings)
    folder = _check_folder(config)
    configure_compilation_cache()
    with contextlib.ExitStack() as stack:
        compiled = stack.enter_context(CompileCounter())
        stop = stack.enter_context(StopSignal())
        parts = build(settings)
        stack.callback(parts.close)
        folder = folder or _new_folder(config, experiment, sources=data_sources(parts))
        stack.enter_context(folder.locked())
        checkpointer = stack.enter_context(Checkpointer(folder.checkpoints, keep=config.checkpoint.keep))
        stack.enter_context(disk_errors_of_a_run(folder.path, checkpointer))
        run = _Run(parts, folder, checkpointer, compiled, called=called)
        if writers is None:
            writers = (Console(total_steps=config.steps, first_step=run.step),)
        resumed = run.step if config.resume else None
        files = (JsonLines(folder.metrics_file, last_step=resumed), TensorBoard(folder.tensorboard, last_step=resumed))
        run.writer = Many([*files, *writers])
        stack.callback(run.writer.close)
        reason = run.loop(stop)
        summary = run.summarise(reason)
    return Outcome(folder=folder, summary=summary, state=run.state)


def _new_folder(config: Config, experiment: str, *, sources: list[str]) -> RunFolder:
    """Made once everything else is, so that a start that fails leaves nothing behind."""
    preset = "-".join(config.preset) or "custom"
    path = config.folder or claim_folder("runs", experiment=experiment, preset=preset, seed=config.seed)
    metadata = {
        "experiment": experiment,
        "preset": list(config.preset),
        "seed": config.seed,
        "data_sources": sources,
        "origin": recorded(config),
    }
    # Where a run stands is not part of what it is: its configuration starts the same run elsewhere.
    return RunFolder.create(path, to_json(dataclasses.replace(config, folder="")), metadata=metadata)


def _check_folder(config: Config) -> RunFolder | None:
    """The folder of a run to continue; for a new run None, after a look at whether its folder can be made."""
    if not config.resume:
        if config.folder:
            RunFolder.check_new(config.folder)
        else:
            RunFolder.check_place("runs")
        return None
    folder = RunFolder.open(config.resume, write=True)
    saved, wanted = flatten(folder.config()), flatten(config)
    changed = [
        f"{name} was {saved.get(name)!r} and is now {wanted.get(name)!r}"
        for name in sorted(saved.keys() | wanted.keys())
        if saved.get(name) != wanted.get(name) and name not in _FREE_ON_RESUME
    ]
    if changed:
        raise ValueError(
            f"{folder.path} cannot go on with another configuration: {'; '.join(changed)}. "
            f"Only {', '.join(_FREE_ON_RESUME)} may change; start a new run for anything else"
        )
    return folder


class _Run:
    """The moving parts of one run."""

    def __init__(
        self,
        parts: Components,
        folder: RunFolder,
        checkpointer: Checkpointer,
        compiled: CompileCounter,
        *,
        called: float,
    ) -> None:
        config = parts.config
        self.parts, self.folder, self.checkpointer, self.compiled = parts, folder, checkpointer, compiled
        self.config = config
        self.state = parts.state
        self.step = 0
        self.rules = early_stop.EarlyStopState()
        self.monitor = monitor.MonitorState()
        self.scorer = scorer_fingerprint(parts)
        self.writer: MetricWriter = Many([])
        self.started = time.monotonic()
        self.called: float | None = called  # when the run was asked for; None once its first step is done
        self.seconds_before = 0.0
        self.began = time.perf_counter()  # of the running step: the end of the one before, less validation and saving
        self.validated = -1  # step of the last validation
        self.produced: dict[int, tuple[float, SampledBatch]] = {}  # step -> seconds, and what they were spent on
        self.published: dict[int, Params] = {}  # version -> parameters that the actor may sample from
        if config.resume:
            self._restore()
        self.rollouts = RolloutLog(
            folder.rollouts_file,
            budget_bytes=int(config.checkpoint.rollouts_budget_mb * 2**20),
            last_step=self.step if config.resume else None,
        )

    def loop(self, stop: StopSignal) -> str:
        """Train until a reason to end; returns it."""
        config = self.config
        if self.step >= config.steps:
            raise ValueError(f"{self.folder.path} has finished {self.step} steps; raise steps={config.steps} to go on")
        if self.step == 0 and config.validation.at_start and self.validated != 0:
            self.writer.write(0, self._validate() | {"compile/count": float(self.compiled.count)})
        actor = ActorThread(
            self._produce,
            first_step=self.step,
            last_step=config.steps,
            queue_size=config.rollout.queue_size,
            max_staleness=config.rollout.max_staleness,
        )
        try:
            self._publish(actor)
            reason, self.began = None, time.perf_counter()
            while reason is None and self.step < config.steps and stop.requested is None:
                reason = self._take_step(actor)
        finally:
            actor.stop()
        if reason is None and self.step < config.steps:
            self._save()
            logger.warning(
                "stopped by %s after step %d; resume=%s goes on", stop.requested, self.step, self.folder.path
            )
            return f"interrupted by {stop.requested}"
        if self.validated != self.step:
            self.writer.write(self.step, self._validate())
        self._save()
        return reason or FINISHED

    def summarise(self, reason: str) -> dict[str, Any]:
        """Write and return the summary."""
        summary = build_summary(
            self.folder.metrics(),
            seed=self.config.seed,
            stop_reason=reason,
            wall_seconds=self._seconds(),
            peak_rss=peak_rss_bytes(),
            compilations=self.compiled.count,
            data_sources=data_sources(self.parts),
        )
        self.folder.write_summary(summary)
        return summary

    def _take_step(self, actor: ActorThread) -> str | None:
        rollout = actor.get().item
        rollout_seconds, sampled = self.produced.pop(self.step)
        if sampled.invalid_share > self.config.env.max_invalid_share:
            self._give_up_on_environment(rollout, sampled.invalid_share)
        result = learn(self.parts, self.state, rollout)
        self.state, metrics = result.state, result.metrics
        if metrics.get("update/finite", 1.0) == 0:
            self._give_up_on_batch(rollout, metrics)
        self.step += 1
        self._log_rollouts(rollout.unselected.info.episodes)
        if result.probe_rows:
            json_lines.append_rows(self.folder.probe_file, ({"step": self.step} | row for row in result.probe_rows))
        self._publish(actor)
        seconds, self.began = time.perf_counter() - self.began, time.perf_counter()
        metrics |= {
            "rollout/attempts": float(sampled.attempts),
            "time/rollout_seconds": rollout_seconds,
            "time/step_seconds": seconds,
            "time/tokens_per_second": sampled.tokens / seconds,
            "time/cross_score_share": metrics["time/cross_score_seconds"] / seconds,
        }
        if self.called is not None:
            metrics["time/to_first_step_seconds"] = time.monotonic() - self.called
            self.called = None
        self.monitor, report = monitor.update(
            self.monitor, metrics, rollout.unselected.batch, settings=self.config.alarm
        )
        metrics |= report.metrics
        if self.step == 1:
            metrics |= data_metrics(self.parts)
        for level, sentences in ((logging.INFO, report.notes), (logging.WARNING, report.warnings)):
            for sentence in sentences:
                logger.log(level, "step %d: %s", self.step, sentence)
        every = self.config.validation.every
        if every and self.step % every == 0:
            metrics |= self._validate()
        metrics["compile/count"] = float(self.compiled.count)
        self.writer.write(self.step, metrics)
        self.rules, reason = early_stop.update(
            self.rules,
            metrics,
            rules=self.config.early_stop,
            max_empty_steps=1 if self.config.filter.when_empty == "stop" else self.config.filter.max_empty_steps,
        )
        if reason is None and self.config.alarm.stop and report.repeating is not None:
            reason = f"{report.repeating}; newest checkpoint before it: step {self.checkpointer.latest() or 'none'}"
        if reason is not None:
            logger.warning("the run stops at step %d: %s", self.step, reason)
        elif self.config.checkpoint.every and self.step % self.config.checkpoint.every == 0:
            self._save()
        return reason

    def _produce(self, step: int, version: int) -> Rollout:
        """Called in the actor's thread."""
        began = time.perf_counter()
        params = self.published[version]
        for older in [known for known in list(self.published) if known < version]:
            del self.published[older]
        sampled = sample_batch(self.parts, params, step=step, version=version)
        self.produced[step] = (time.perf_counter() - began, sampled)
        return sampled.rollout

    def _publish(self, actor: ActorThread) -> None:
        params = self.state.params
        if self.config.rollout.max_staleness:  # the actor may still sample from them while the update reuses buffers
            params = jax.tree.map(jnp.copy, params)
        self.published[self.step] = params
        actor.publish(self.step)

    def _validate(self) -> dict[str, float]:
        began = time.perf_counter()
        validation = validate_policy(self.parts, self.state.params, step=self.step)
        self.validated = self.step
        seconds = time.perf_counter() - began
        self.began += seconds  # no part of a step
        return validation.metrics | {"time/validation_seconds": seconds}

    def _log_rollouts(self, episodes: tuple[Episode, ...]) -> None:
        settings = self.config.checkpoint
        if settings.rollouts_every and (self.step - 1) % settings.rollouts_every == 0:
            stride = max(len(episodes) // settings.rollouts_per_sample, 1)
            sample = episodes[::stride][: settings.rollouts_per_sample]
            self.rollouts.append(self.step, [dataclasses.asdict(episode) for episode in sample])

    def _save(self) -> None:
        if self.checkpointer.latest() == self.step:
            return
        began = time.perf_counter()
        meta = {
            "rules": self.rules.to_json(),
            "monitor": self.monitor.to_json(),
            "next_seed": self.config.training_seeds(self.step).start,
            "validated": self.validated,
            "wall_seconds": self._seconds(),
            "scorer": self.scorer,
        }
        self.checkpointer.save(self.step, self.state, meta)
        self.began += time.perf_counter() - began  # no part of a step

    def _restore(self) -> None:
        step = self.checkpointer.latest()
        if step is None:
            raise ValueError(f"{self.folder.path} has no complete checkpoint to resume from; start a new run")
        self.state, meta = self.checkpointer.restore(step, abstract_state(self.state, self.parts.mesh))
        self.step = step
        self.rules = early_stop.EarlyStopState.from_json(meta["rules"])
        self.monitor = monitor.MonitorState.from_json(meta["monitor"])
        self.validated = meta["validated"]
        self.seconds_before = meta["wall_seconds"]
        check_scorer(self.config.collapse.scorer, self.scorer, meta.get("scorer"))
        expected = self.config.training_seeds(step).start
        if meta["next_seed"] != expected:
            raise ValueError(
                f"the checkpoint of step {step} goes on at training seed {meta['next_seed']}, this configuration at "
                f"{expected}: seed, env.train_seed and rollout.prompts must be those of the run"
            )
        # From here on the run is at this step: what was written after it goes, damaged checkpoints as well as rows.
        self.checkpointer.drop_after(step)
        json_lines.keep_rows(self.folder.probe_file, lambda row: row["step"] <= step)
        logger.info("resumed %s after step %d", self.folder.path, step)

    def _seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self.started

    def _give_up_on_batch(self, rollout: Rollout, metrics: dict[str, float]) -> None:
        path = self._write_batch("nonfinite", rollout)
        self._save()
        remedy = "lower optim.lr"
        if not math.isfinite(metrics.get("advantage/rms", 0.0)):
            estimator = self.config.algorithm.advantage
            remedy = f"the advantages were not: look at algorithm.advantage={estimator}, its rewards and its values"
        raise NonFiniteUpdateError(
            f"the loss or a gradient of an update of step {self.step + 1} is not finite; that update was not applied "
            f"(any other of the step was), the batch is in {path}, the state is saved; {remedy}"
        )

    def _give_up_on_environment(self, rollout: Rollout, share: float) -> None:
        path = self._write_batch("failed", rollout)
        self._save()
        episodes = rollout.info.episodes
        failed = [row for row, episode in enumerate(episodes) if episode.error is not None]
        first = episodes[failed[0]]
        raise TooManyFailuresError(
            f"{len(failed)} of {len(episodes)} environments failed in step {self.step + 1}, above "
            f"env.max_invalid_share={self.config.env.max_invalid_share:g} (share {share:.2f}); the batch is in {path}, "
            f"the state is saved; first: row {failed[0]} ({first.env}, seed {first.seed}): {first.error}"
        )

    def _write_batch(self, name: str, rollout: Rollout) -> Path:
        """Save the arrays of the batch of the running step."""
        path = self.folder.path / f"{name}_step_{self.step}.npz"
        batch = rollout.batch
        np.savez(path, **{field.name: getattr(batch, field.name) for field in dataclasses.fields(batch)})
        return path
