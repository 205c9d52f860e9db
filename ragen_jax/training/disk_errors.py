"""A disk that takes no more while a run is under way: what was lost, and how the run goes on."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from ragen_jax.learner.checkpoint import Checkpointer

# Full, over the quota, over the largest file, broken, or read-only after a fault.
_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS})


class DiskError(OSError):
    """The disk of a run folder takes no more; the run can be resumed once it does."""


@contextlib.contextmanager
def disk_errors_of_a_run(folder: Path, checkpointer: Checkpointer) -> Iterator[None]:
    """Say in one sentence what the disk refused to a run, and where the run can go on.

    Args:
      folder: the run folder.
      checkpointer: its checkpoints.

    Raises:
      DiskError: the body met an error of the disk; every other error passes.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _DISK:
            raise
        what = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
        saved = checkpointer.latest()
        remedy = f"resume={folder} goes on after step {saved}" if saved is not None else "start the run anew"
        raise DiskError(
            f"the run in {folder} broke off since its disk could not be written ({what}); newest complete checkpoint: "
            f"{'none' if saved is None else f'step {saved}'}; make room, then {remedy}"
        ) from error
