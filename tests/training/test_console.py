"""The console: the line, the bar, the terminal and the log file."""

from __future__ import annotations

import io

import pytest

from ragen_jax.training.console import Console, format_bar, format_duration, format_step

METRICS = {
    "rollout/success": 0.42,
    "rollout/return": 0.314,
    "filter/reward_variance_mean": 0.0824,
    "filter/kept_count": 3,
    "filter/groups": 8,
    "collapse/first_turn/retrieval_accuracy": 0.61,
    "collapse/first_turn/retrieval_chance": 0.125,
    "collapse/first_turn/mi_sequence_nats": 1.834,
    "collapse/first_turn/mi_sequence_ceiling_nats": 2.079,
    "collapse/first_turn/conditional_entropy_token_nats": 1.24,
    "rollout/valid_format": 0.99,
    "time/tokens_per_second": 5123.4,
    "compile/count": 9,
}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_full_step_line() -> None:
    assert format_step(12, METRICS) == (
        "step   12  success 0.42  return 0.31  variance 0.082  kept 3/8  retrieval 0.61 (chance 0.12)  "
        "MI 1.83 (max 2.08) nats/seq  H(Z|X) 1.24 nats/tok  valid 0.99  5123 tok/s  compiled 9"
    )


def test_unknown_metrics_are_left_out_and_nonfinite_ones_named() -> None:
    assert format_step(1, {}) == "step    1"
    assert format_step(1, {"rollout/success": None, "filter/kept_count": 2}) == "step    1  success n/a"


def test_collapse_of_nothing_is_not_a_number() -> None:
    nothing = {name: 0.0 for name in METRICS if name.startswith("collapse/")}
    line = format_step(1, METRICS | nothing | {"collapse/first_turn/scored": 0})
    assert "kept 3/8  retrieval n/a  MI n/a  H(Z|X) n/a  valid 0.99" in line
    assert "MI 1.83 (max 2.08)" in format_step(1, METRICS | {"collapse/first_turn/scored": 16})


def test_a_skipped_update_is_named() -> None:
    assert "kept 0/8  no update  retrieval" in format_step(1, METRICS | {"filter/kept_count": 0, "update/skipped": 1})
    assert "no update" not in format_step(1, METRICS | {"update/skipped": 0})


def test_zero_has_no_sign() -> None:
    tiny = {"rollout/success": 0.5, "rollout/return": -0.004, "collapse/first_turn/mi_sequence_nats": -1e-7}
    line = format_step(1, tiny | {"collapse/first_turn/mi_sequence_ceiling_nats": 2.079})
    assert line == "step    1  success 0.50  return 0.00  MI 0.00 (max 2.08) nats/seq"
    assert "return -0.01" in format_step(1, {"rollout/success": 0.5, "rollout/return": -0.006})
    assert "return -0.10" in format_step(1, {"rollout/success": 0.5, "rollout/return": -0.1})


def test_validation_has_its_own_line() -> None:
    line = format_step(10, {"validation/success": 0.5312, "validation/valid_format": 1.0, "rollout/success": 0.4})
    assert line == "step   10  success 0.40\nstep   10  validation:  success 0.531  valid 1.00"
    assert format_step(0, {"validation/success": 0.5, "compile/count": 8}) == "step    0  validation:  success 0.500"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (65.4, "1:05"), (59.6, "1:00"), (3600, "1:00:00"), (7325, "2:02:05")]
)
def test_durations(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_bars() -> None:
    assert format_bar(0, 120, None) == "[........................]    0/120    0 %"
    assert format_bar(30, 120, 65) == "[######..................]   30/120   25 %  1:05 left"
    assert format_bar(120, 120, 0) == "[########################]  120/120  100 %  0:00 left"


def test_terminal_keeps_the_bar_in_the_last_line() -> None:
    stream = Terminal()
    console = Console(total_steps=10, stream=stream, clock=Clock())
    console.note("compiling")
    console.write(1, {"rollout/success": 0.5})
    shown = stream.getvalue().split("\r\x1b[K")
    assert shown[1].startswith("compiling\n[....")
    assert shown[2].startswith("step    1  success 0.50\n[##")
    console.close()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_log_file_gets_plain_lines_but_not_many() -> None:
    stream = io.StringIO()
    clock = Clock()
    console = Console(total_steps=400, stream=stream, clock=clock)
    for step in range(1, 401):
        clock.now += 0.5
        console.write(step, {"rollout/success": 0.5})
    console.close()
    lines = stream.getvalue().splitlines()
    assert 15 <= len(lines) <= 30
    assert "\x1b" not in stream.getvalue()
    assert "\r" not in stream.getvalue()
    assert "step    1" in lines[0]
    assert "step  400" in lines[-1]


def test_log_file_is_never_silent_for_long_and_shows_validations() -> None:
    stream = io.StringIO()
    clock = Clock()
    console = Console(total_steps=1000, stream=stream, clock=clock)
    for step in range(1, 8):
        clock.now += 10
        console.write(step, {"validation/success": 0.1} if step == 4 else {"rollout/success": 0.5})
    assert [line.split("step")[1].split()[0] for line in stream.getvalue().splitlines()] == ["1", "3", "4", "6"]


def test_time_left_forgets_the_step_that_compiled() -> None:
    stream = io.StringIO()
    clock = Clock()
    console = Console(total_steps=4, stream=stream, clock=clock)
    for step, seconds in ((1, 60), (2, 2), (3, 2)):
        clock.now += seconds
        console.write(step, {"rollout/success": 0.5})
    lines = stream.getvalue().splitlines()
    assert "3:00 left" in lines[0]
    assert "0:04 left" in lines[1]
    assert "0:02 left" in lines[2]


def test_resumed_run_counts_its_own_steps() -> None:
    stream = io.StringIO()
    clock = Clock()
    console = Console(total_steps=100, first_step=90, stream=stream, clock=clock)
    clock.now += 3
    console.write(91, {"rollout/success": 0.5})
    assert stream.getvalue() == "[#########.  91/100, 0:27 left] step   91  success 0.50\n"


def test_total_must_be_positive() -> None:
    with pytest.raises(ValueError, match="total_steps=0"):
        Console(total_steps=0)
