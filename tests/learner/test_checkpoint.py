"""Checkpoints: exact round trips, damaged saves, budgets, other meshes."""

from __future__ import annotations

import errno
import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ragen_jax.learner.checkpoint import Checkpointer
from ragen_jax.types import CollapseState, TrainState


def _mesh(devices: int) -> Mesh:
    return Mesh(np.array(jax.devices()[:devices]), ("data",))


def _state(devices: int = 1, *, scale: float = 1.0) -> TrainState:
    """A small but complete state whose weight matrix is split over the mesh."""
    mesh = _mesh(devices)
    replicated = NamedSharding(mesh, PartitionSpec())
    split = NamedSharding(mesh, PartitionSpec("data"))
    weights = np.arange(32, dtype=np.float32).reshape(8, 4) * np.float32(scale)
    params = {
        "layers": {"w": jax.device_put(weights, split)},
        "norm": jax.device_put(np.linspace(0, 1, 4, dtype=np.float32), replicated),
    }
    opt_state = jax.tree.map(lambda x: jax.device_put(x + jnp.ones_like(x), replicated), optax.adam(1e-3).init(params))
    return TrainState(
        step=jax.device_put(np.int32(7), replicated),
        params=params,
        opt_state=opt_state,
        critic_params=None,
        critic_opt_state=None,
        collapse=CollapseState(
            ema_std=jax.device_put(np.float32(0.25), replicated),
            ema_std_sequence=jax.device_put(np.float32(2.5), replicated),
            count=jax.device_put(np.int32(3), replicated),
        ),
    )


def _assert_same(actual: Any, expected: Any) -> None:
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_round_trip_is_exact_with_keys_none_and_scalars(tmp_path: Path) -> None:
    state = {"train": _state(), "key": jax.random.key(5), "cursor": 11, "share": 0.1, "nothing": None}
    meta = {"early_stop": {"baseline": [0.1, 0.2]}, "name": "run"}
    with Checkpointer(tmp_path, keep=2) as checkpointer:
        checkpointer.save(3, state, meta)
        restored, restored_meta = checkpointer.restore(3, state)
    _assert_same(restored["train"], state["train"])
    assert isinstance(restored["train"], TrainState)
    assert type(restored["train"].opt_state) is type(state["train"].opt_state)
    np.testing.assert_array_equal(jax.random.key_data(restored["key"]), jax.random.key_data(state["key"]))
    assert (restored["cursor"], restored["share"], restored["nothing"]) == (11, 0.1, None)
    assert restored_meta == meta


def test_relative_folder_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Checkpointer("checkpoints", keep=1) as checkpointer:
        checkpointer.save(1, {"x": jnp.ones(2)}, {})
    assert (tmp_path / "checkpoints" / "1" / "manifest.json").is_file()


def test_only_the_newest_complete_checkpoints_are_kept(tmp_path: Path) -> None:
    with Checkpointer(tmp_path, keep=2) as checkpointer:
        for step in (1, 2, 3):
            checkpointer.save(step, {"x": jnp.full(2, step)}, {})
        assert checkpointer.complete_steps() == [2, 3]
        assert checkpointer.latest() == 3
        assert sorted(p.name for p in tmp_path.iterdir()) == ["2", "3"]


@pytest.fixture
def three_saves(tmp_path: Path) -> Path:
    with Checkpointer(tmp_path, keep=3) as checkpointer:
        for step in (10, 20, 30):
            checkpointer.save(step, {"x": jnp.full(64, step, jnp.float32)}, {"step": step})
    return tmp_path


def _remove_manifest(folder: Path) -> str:
    (folder / "manifest.json").unlink()
    return "manifest.json"


