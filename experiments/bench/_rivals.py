"""Processes of rivals in their own environments, taking turns with this one."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

WORKERS = {"trl": "_trl_worker.py", "tunix": "_tunix_worker.py"}
ANSWER = "@@ "
INSTALL = "make the environments of the rivals with `sh experiments/bench/rivals.sh` (3 GB, some minutes)"


class RivalError(RuntimeError):
    """A rival is not there, or ended before it answered."""


def rivals_folder() -> Path:
    """Where ``rivals.sh`` made the environments."""
    default = Path(__file__).parent.parent.parent / ".rivals"
    return Path(os.environ.get("RAGEN_RIVALS", str(default))).absolute()


def installed(name: str) -> str:
    """What the rival's environment holds, ``name==version`` of its main packages; empty without an environment."""
    packages = rivals_folder() / name / "packages.txt"
    if not packages.is_file():
        return ""
    wanted = ("trl==", "torch==", "transformers==", "google-tunix==", "jax==", "flax==")
    return " ".join(line for line in packages.read_text(encoding="utf-8").split() if line.startswith(wanted))


class Rival:
    """A worker that does one piece of work for every line it is sent; one thread, on this process's cores."""

    def __init__(self, name: str, work: dict[str, Any]) -> None:
        """Start it; its own messages go to a log beside the environment.

        Raises:
          RivalError: its environment is not there.
        """
        folder = rivals_folder()
        python = folder / name / "bin" / "python"
        if not python.exists():
            raise RivalError(f"{name} is not installed in {folder}: {INSTALL}")
        self._name, self._log = name, folder / f"{name}.log"
        environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "JAX_PLATFORMS": "cpu"}
        with self._log.open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [python, Path(__file__).parent / WORKERS[name], json.dumps(work)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
            )

    def turn(self) -> dict[str, Any]:
        """One piece of work; its numbers.

        Raises:
          RivalError: the worker ended without an answer.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write("go\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended; reading below finds no answer
        for line in self._process.stdout:
            if line.startswith(ANSWER):
                return json.loads(line.removeprefix(ANSWER))
        lines = self._log.read_text(encoding="utf-8").splitlines()
        last = next((line for line in reversed(lines) if "Error" in line), "no message of an error")
        raise RivalError(f"{self._name} ended without an answer: {last[:300]}")

    def __enter__(self) -> Self:
        """The worker."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()
