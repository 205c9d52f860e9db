"""Tests of the built-in shop must not meet WebShop files that lie in a data folder by chance."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def no_data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """RAGEN_DATA_DIR and the cache are empty folders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGEN_DATA_DIR", str(tmp_path_factory.mktemp("data")))
        patch.setenv("RAGEN_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield
