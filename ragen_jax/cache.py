"""The user's cache folder, and what keeps programs compiled for one processor apart from those of another."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
from pathlib import Path


def cache_folder() -> Path:
    """Folder of everything that may be made or fetched again: RAGEN_CACHE_DIR, or ``ragen_jax`` in the user's cache.

    Data sets lie in ``data``, warm starts in ``policies``, compiled programs in ``compilations``.
    """
    chosen = os.environ.get("RAGEN_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME")
    return Path(chosen) if chosen else (Path(base) if base else Path.home() / ".cache") / "ragen_jax"


def compiler_and_processor() -> str:
    """Name of a folder for compiled programs: a program made for one kind of processor may crash on another."""
    text = f"{platform.machine()} {platform.processor()}"
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
        text += "".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))
    return f"{importlib.metadata.version('jaxlib')}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
