"""What a run says about the tasks that it was trained and validated on."""

from __future__ import annotations

from ragen_jax.envs.data_source import EMBEDDED
from ragen_jax.envs.pool import EnvPool
from ragen_jax.training.build import Components


def data_sources(parts: Components) -> list[str]:
    """One line per source: the training environments', then the validation environments' where it is another one."""
    return list(dict.fromkeys(_line(pool) for pool in (parts.pool, parts.validation_pool)))


def data_metrics(parts: Components) -> dict[str, float]:
    """``data/rows``, ``data/embedded`` and ``data/content_hash`` of the training environments.

    Tasks that are drawn by code have no rows; they are our own, as embedded rows are. A metric is a number, so the hash
    is the one of its first 32 bits; run records have it whole.
    """
    source = parts.pool.envs[0].data_source()
    if source is None:
        return {"data/rows": 0.0, "data/embedded": 1.0, "data/content_hash": 0.0}
    return {
        "data/rows": float(source.rows),
        "data/embedded": float(source.kind == EMBEDDED),
        "data/content_hash": float(int(source.sha256[:8], 16)),
    }


def _line(pool: EnvPool) -> str:
    source = pool.envs[0].data_source()
    return f"{pool.name}: generated" if source is None else source.describe()
