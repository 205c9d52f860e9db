"""Keeps compiled programs between processes."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import jax

from ragen_jax.cache import cache_folder, compiler_and_processor

logger = logging.getLogger(__name__)

CACHE_VARIABLE = "RAGEN_COMPILATION_CACHE"


def configure_compilation_cache(folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Keep compiled programs in a folder, so that the next process loads instead of compiling.

    Small programs are kept too; jax's own thresholds (one second) would leave most of ours out. Set the environment
    variable ``RAGEN_COMPILATION_CACHE`` to a folder to move the cache, or to "off" to do without.

    Args:
      folder: where to keep them; None takes the environment variable, else ``compilations`` in the cache folder
        (:func:`ragen_jax.cache.cache_folder`), where each jaxlib version and each kind of processor has its own.

    Returns:
      The folder in use, or None when the cache is off or the folder cannot be made (then a warning is logged).
    """
    chosen = os.environ.get(CACHE_VARIABLE) if folder is None else os.fspath(folder)
    if chosen == "off":
        return None
    path = Path(chosen).absolute() if chosen else cache_folder() / "compilations" / compiler_and_processor()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        logger.warning("no compilation cache: %s cannot be made (%s); set %s", path, error.strerror, CACHE_VARIABLE)
        return None
    jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return path
