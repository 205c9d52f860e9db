"""Common ground of all tests: four CPU devices, a compilation cache, one hypothesis profile, data folders.

The environment variables must be set before jax is imported, so this file sets them at its top.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from ragen_jax.cache import cache_folder, compiler_and_processor

DEVICES = 4

# A shell that starts the tests in the background (or nohup) makes them ignore signals that some of them are about.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

os.environ["JAX_PLATFORMS"] = os.environ.get("RAGEN_TEST_PLATFORM", "cpu")
# Four devices on two busy processors wait for one another longer than the 40 s after which XLA ends the process.
os.environ["XLA_FLAGS"] = " ".join(
    [
        os.environ.get("XLA_FLAGS", ""),
        f"--xla_force_host_platform_device_count={DEVICES}",
        "--xla_cpu_collective_call_terminate_timeout_seconds=600",
    ]
).strip()
# An empty value counts as unset: the two workers and the runs inside tests share what they compile in any case.
os.environ["JAX_COMPILATION_CACHE_DIR"] = os.environ.get("JAX_COMPILATION_CACHE_DIR") or str(
    cache_folder() / "test_compilations" / compiler_and_processor()
)
os.environ.setdefault("RAGEN_COMPILATION_CACHE", os.environ["JAX_COMPILATION_CACHE_DIR"])  # for runs inside tests
# The thresholds of jax (one second, any size) would leave out nearly all of the tests' small programs.
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

hypothesis.settings.register_profile("ragen", max_examples=25, deadline=None, derandomize=True)
hypothesis.settings.load_profile("ragen")


def _folder_from(variable: str, what: str) -> Path:
    value = os.environ.get(variable)
    if not value:
        pytest.skip(f"{variable} is not set: it names the folder with {what}")
    folder = Path(value)
    if not folder.is_dir():
        pytest.fail(f"{variable}={value} is not a folder")
    return folder


@pytest.fixture(autouse=True, scope="module")
def few_programs() -> Iterator[None]:
    """Forget compiled programs before the process has as many mappings of memory as Linux allows, usually 65,530.

    A program keeps four or more. A process that asks for one too many ends with a fault. The C library keeps what is
    freed, gigabytes after a few hundred programs, until it is told to give it back.
    """
    yield
    mappings = Path("/proc/self/maps")
    if "jax" in sys.modules and mappings.exists() and len(mappings.read_text().splitlines()) > 12_000:
        sys.modules["jax"].clear_caches()
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):  # glibc only
            ctypes.CDLL(None).malloc_trim(0)


@pytest.fixture(scope="session")
def golden_dir() -> Path:
    """Folder with golden files; the test is skipped when RAGEN_GOLDEN_DIR is unset."""
    return _folder_from("RAGEN_GOLDEN_DIR", "golden files")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder with outside data; the test is skipped when RAGEN_DATA_DIR is unset."""
    return _folder_from("RAGEN_DATA_DIR", "outside data samples")


@pytest.fixture(scope="session")
def bandit_policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a small policy that often answers the bandit in the right form; trained once a session."""
    from tests.training_fixtures import train_bandit_policy  # imports jax, so not at the top of this file

    return train_bandit_policy(tmp_path_factory.mktemp("policy"))
