"""Counts compilations, and keeps compiled programs between processes."""

from __future__ import annotations

import collections
import hashlib
import importlib.metadata
import logging
import os
import platform
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import jax

_LOG = logging.getLogger(__name__)
_COMPILE_EVENT = "/jax/core/compile/backend_compile_duration"
CACHE_VARIABLE = "RAGEN_COMPILATION_CACHE"


class CompileCounter:
    """Context manager that counts programs handed to the backend.

    A program that the persistent cache answers is counted too: what costs a training run its shape discipline is a new
    shape, whoever compiles it.

    Attributes:
      by_program: program name -> compilations; jax names a program after the jitted function.
      seconds: time that they took.
    """

    def __init__(self) -> None:
        """Begin at zero; counting starts on entering."""
        self.by_program: collections.Counter[str] = collections.Counter()
        self.seconds = 0.0
        self._lock = threading.Lock()  # actor and learner threads compile at the same time

    @property
    def count(self) -> int:
        """Compilations so far."""
        return self.by_program.total()

    def __enter__(self) -> Self:
        """Start counting."""
        jax.monitoring.register_event_duration_secs_listener(self._listen)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop counting."""
        jax.monitoring.unregister_event_duration_listener(self._listen)

    def _listen(self, event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event == _COMPILE_EVENT:
            with self._lock:
                self.by_program[str(kwargs.get("fun_name", "unnamed"))] += 1
                self.seconds += duration_secs


def configure_compilation_cache(folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Keep compiled programs in a folder, so that the next process loads instead of compiling.

    Small programs are kept too; jax's own thresholds (one second) would leave most of ours out. Set the environment
    variable ``RAGEN_COMPILATION_CACHE`` to a folder to move the cache, or to "off" to do without.

    Args:
      folder: where to keep them; None takes the environment variable, else the user's cache folder, where each jaxlib
        version and each kind of processor has its own.

    Returns:
      The folder in use, or None when the cache is off or the folder cannot be made (then a warning is logged).
    """
    chosen = os.environ.get(CACHE_VARIABLE) if folder is None else os.fspath(folder)
    if chosen == "off":
        return None
    path = Path(chosen).absolute() if chosen else _user_cache()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _LOG.warning("no compilation cache: %s cannot be made (%s); set %s", path, error.strerror, CACHE_VARIABLE)
        return None
    jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return path


def _user_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    root = Path(base) if base else Path.home() / ".cache"
    return root / "ragen_jax" / "compilations" / f"{importlib.metadata.version('jaxlib')}-{_processor()}"


def _processor() -> str:
    """Short hash of the processor's features: a program compiled for one kind may crash on another."""
    text = f"{platform.machine()} {platform.processor()}"
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
        text += "".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
