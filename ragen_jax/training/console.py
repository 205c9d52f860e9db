"""Progress for people: a bar with the time left, and one compact line per step."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import SupportsFloat, TextIO

from ragen_jax.training.writers import clean

_BAR_CELLS = 24
_LOG_CELLS = 10
_LOG_LINES = 20  # about so many step lines in a log file, whatever the number of steps
_LOG_SECONDS = 15.0  # but never silent for longer than this
_SMOOTHING = 0.8

_Metrics = Mapping[str, float | None]


def format_step(step: int, metrics: _Metrics) -> str:
    """A line about a step: what is known of it, in a fixed order, with units; unknown metrics are left out.

    A validation has a line of its own, after that of the step.
    """
    parts = [
        _number("success {:.2f}", metrics, "rollout/success"),
        _number("return {:z.2f}", metrics, "rollout/return"),
        _number("variance {:.3f}", metrics, "filter/reward_variance_mean"),
        _number("kept {:.0f}/{:.0f}", metrics, "filter/kept_count", "filter/groups"),
        "no update" if metrics.get("update/skipped") == 1 else "",
        *_collapse(metrics, "collapse/first_turn"),
        _number("valid {:.2f}", metrics, "rollout/valid_format"),
        _number("{:.0f} tok/s", metrics, "time/tokens_per_second"),
        _number("compiled {:.0f}", metrics, "compile/count"),
    ]
    validation = [
        _number("success {:.3f}", metrics, "validation/success"),
        *_collapse(metrics, "validation/collapse"),
        _number("valid {:.2f}", metrics, "validation/valid_format"),
    ]
    head = f"step {step:>4}"
    lines = ["  ".join([f"{head}  validation:", *filter(None, validation)])] if any(validation) else []
    if "rollout/success" in metrics or not lines:
        lines.insert(0, "  ".join([head, *filter(None, parts)]))
    return "\n".join(lines)


def format_duration(seconds: float) -> str:
    """Seconds as ``m:ss`` or ``h:mm:ss``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def format_bar(done: int, total: int, seconds_left: float | None) -> str:
    """Progress bar, such as ``[######..................]  30/120  25 %  1:05 left``."""
    left = "" if seconds_left is None else f"  {format_duration(seconds_left)} left"
    return f"[{_cells(done, total, _BAR_CELLS)}]  {done:>{len(str(total))}}/{total}  {100 * done // total:>3} %{left}"


def _cells(done: int, total: int, width: int) -> str:
    full = width * done // total
    return "#" * full + "." * (width - full)


class Console:
    """Metric writer for a terminal or a log file.

    In a terminal the bar stays in the last line and every step adds its line above. Elsewhere plain lines appear, about
    twenty a run, plus one for each validation, and one whenever nothing has been said for a while.
    """

    def __init__(
        self,
        *,
        total_steps: int,
        first_step: int = 0,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin the clock.

        Args:
          total_steps: the step at which the run ends.
          first_step: finished steps at the start, above 0 on resume.
          stream: standard error by default.
          clock: seconds, rising.

        Raises:
          ValueError: ``total_steps`` is below 1.
        """
        if total_steps < 1:
            raise ValueError(f"total_steps={total_steps}: use 1 or more")
        self._total = total_steps
        self._step = self._first = first_step
        self._stream = sys.stderr if stream is None else stream
        self._live = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._clock = clock
        self._step_time = self._line_time = clock()
        self._step_seconds: float | None = None

    def write(self, step: int, metrics: Mapping[str, SupportsFloat]) -> None:
        """Show the metrics of a step."""
        self._advance(step)
        if self._live or self._due(step, metrics):
            self._put(format_step(step, clean(metrics)))

    def note(self, text: str) -> None:
        """Show a line of text, such as what the run waits for."""
        self._put(text)

    def close(self) -> None:
        """Leave the terminal line clean."""
        if self._live:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _advance(self, step: int) -> None:
        if step <= self._step:
            return
        now = self._clock()
        seconds = (now - self._step_time) / (step - self._step)
        if self._step > self._first + 1 and self._step_seconds is not None:
            seconds = _SMOOTHING * self._step_seconds + (1 - _SMOOTHING) * seconds
        # The first step compiles; its time is forgotten as soon as a second one is known.
        self._step_seconds = seconds
        self._step, self._step_time = step, now

    def _seconds_left(self) -> float | None:
        return None if self._step_seconds is None else self._step_seconds * max(0, self._total - self._step)

    def _due(self, step: int, metrics: Mapping[str, SupportsFloat]) -> bool:
        every = math.ceil(self._total / _LOG_LINES)
        return (
            step in (self._first + 1, self._total)
            or step % every == 0
            or "validation/success" in metrics
            or self._clock() - self._line_time >= _LOG_SECONDS
        )

    def _put(self, line: str) -> None:
        self._line_time = self._clock()
        if self._live:
            bar = format_bar(min(self._step, self._total), self._total, self._seconds_left())
            self._stream.write(f"\r\x1b[K{line}\n{bar}")
        else:
            left = self._seconds_left()
            bar = _cells(min(self._step, self._total), self._total, _LOG_CELLS)
            width = len(str(self._total))
            time_left = "" if left is None else f", {format_duration(left)} left"
            self._stream.writelines(
                f"[{bar} {self._step:>{width}}/{self._total}{time_left}] {part}\n" for part in line.split("\n")
            )
        self._stream.flush()


def _number(template: str, metrics: _Metrics, *names: str) -> str:
    """The metrics in the template, or nothing when one is absent; a value that is not finite shows as ``n/a``."""
    if any(name not in metrics for name in names):
        return ""
    values = [metrics[name] for name in names]
    if any(value is None for value in values):
        return template.split("{", 1)[0] + "n/a"
    return template.format(*values)


def _collapse(metrics: _Metrics, family: str) -> list[str]:
    if metrics.get(f"{family}/scored") == 0:  # no reply had closed reasoning: the zeros beside it mean nothing
        metrics = {**metrics, **{name: None for name in metrics if name.startswith(f"{family}/")}}
    return [
        _number(
            "retrieval {:.2f} (chance {:.2f})", metrics, f"{family}/retrieval_accuracy", f"{family}/retrieval_chance"
        ),
        _number(
            "MI {:z.2f} (max {:.2f}) nats/seq",
            metrics,
            f"{family}/mi_sequence_nats",
            f"{family}/mi_sequence_ceiling_nats",
        ),
        _number("H(Z|X) {:z.2f} nats/tok", metrics, f"{family}/conditional_entropy_token_nats"),
    ]
