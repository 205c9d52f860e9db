"""Where compiled programs are kept, and that a run works without such a place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

from ragen_jax.training.compilation_cache import CACHE_VARIABLE, configure_compilation_cache


@pytest.fixture
def restored_cache_settings() -> Iterator[None]:
    names = (
        "jax_compilation_cache_dir",
        "jax_persistent_cache_min_compile_time_secs",
        "jax_persistent_cache_min_entry_size_bytes",
    )
    before = {name: getattr(jax.config, name) for name in names}
    yield
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.mark.usefixtures("restored_cache_settings")
def test_cache_folder_by_argument_variable_and_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert configure_compilation_cache(tmp_path / "a") == tmp_path / "a"
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "a")
    assert jax.config.jax_persistent_cache_min_compile_time_secs == 0.0
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "b"))
    assert configure_compilation_cache() == tmp_path / "b"
    monkeypatch.delenv(CACHE_VARIABLE)
    monkeypatch.delenv("RAGEN_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    default = configure_compilation_cache()
    assert default is not None
    assert default.is_dir()
    assert default.is_relative_to(tmp_path / "home" / "ragen_jax" / "compilations")
    monkeypatch.setenv("RAGEN_CACHE_DIR", str(tmp_path / "moved"))
    assert configure_compilation_cache() == tmp_path / "moved" / "compilations" / default.name


@pytest.mark.usefixtures("restored_cache_settings")
def test_cache_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    before = jax.config.jax_compilation_cache_dir
    monkeypatch.setenv(CACHE_VARIABLE, "off")
    assert configure_compilation_cache() is None
    assert jax.config.jax_compilation_cache_dir == before


@pytest.mark.usefixtures("restored_cache_settings")
def test_a_cache_that_cannot_be_made_is_only_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    assert configure_compilation_cache(tmp_path / "file" / "cache") is None
    assert "cannot be made" in caplog.text
