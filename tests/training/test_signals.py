"""Signals: first sets the flag, second acts, handlers come back."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from ragen_jax.training.signals import StopSignal


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_first_signal_sets_the_flag(number: signal.Signals, caplog: pytest.LogCaptureFixture) -> None:
    before = signal.getsignal(number)
    with caplog.at_level(logging.WARNING), StopSignal() as stop:
        assert stop.requested is None
        signal.raise_signal(number)
        assert stop.requested == number.name
    assert signal.getsignal(number) is before
    assert "a second signal stops at once" in caplog.text


def test_second_interrupt_raises_and_handlers_are_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), StopSignal():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_second_sigterm_ends_the_process() -> None:
    program = """
        import signal
        from ragen_jax.training.signals import StopSignal
        with StopSignal() as stop:
            signal.raise_signal(signal.SIGTERM)
            print("first", stop.requested, flush=True)
            signal.raise_signal(signal.SIGTERM)
            print("never")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60)
    assert done.stdout == "first SIGTERM\n"
    assert done.returncode == -signal.SIGTERM


def test_under_nohup_a_lost_terminal_is_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopSignal() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert stop.requested is None
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_other_threads_are_refused() -> None:
    caught: list[BaseException] = []

    def enter() -> None:
        try:
            StopSignal().__enter__()
        except RuntimeError as error:
            caught.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert "main thread only" in str(caught[0])
