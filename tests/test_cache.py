"""One variable moves everything that is cached."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragen_jax.cache import cache_folder, compiler_and_processor


def test_the_folder_by_variable_user_cache_and_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGEN_CACHE_DIR", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("RAGEN_CACHE_DIR")
    assert cache_folder() == tmp_path / "user" / "ragen_jax"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home" / ".cache" / "ragen_jax"


def test_the_folder_of_programs_is_one_short_name(monkeypatch: pytest.MonkeyPatch) -> None:
    here = compiler_and_processor()
    assert "/" not in here
    monkeypatch.setattr("platform.machine", lambda: "another machine")
    assert compiler_and_processor() != here
