"""System V shared memory outlives the process that made it, so what a child leaves is removed."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_TABLE = Path("/proc/sysvipc/shm")
_IPC_RMID = 0


def remove_segments(creator: int, *, since: float) -> None:
    """Remove the shared memory that a process has made.

    Args:
      creator: id of the process, which has ended.
      since: wall clock at its start, seconds; a segment that is older was made by another process of the same id.

    Raises:
      OSError: a segment could not be removed.
    """
    try:
        heading, *lines = _TABLE.read_text(encoding="ascii").splitlines()
    except FileNotFoundError:  # a kernel without such memory
        return
    names = heading.split()
    libc = ctypes.CDLL(None, use_errno=True)
    for line in lines:
        segment = dict(zip(names, map(int, line.split()), strict=True))
        ours = segment["cpid"] == creator and segment["ctime"] >= int(since)
        if ours and libc.shmctl(segment["shmid"], _IPC_RMID, None) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"shared memory {segment['shmid']} of a child stays: {os.strerror(number)}")
