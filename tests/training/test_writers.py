"""Writers: names, non-finite numbers, resume."""

from __future__ import annotations

import json
import struct
import threading
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from tensorboardX.proto.event_pb2 import Event, SessionLog

from ragen_jax.training.writers import JsonLines, Many, Memory, TensorBoard, clean


def test_numbers_of_every_kind_become_plain() -> None:
    cleaned = clean({"a/int": 3, "a/np": np.float32(0.5), "a/jax": jnp.float32(0.25), "a/npint": np.int64(2)})
    assert cleaned == {"a/int": 3, "a/np": 0.5, "a/jax": 0.25, "a/npint": 2.0}
    assert isinstance(cleaned["a/int"], int)
    assert all(type(value) in (int, float) for value in cleaned.values())


def test_nonfinite_numbers_are_null_and_counted() -> None:
    cleaned = clean({"a/x": float("nan"), "a/y": np.float32("inf"), "a/z": 1.0})
    assert cleaned == {"a/x": None, "a/y": None, "a/z": 1.0, "log/nonfinite": 2}


@pytest.mark.parametrize("name", ["success", "Rollout/success", "rollout/", "/x", "a b/c", "a//b"])
def test_names_need_a_family(name: str) -> None:
    with pytest.raises(ValueError, match="family/name"):
        clean({name: 1.0})


@pytest.mark.parametrize("name", ["a/b", "collapse/first_turn/retrieval_accuracy@2", "env/p0.9"])
def test_names_with_a_family_pass(name: str) -> None:
    assert clean({name: 1.0}) == {name: 1.0}


def test_json_lines_hold_float32_exactly(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    value = np.float32(0.1)
    JsonLines(path).write(1, {"a/x": value})
    assert json.loads(path.read_text()) == {"step": 1, "a/x": float(value)}


def test_c34_resumed_file_equals_uninterrupted(tmp_path: Path) -> None:
    def write(writer: JsonLines, steps: range) -> None:
        for step in steps:
            writer.write(step, {"a/x": step / 7})
            if step % 2 == 0:
                writer.write(step, {"validation/success": step / 9})

    write(JsonLines(tmp_path / "whole.jsonl"), range(7))
    write(JsonLines(tmp_path / "stopped.jsonl"), range(6))
    with (tmp_path / "stopped.jsonl").open("a") as stream:
        stream.write('{"step": 6, "a/')  # killed in the middle of a line
    write(JsonLines(tmp_path / "stopped.jsonl", last_step=3), range(4, 7))
    assert (tmp_path / "stopped.jsonl").read_text() == (tmp_path / "whole.jsonl").read_text()


def test_a_new_run_does_not_append_to_an_old_file(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    JsonLines(path).write(1, {"a/x": 1.0})
    with pytest.raises(ValueError, match=r"metrics\.jsonl has content"):
        JsonLines(path)


def _events(folder: Path) -> list[Event]:
    """The records of an event file: length (8 bytes), checksum (4), event, checksum (4)."""
    (path,) = folder.iterdir()
    content, events = path.read_bytes(), []
    while content:
        (length,) = struct.unpack("Q", content[:8])
        events.append(Event.FromString(content[12 : 12 + length]))
        content = content[16 + length :]
    return events


def test_tensorboard_writes_events_and_skips_nonfinite(tmp_path: Path) -> None:
    writer = TensorBoard(tmp_path)
    writer.write(1, {"a/kept": 1.5, "a/lost": float("nan")})
    head, written = _events(tmp_path)  # on disk before it is closed
    writer.close()
    assert head.file_version == "brain.Event:2"
    assert (written.step, written.wall_time > 0) == (1, True)
    assert {value.tag: value.simple_value for value in written.summary.value} == {"a/kept": 1.5, "log/nonfinite": 1.0}


def test_tensorboard_of_a_resumed_run_marks_what_it_writes_anew(tmp_path: Path) -> None:
    writer = TensorBoard(tmp_path, last_step=3)
    writer.write(4, {"a/x": 1.0})
    writer.close()
    _, purge, written = _events(tmp_path)
    assert (purge.step, purge.session_log.status) == (4, SessionLog.START)
    assert written.step == 4


def test_tensorboard_on_a_disk_that_fills_up_is_an_error_and_not_a_thread_that_died(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    threads = threading.active_count()
    writer = TensorBoard(tmp_path)
    writer.close()
    writer._file._writer = open("/dev/full", "wb")  # noqa: SIM115 - the writer closes it
    with pytest.raises(OSError, match="No space left"):
        writer.write(1, {"a/x": 1.0})
    with pytest.raises(OSError, match="No space left"):
        writer.close()
    assert threading.active_count() == threads


def test_many_serves_all(tmp_path: Path) -> None:
    first, second = Memory(), Memory()
    many = Many([first, second])
    many.write(2, {"a/x": 1.0})
    many.close()
    assert first.rows == second.rows == [{"step": 2, "a/x": 1.0}]
