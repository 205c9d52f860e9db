"""Safetensors files of a Hugging Face folder: one file, or numbered shards and their index."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from ragen_jax.files import read_json_object

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
SHARD_BYTES = 4 * 1024**3
FLOATS = ("F64", "F32", "F16", "BF16")


class _Stored(NamedTuple):
    """Where a tensor is, and what the file's header says of it."""

    path: Path
    dtype: str
    shape: tuple[int, ...]


class Shards:
    """The tensors of a folder by name. Headers are read at once, a tensor when it is asked for.

    As transformers does: ``model.safetensors`` before an index beside it, and every tensor of the files that the index
    names.
    """

    def __init__(self, folder: Path) -> None:
        """Read the headers.

        Raises:
          ValueError: no such files, an index that is none, a file that is missing, cut or broken, or a tensor that two
            files hold.
        """
        self._stored: dict[str, _Stored] = {}
        for path in _files(folder):
            with _opened(path) as file:
                for name in file.keys():  # noqa: SIM118 - no mapping
                    if name in self._stored:
                        other = self._stored[name].path.name
                        raise ValueError(f"{path}: tensor {name} is in {other} too; keep the files of one model only")
                    header = file.get_slice(name)
                    self._stored[name] = _Stored(path, header.get_dtype(), tuple(header.get_shape()))

    def __contains__(self, name: str) -> bool:
        """True where some file holds the tensor."""
        return name in self._stored

    def names(self) -> set[str]:
        """Of all tensors."""
        return set(self._stored)

    def path(self, name: str) -> Path:
        """The file that holds a tensor."""
        return self._stored[name].path

    def check(self, name: str, shape: tuple[int, ...], *, model: str) -> None:
        """Refuse a tensor of another shape than the model needs, or of numbers that are no ordinary floats.

        Raises:
          ValueError: names file, tensor, what was found and what is needed.
        """
        path, dtype, found = self._stored[name]
        if dtype not in FLOATS:
            raise ValueError(
                f"{path}: tensor {name} is of type {dtype}, only {', '.join(FLOATS)} are read: use the model's "
                "ordinary weights, not quantised ones"
            )
        if found != shape:
            raise ValueError(
                f"{path}: tensor {name} has shape {found}, model {model!r} needs {shape}: is config.json its own?"
            )

    def read(self, name: str) -> np.ndarray:
        """One tensor.

        Raises:
          ValueError: the file changed since its header was read.
        """
        path = self._stored[name].path
        with _opened(path) as file:
            try:
                tensor: np.ndarray = file.get_tensor(name)
            except SafetensorError as error:
                raise ValueError(f"{path}: tensor {name} cannot be read ({error}): download the file again") from error
        return tensor


def _files(folder: Path) -> list[Path]:
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    index = folder / INDEX
    if not index.is_file():
        raise ValueError(f"{folder} has neither {SINGLE} nor {INDEX}: download the safetensors files of the model")
    where = read_json_object(index).get("weight_map")
    if not (isinstance(where, dict) and where and all(isinstance(name, str) for name in where.values())):
        raise ValueError(
            f"{index} is no index of safetensors shards: weight_map must give the file of every tensor: "
            "download it again"
        )
    names = sorted(set(where.values()))
    for name in names:
        if not (folder / name).is_file():
            raise ValueError(f"{index} names {name!r}, which is no file of {folder}: download it again")
    return [folder / name for name in names]


def _opened(path: Path) -> Any:
    try:
        return safe_open(path, framework="numpy")
    except SafetensorError as error:
        size = path.stat().st_size
        raise ValueError(f"{path} ({size} bytes) is cut or broken ({error}): download the file again") from error


def write_file(path: Path, tensors: dict[str, np.ndarray]) -> None:
    """Write one safetensors file.

    Raises:
      OSError: it cannot be written; names it.
    """
    try:
        save_file(tensors, path, metadata={"format": "pt"})
    except SafetensorError as error:  # a full disk among others
        raise OSError(errno.EIO, f"cannot be written ({error})", str(path)) from error


def write_shards(folder: Path, tensors: Iterator[tuple[str, np.ndarray]], *, shard_bytes: int = SHARD_BYTES) -> None:
    """Write tensors as they come: one file where everything fits, else numbered shards and their index.

    Raises:
      OSError: a file that cannot be written.
    """
    shards: list[tuple[Path, list[str]]] = []
    pending: dict[str, np.ndarray] = {}
    size = total = 0

    def flush() -> None:
        path = folder / f"shard-{len(shards):05d}.part"
        write_file(path, pending)
        shards.append((path, list(pending)))
        pending.clear()

    for name, tensor in tensors:
        if pending and size + tensor.nbytes > shard_bytes:
            flush()
            size = 0
        pending[name] = tensor
        size += tensor.nbytes
        total += tensor.nbytes
    flush()
    if len(shards) == 1:
        shards[0][0].rename(folder / SINGLE)
        return
    where: dict[str, str] = {}
    for number, (path, names) in enumerate(shards, start=1):
        final = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        path.rename(folder / final)
        where |= dict.fromkeys(names, final)
    index = {"metadata": {"total_size": total}, "weight_map": where}
    (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
