"""Checkpoints of two processes that share one mesh."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

WORKER = """
    import sys
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
    from ragen_jax.learner.checkpoint import Checkpointer

    rank, port, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=rank)
    split = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), PartitionSpec("data"))

    def state(scale):
        values = np.arange(8, dtype=np.float32) * scale
        return {"x": jax.make_array_from_callback((8,), split, lambda index: values[index])}

    with Checkpointer(folder, keep=2) as checkpointer:
        for step in (1, 2, 3):
            checkpointer.save(step, state(step), {"step": step})
        restored, meta = checkpointer.restore(3, state(0))
        assert meta == {"step": 3}
        for got, wanted in zip(restored["x"].addressable_shards, state(3)["x"].addressable_shards, strict=True):
            np.testing.assert_array_equal(got.data, wanted.data)
        assert checkpointer.complete_steps() == [2, 3]
        checkpointer.drop_after(2)
        checkpointer.save(3, state(7), {})
        assert checkpointer.complete_steps() == [2, 3]
    print("ok", flush=True)
    jax.distributed.shutdown()
"""


@pytest.mark.slow
def test_two_processes_save_restore_and_drop(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    script = tmp_path / "worker.py"
    script.write_text(textwrap.dedent(WORKER))
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    workers = [
        subprocess.Popen(
            [sys.executable, str(script), str(rank), port, str(tmp_path / "checkpoints")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        for rank in (0, 1)
    ]
    try:
        outputs = [worker.communicate(timeout=120)[0] for worker in workers]
    finally:
        for worker in workers:
            worker.kill()  # a worker whose peer died would wait for ever
            worker.wait()
    assert [worker.returncode for worker in workers] == [0, 0], "\n".join(outputs)
    assert all("ok" in output.splitlines() for output in outputs)
