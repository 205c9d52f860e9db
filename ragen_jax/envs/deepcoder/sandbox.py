"""Tiers of isolation for untrusted programs. Linux only.

``bubblewrap`` is meant for hostile programs: an unprivileged user, own namespaces (no network, no other processes), a
read-only file system with the interpreter and its libraries and nothing else, no environment, resource limits.

``rlimits`` has the resource limits, an empty environment and, when started by root, an unprivileged user. It protects
against accidents, not against attackers, so it is used only where it is asked for.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

TIERS = ("bubblewrap", "rlimits")
OLDEST_PYTHON = (3, 11)
_NOBODY = 65534
_SYSTEM_LIBRARIES = ("/usr/lib", "/usr/lib64", "/lib", "/lib64")
_ASK = (
    "import json, sys, sysconfig; "
    "print(json.dumps([sys.version_info[:2], sysconfig.get_paths()['stdlib'], sysconfig.get_config_var('LIBDIR')]))"
)

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Sandbox:
    """How a child is started.

    Attributes:
      tier: one of ``TIERS``.
      wrapper: command that drops privileges and builds the walls around the command behind it.
      python: interpreter of the child.
      tasks: processes and threads that the kernel lets the child have at once, itself included; with 1 it starts none.
    """

    tier: str
    wrapper: tuple[str, ...]
    python: str
    tasks: int

    @property
    def has_namespaces(self) -> bool:
        """True when the wrapper stays as the parent of the child; else it turns into the child."""
        return self.tier == "bubblewrap"

    def command(self, arguments: Sequence[str], *, info_fd: int) -> list[str]:
        """Command line of the child; a wrapper that stays writes the child's process id to ``info_fd``."""
        info = ["--info-fd", str(info_fd), "--"] if self.has_namespaces else []
        return [*self.wrapper, *info, self.python, "-I", "-S", "-B", *arguments]


def describe_sandbox(tier: str) -> Sandbox:
    """Find the programs that a tier needs.

    Raises:
      ValueError: an unknown tier, or something that is missing on this machine.
    """
    if tier not in TIERS:
        raise ValueError(f"sandbox={tier!r}: use one of {', '.join(TIERS)}")
    if not sys.platform.startswith("linux"):
        raise ValueError(f"sandbox={tier!r}: untrusted programs run on Linux only, this is {sys.platform}")
    drop = _drop_privileges(tier)
    python, folders = _find_python(tier, drop)
    if tier == "rlimits":
        logger.warning("sandbox='rlimits' protects against accidents, not against hostile programs")
        return Sandbox(tier, drop, python, tasks=1)
    bubblewrap = shutil.which("bwrap")
    if bubblewrap is None:
        raise ValueError(
            "sandbox='bubblewrap': bwrap is not there; install the system's package bubblewrap, or ask for "
            "sandbox='rlimits', which does not stop hostile programs"
        )
    return Sandbox(tier, (*drop, bubblewrap, *_walls(python, folders)), python, tasks=3)


def _drop_privileges(tier: str) -> tuple[str, ...]:
    """Root becomes nobody before anything else: the kernel does not limit the processes of root."""
    if os.geteuid() != 0:
        return ()
    setpriv, env = shutil.which("setpriv"), shutil.which("env")
    if setpriv is None or env is None:
        raise ValueError(f"sandbox={tier!r}: root needs setpriv (package util-linux) to become an unprivileged user")
    # setpriv still opens the next program with the rights of root, so that one is env and not the interpreter.
    return (setpriv, f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "--no-new-privs", "--", env)


def _find_python(tier: str, drop: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """An interpreter that the child's user can start, and the folders with its libraries.

    The running interpreter comes first; where it lies in the home of root, nobody can start it, and the system's is
    taken.
    """
    system = [shutil.which(name, path="/usr/local/bin:/usr/bin") for name in ("python3", "python3.12", "python3.11")]
    candidates = dict.fromkeys(os.path.realpath(place) for place in (sys.executable, *system) if place)
    for candidate in candidates:
        command = [*drop, candidate, "-I", "-S", "-c", _ASK]
        run = subprocess.run(command, capture_output=True, timeout=60, check=False, env={}, cwd="/")
        if run.returncode == 0:
            version, standard_library, libraries = json.loads(run.stdout)
            if tuple(version) >= OLDEST_PYTHON:
                return candidate, (standard_library, libraries)
    raise ValueError(
        f"sandbox={tier!r}: no Python {'.'.join(map(str, OLDEST_PYTHON))} or newer that an unprivileged user can "
        f"start among {', '.join(candidates)}; install the system's python3"
    )


def _walls(python: str, folders: Iterable[str]) -> list[str]:
    """Options of bubblewrap: what the child can see, and nothing that it can change."""
    # With a first process of its own, bubblewrap would leave that one behind as an orphan at every end.
    walls = ["--unshare-all", "--as-pid-1", "--die-with-parent", "--cap-drop", "ALL"]
    bound: list[Path] = []
    for folder in map(Path, (*_SYSTEM_LIBRARIES, *folders)):
        if folder.is_symlink():
            walls += ["--symlink", os.readlink(folder), str(folder)]
        elif folder.is_dir() and not any(folder.is_relative_to(other) for other in bound):
            walls += ["--ro-bind", str(folder), str(folder)]
            bound.append(folder)
    walls += ["--ro-bind", python, python]
    for folder in _hidden(bound):
        walls += ["--tmpfs", str(folder), "--remount-ro", str(folder)]
    return [*walls, "--remount-ro", "/", "--chdir", "/"]


def _hidden(bound: Sequence[Path]) -> list[Path]:
    """Folders below the bound ones that may hold this package, and so the hidden tests, or somebody's data."""
    packages = [
        place
        for folder in bound
        for pattern in ("site-packages", "dist-packages", "python3*/site-packages", "python3*/dist-packages")
        for place in folder.glob(pattern)
    ]
    named = [Path(__file__).resolve().parents[3], *(Path(p) for p in (os.environ.get("RAGEN_DATA_DIR"),) if p)]
    inside = [place for place in named if any(place.is_relative_to(folder) for folder in bound)]
    return [place for place in dict.fromkeys(packages + inside) if place.is_dir() and not place.is_symlink()]