def _remove_data_file(folder: Path) -> str:
    victim = max((p for p in (folder / "state").rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    victim.unlink()
    return victim.name


def _shorten_data_file(folder: Path) -> str:
    victim = max((p for p in (folder / "state").rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    victim.write_bytes(victim.read_bytes()[:-1])
    return victim.name


def _flip_a_byte(folder: Path) -> str:
    victim = max((p for p in (folder / "state").rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    content = bytearray(victim.read_bytes())
    content[0] ^= 0xFF
    victim.write_bytes(bytes(content))
    return victim.name


def _garble_manifest(folder: Path) -> str:
    (folder / "manifest.json").write_text("{")
    return "manifest.json"


def _manifest_is_a_list(folder: Path) -> str:
    (folder / "manifest.json").write_text("[]")
    return "manifest.json"


def _manifest_lists_numbers(folder: Path) -> str:
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"files": dict.fromkeys(manifest["files"], 3)}))
    return "manifest.json"


def _manifest_has_no_leaves(folder: Path) -> str:
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"leaves": None}))
    return "manifest.json"


def _orbax_was_interrupted(folder: Path) -> str:
    (folder / "manifest.json").unlink()
    folder.rename(folder.with_name("30.orbax-checkpoint-tmp"))
    return "interrupted"


@pytest.mark.parametrize(
    "damage",
    [
        _remove_manifest,
        _remove_data_file,
        _shorten_data_file,
        _flip_a_byte,
        _garble_manifest,
        _manifest_is_a_list,
        _manifest_lists_numbers,
        _manifest_has_no_leaves,
        _orbax_was_interrupted,
    ],
)
def test_c35_damaged_save_is_skipped_with_a_warning(
    three_saves: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], str]
) -> None:
    named = damage(three_saves / "30")
    abstract = {"x": jnp.zeros(64)}
    with Checkpointer(three_saves, keep=3) as checkpointer:
        with caplog.at_level(logging.WARNING):
            assert checkpointer.latest() == 20
        assert "step 30" in caplog.text
        assert named in caplog.text
        state, meta = checkpointer.restore(20, abstract)
        assert float(state["x"][0]) == 20.0
        assert meta == {"step": 20}
        with pytest.raises(ValueError, match=r"step 30 .* complete: 10, 20"):
            checkpointer.restore(30, abstract)
        checkpointer.save(30, {"x": jnp.full(64, 31.0)}, {"step": 30})
        assert checkpointer.complete_steps() == [10, 20, 30]
        assert float(checkpointer.restore(30, abstract)[0]["x"][0]) == 31.0


def test_later_damaged_saves_go_with_the_next_save(three_saves: Path) -> None:
    _remove_manifest(three_saves / "10")
    with Checkpointer(three_saves, keep=2) as checkpointer:
        checkpointer.save(40, {"x": jnp.zeros(64)}, {})
        assert sorted(p.name for p in three_saves.iterdir()) == ["30", "40"]


@pytest.mark.parametrize("damage", [_remove_manifest, _shorten_data_file, _orbax_was_interrupted])
def test_a_save_below_a_damaged_newer_one_replaces_it(three_saves: Path, damage: Callable[[Path], str]) -> None:
    """Orbax declines to save below its own newest step, which a damaged folder is as well."""
    damage(three_saves / "30")
    with Checkpointer(three_saves, keep=3) as checkpointer:
        checkpointer.restore(20, {"x": jnp.zeros(64)})
        checkpointer.save(25, {"x": jnp.full(64, 25.0)}, {})
        assert checkpointer.complete_steps() == [10, 20, 25]
        assert sorted(p.name for p in three_saves.iterdir()) == ["10", "20", "25"]


def test_going_back_needs_drop_after(three_saves: Path) -> None:
    with Checkpointer(three_saves, keep=3) as checkpointer:
        for step in (20, 30):
            with pytest.raises(ValueError, match=f"step {step} does not come after the saved step 30"):
                checkpointer.save(step, {"x": jnp.zeros(64)}, {})
        checkpointer.drop_after(10)
        assert checkpointer.complete_steps() == [10]
        checkpointer.save(20, {"x": jnp.full(64, 5.0)}, {})
        assert float(checkpointer.restore(20, {"x": jnp.zeros(64)})[0]["x"][0]) == 5.0


def test_unknown_step_and_empty_folder(tmp_path: Path) -> None:
    with Checkpointer(tmp_path, keep=1) as checkpointer:
        assert checkpointer.complete_steps() == []
        assert checkpointer.latest() is None
        with pytest.raises(ValueError, match=r"step 4 .* no such step; complete: none"):
            checkpointer.restore(4, {"x": jnp.zeros(2)})


