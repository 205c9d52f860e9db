"""What a run says when its disk takes no more."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import jax.numpy as jnp
import pytest

from ragen_jax.learner.checkpoint import Checkpointer
from ragen_jax.training.disk_errors import DiskError, disk_errors_of_a_run


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_the_sentence_says_where_the_run_goes_on(tmp_path: Path, number: int) -> None:
    with Checkpointer(tmp_path / "checkpoints", keep=1) as checkpointer:
        checkpointer.save(4, {"x": jnp.ones(2)}, {})
        with pytest.raises(DiskError) as told, disk_errors_of_a_run(tmp_path, checkpointer):
            raise OSError(number, os.strerror(number), "metrics.jsonl")
    for part in (f"metrics.jsonl: {os.strerror(number)}", "checkpoint: step 4", f"resume={tmp_path} goes on after"):
        assert part in str(told.value)


def test_without_a_checkpoint_there_is_nothing_to_resume(tmp_path: Path) -> None:
    with (
        Checkpointer(tmp_path / "checkpoints", keep=1) as checkpointer,
        pytest.raises(DiskError, match=r"\(No space left on device\); newest complete checkpoint: none; .* anew"),
        disk_errors_of_a_run(tmp_path, checkpointer),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("error", [OSError("no environment server"), FileNotFoundError(2, "none", "x"), ValueError()])
def test_other_errors_pass(tmp_path: Path, error: Exception) -> None:
    with (
        Checkpointer(tmp_path / "checkpoints", keep=1) as checkpointer,
        pytest.raises(type(error)) as told,
        disk_errors_of_a_run(tmp_path, checkpointer),
    ):
        raise error
    assert told.value is error
