"""Saving and restoring what training changes, on top of orbax.

A save is one folder ``<folder>/<step>``. Orbax writes the arrays and the small JSON record; when it has finished, a
manifest that lists every file with its size is put beside them as the last act. A step without a manifest, or whose
files do not match it, was interrupted or damaged: it is never offered as a checkpoint.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import jax
from jax.experimental import multihost_utils

from ragen_jax.files import write_atomically

logger = logging.getLogger(__name__)
_MANIFEST = "manifest.json"
_MANIFEST_VERSION = 1
_HASHED_BYTES = 1 << 20  # larger files are checked by size alone: hashing a big model would cost more than saving it


class Checkpointer:
    """The checkpoints of one run; at most ``keep`` complete ones stay on disk."""

    def __init__(self, folder: str | os.PathLike[str], *, keep: int) -> None:
        """Open the checkpoint folder, making it when it is missing.

        Args:
          folder: where the step folders stand.
          keep: newest complete checkpoints that a save leaves on disk, 1 or more.

        Raises:
          ValueError: ``keep`` is below 1.
        """
        if keep < 1:
            raise ValueError(f"keep={keep}: keep at least 1 checkpoint")
        self._folder = Path(folder).absolute()  # orbax refuses relative paths
        self._keep = keep
        self._reported: set[tuple[str, str]] = set()
        self._folder.mkdir(parents=True, exist_ok=True)

    @functools.cached_property
    def _manager(self) -> Any:
        """Made when it is first needed: orbax takes seconds to import, and a new run trains before it saves."""
        import orbax.checkpoint as ocp

        return ocp.CheckpointManager(
            self._folder, options=ocp.CheckpointManagerOptions(enable_async_checkpointing=False)
        )

    def __enter__(self) -> Self:
        """Use as a context manager; leaving it closes the checkpointer."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Free what orbax holds."""
        if "_manager" in self.__dict__:
            self._manager.close()

    def save(self, step: int, state: Any, meta: Mapping[str, Any]) -> None:
        """Write one checkpoint and return when it is complete on disk; then drop what the budget does not allow.

        Damaged saves of this and of later steps are removed before it, since orbax takes them for checkpoints and
        declines to save below its newest one; those of earlier steps after it: once a newer complete checkpoint
        stands, nobody can use them.

        Args:
          step: finished learner steps.
          state: pytree of arrays, typed PRNG keys, Python numbers and None.
          meta: what JSON can hold (data cursor, early-stop state, ...).

        Raises:
          ValueError: a complete checkpoint of this or a later step exists.
          OSError: the disk has too little room.
          RuntimeError: orbax declined to save.
        """
        latest = self.latest()
        if latest is not None and step <= latest:
            raise ValueError(
                f"step {step} does not come after the saved step {latest} in {self._folder}; "
                f"call drop_after({step - 1}) first to go back"
            )
        import orbax.checkpoint as ocp

        self.drop_after(step - 1)
        self._check_room(state)
        arguments = ocp.args.Composite(state=ocp.args.StandardSave(state), meta=ocp.args.JsonSave(dict(meta)))
        try:
            written = self._manager.save(step, args=arguments)
            self._manager.wait_until_finished()
        except ValueError as error:  # how orbax tells of a full disk
            if not str(error).startswith("RESOURCE_EXHAUSTED"):
                raise
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._folder / str(step))) from error
        if not written:
            raise RuntimeError(f"orbax did not save step {step} in {self._folder}")
        if jax.process_index() == 0:
            _write_manifest(self._folder / str(step), step, _describe(state))
        _barrier("checkpoint manifest")
        kept = {str(complete) for complete in self.complete_steps()[-self._keep :]}
        self._remove(lambda name: name not in kept)

    def complete_steps(self) -> list[int]:
        """Steps with a complete checkpoint, ascending; each damaged one is named in a warning, once."""
        complete = []
        for name in self._step_folders():
            step = _step_of(name)
            fault = self._fault(step) if name == str(step) else "the save was interrupted"
            if fault is None:
                complete.append(step)
            elif (name, fault) not in self._reported:
                self._reported.add((name, fault))
                logger.warning("checkpoint of step %d in %s is skipped: %s", step, self._folder, fault)
        return sorted(complete)

    def latest(self) -> int | None:
        """Newest complete step, or None."""
        steps = self.complete_steps()
        return steps[-1] if steps else None

    def restore(self, step: int, abstract_state: Any) -> tuple[Any, dict[str, Any]]:
        """Read one checkpoint onto the shardings of a target, which may be another mesh than it was saved on.

        Args:
          step: a complete step.
          abstract_state: pytree of the saved structure; each array leaf is a ``jax.ShapeDtypeStruct`` with a sharding,
            or an array whose shape, dtype and sharding are taken; its values are not read.

        Returns:
          The state and the ``meta`` that was saved with it.

        Raises:
          ValueError: the step is not complete, or its leaves differ in name, shape or dtype from the target.
        """
        fault = self._fault(step)
        if fault is not None:
            raise ValueError(f"step {step} in {self._folder} cannot be restored: {fault}; complete: {self._list()}")
        import orbax.checkpoint as ocp

        self._check_leaves(step, abstract_state)
        restored = self._manager.restore(
            step,
            args=ocp.args.Composite(
                state=ocp.args.StandardRestore(jax.tree.map(_abstract, abstract_state)), meta=ocp.args.JsonRestore()
            ),
        )
        return restored.state, dict(restored.meta)

    def drop_after(self, step: int) -> None:
        """Remove every save later than ``step``: a run that goes back to a step writes the later ones anew."""
        self._remove(lambda name: _step_of(name) > step)

    def _check_room(self, state: Any) -> None:
        """Refuse a save that the disk cannot take: orbax would write what fits, and its threads fail one by one."""
        needed = sum(getattr(leaf, "nbytes", 0) for leaf in jax.tree.leaves(state))
        free = shutil.disk_usage(self._folder).free
        if needed > free:
            raise OSError(
                errno.ENOSPC, f"a checkpoint needs {needed} bytes, the disk has {free} free", str(self._folder)
            )

    def _list(self) -> str:
        return ", ".join(str(step) for step in self.complete_steps()) or "none"

    def _step_folders(self) -> list[str]:
        """Names of step folders; an interrupted orbax save may carry a suffix behind the number."""
        names = (entry.name for entry in self._folder.iterdir() if entry.is_dir())
        return sorted(name for name in names if name.split(".")[0].isdecimal())

    def _fault(self, step: int) -> str | None:
        """What is wrong with a step, or None for a complete checkpoint."""
        folder = self._folder / str(step)
        if not folder.is_dir():
            return "no such step"
        if not (folder / _MANIFEST).is_file():
            return f"{_MANIFEST} is missing, the save was interrupted"
        try:
            manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
            _ = manifest["leaves"].items()  # what a restore compares
            return _difference(folder, manifest["files"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return f"{_MANIFEST} cannot be read ({error})"

    def _check_leaves(self, step: int, abstract_state: Any) -> None:
        saved = json.loads((self._folder / str(step) / _MANIFEST).read_text())["leaves"]
        wanted = _describe(abstract_state)
        for name in [*wanted, *saved]:
            if saved.get(name) != wanted.get(name):
                raise ValueError(
                    f"step {step} in {self._folder} does not fit this run: {name} is {saved.get(name, 'absent')} "
                    f"in the checkpoint and {wanted.get(name, 'absent')} here; use the config of the run that saved it"
                )

    def _remove(self, doomed: Callable[[str], bool]) -> None:
        """Remove step folders by name; every process calls it, the first one acts."""
        _barrier("checkpoint in use")  # nobody may still be reading
        if jax.process_index() == 0:
            for name in filter(doomed, self._step_folders()):
                # The manifest goes first: a removal that is cut short must not leave something that looks complete.
                (self._folder / name / _MANIFEST).unlink(missing_ok=True)
                shutil.rmtree(self._folder / name)
        _barrier("checkpoint removal")
        if "_manager" in self.__dict__:
            self._manager.reload()


def _step_of(name: str) -> int:
    return int(name.split(".")[0])


def _barrier(name: str) -> None:
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(name)


def _abstract(leaf: Any) -> Any:
    if isinstance(leaf, jax.Array):
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding)
    return leaf


def _describe(tree: Any) -> dict[str, str]:
    """Path of each leaf -> its dtype and shape, or its Python type."""
    described = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        if hasattr(leaf, "dtype") and hasattr(leaf, "shape"):
            described[jax.tree_util.keystr(path)] = f"{leaf.dtype}{list(leaf.shape)}"
        else:
            described[jax.tree_util.keystr(path)] = type(leaf).__name__
    return described


def _write_manifest(folder: Path, step: int, leaves: Mapping[str, str]) -> None:
    files: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            record: dict[str, Any] = {"bytes": path.stat().st_size}
            if record["bytes"] <= _HASHED_BYTES:
                record["sha256"] = _sha256(path)
            files[path.relative_to(folder).as_posix()] = record
    manifest = {"version": _MANIFEST_VERSION, "step": step, "leaves": dict(leaves), "files": files}
    write_atomically(folder / _MANIFEST, json.dumps(manifest, indent=1))


def _difference(folder: Path, files: Mapping[str, Mapping[str, Any]]) -> str | None:
    """First file of a manifest that is not as it was saved, or None."""
    for name, record in files.items():
        path = folder / name
        if not path.is_file():
            return f"file {name} is missing"
        if path.stat().st_size != record["bytes"]:
            return f"file {name} has {path.stat().st_size} bytes instead of {record['bytes']}"
        if "sha256" in record and _sha256(path) != record["sha256"]:
            return f"file {name} has changed since it was saved"
    return None


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