@pytest.mark.parametrize(
    ("target", "named"),
    [
        ({"x": jnp.zeros(65)}, r"\['x'\] is float32\[64\] in the checkpoint and float32\[65\] here"),
        ({"x": jnp.zeros(64, jnp.int32)}, r"int32\[64\] here"),
        ({"x": jnp.zeros(64), "y": jnp.zeros(1)}, r"\['y'\] is absent in the checkpoint"),
        ({}, r"\['x'\] is float32\[64\] in the checkpoint and absent here"),
    ],
)
def test_target_of_another_shape_is_refused(three_saves: Path, target: dict[str, Any], named: str) -> None:
    with Checkpointer(three_saves, keep=3) as checkpointer, pytest.raises(ValueError, match=named):
        checkpointer.restore(20, target)


def test_a_save_that_the_disk_cannot_take_is_not_begun(three_saves: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = shutil.disk_usage(three_saves)._replace(free=63 * 4)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: room)
    with Checkpointer(three_saves, keep=3) as checkpointer:
        with pytest.raises(OSError, match="a checkpoint needs 256 bytes, the disk has 252 free") as told:
            checkpointer.save(40, {"x": jnp.zeros(64)}, {})
        assert told.value.errno == errno.ENOSPC
        assert sorted(p.name for p in three_saves.iterdir()) == ["10", "20", "30"]


@pytest.mark.parametrize(
    ("said", "kind"), [("RESOURCE_EXHAUSTED: Error writing x", OSError), ("INVALID_ARGUMENT: x", ValueError)]
)
def test_a_disk_that_fills_up_under_orbax_is_an_error_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, kind: type[Exception]
) -> None:
    def fails(*args: Any, **kwargs: Any) -> bool:
        raise ValueError(said)

    with Checkpointer(tmp_path, keep=1) as checkpointer:
        monkeypatch.setattr(checkpointer._manager, "save", fails)
        with pytest.raises(kind) as told:
            checkpointer.save(1, {"x": jnp.zeros(2)}, {})
        assert getattr(told.value, "errno", errno.ENOSPC) == errno.ENOSPC


def test_keep_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="keep=0"):
        Checkpointer(tmp_path, keep=0)


@pytest.mark.parametrize(("saved_on", "restored_on"), [(4, 1), (4, 2), (1, 4), (2, 4)])
def test_c36_restore_on_another_mesh(tmp_path: Path, saved_on: int, restored_on: int) -> None:
    saved, target = _state(saved_on), _state(restored_on, scale=0.0)
    with Checkpointer(tmp_path, keep=1) as checkpointer:
        checkpointer.save(1, saved, {})
    with Checkpointer(tmp_path, keep=1) as checkpointer:
        restored, _ = checkpointer.restore(1, target)
    _assert_same(restored, saved)
    for leaf, wanted in zip(jax.tree.leaves(restored), jax.tree.leaves(target), strict=True):
        assert leaf.sharding == wanted.sharding


def test_abstract_target_of_shape_structs(tmp_path: Path) -> None:
    state = _state(4)
    abstract = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), state)
    with Checkpointer(tmp_path, keep=1) as checkpointer:
        checkpointer.save(1, state, {})
        _assert_same(checkpointer.restore(1, abstract)[0], state)


def test_manifest_lists_every_file(three_saves: Path) -> None:
    folder = three_saves / "20"
    manifest = json.loads((folder / "manifest.json").read_text())
    on_disk = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()} - {"manifest.json"}
    assert set(manifest["files"]) == on_disk
    assert manifest["step"] == 20


def test_a_copied_run_still_restores(three_saves: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    copy = tmp_path_factory.mktemp("copy") / "checkpoints"
    shutil.copytree(three_saves, copy)
    with Checkpointer(copy, keep=1) as checkpointer:
        assert checkpointer.complete_steps() == [10, 20, 30]
        assert float(checkpointer.restore(30, {"x": jnp.zeros(64)})[0]["x"][0]) == 30.0
