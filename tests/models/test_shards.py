"""Safetensors files of a folder: which are read, and what is wrong with them."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from ragen_jax.models.shards import INDEX, SINGLE, Shards, write_shards

ONES, TWOS = np.ones((2, 3), np.float32), np.full((2, 3), 2, np.float32)


def _sharded(folder: Path, weight_map: Any, **files: dict[str, np.ndarray]) -> Path:
    for name, content in files.items():
        save_file(content, folder / f"{name}.safetensors")
    (folder / INDEX).write_text(json.dumps({"weight_map": weight_map}))
    return folder


def test_one_file_comes_before_an_index(tmp_path: Path) -> None:
    _sharded(tmp_path, {"w": "a.safetensors"}, a={"w": ONES})
    np.testing.assert_array_equal(Shards(tmp_path).read("w"), ONES)
    save_file({"w": TWOS}, tmp_path / SINGLE)
    np.testing.assert_array_equal(Shards(tmp_path).read("w"), TWOS)


def test_every_tensor_of_a_shard_counts_wherever_the_index_puts_it(tmp_path: Path) -> None:
    files = Shards(
        _sharded(tmp_path, {"v": "b.safetensors", "w": "a.safetensors"}, a={"v": ONES, "u": ONES}, b={"w": TWOS})
    )
    assert files.names() == {"u", "v", "w"}
    assert files.path("v").name == "a.safetensors"
    np.testing.assert_array_equal(files.read("w"), TWOS)


def test_a_tensor_in_two_files_is_refused(tmp_path: Path) -> None:
    _sharded(tmp_path, {"v": "a.safetensors", "w": "b.safetensors"}, a={"v": ONES}, b={"v": ONES, "w": ONES})
    with pytest.raises(ValueError, match=r"b\.safetensors: tensor v is in a\.safetensors too"):
        Shards(tmp_path)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"[1]", "must hold a JSON object, not a list"),
        (b"x{", "is not JSON"),
        (b"\xff", "is no text in UTF-8"),
        (b'{"a": 1}', "weight_map must give the file of every tensor"),
        (b'{"weight_map": ["a.safetensors"]}', "weight_map must give"),
        (b'{"weight_map": {}}', "weight_map must give"),
        (b'{"weight_map": {"w": null}}', "weight_map must give"),
        (b'{"weight_map": {"w": "a.safetensors"}}', r"names 'a\.safetensors', which is no file of"),
        (b'{"weight_map": {"w": ""}}', "names '', which is no file of"),
    ],
)
def test_a_broken_index_is_named(tmp_path: Path, content: bytes, sentence: str) -> None:
    (tmp_path / INDEX).write_bytes(content)
    with pytest.raises(ValueError, match=rf"model\.safetensors\.index\.json {sentence}|index\.json.*{sentence}"):
        Shards(tmp_path)


def _write_raw(path: Path, dtype: str, bytes_each: int) -> None:
    """A safetensors file with one tensor ``w`` [2, 3] of any type."""
    size = 6 * bytes_each
    header = json.dumps({"w": {"dtype": dtype, "shape": [2, 3], "data_offsets": [0, size]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(size))


@pytest.mark.parametrize(("dtype", "bytes_each"), [("F8_E4M3", 1), ("F8_E5M2", 1), ("I8", 1), ("U8", 1), ("I64", 8)])
def test_numbers_that_are_no_ordinary_floats_are_refused(tmp_path: Path, dtype: str, bytes_each: int) -> None:
    _write_raw(tmp_path / SINGLE, dtype, bytes_each)
    with pytest.raises(ValueError, match=rf"model\.safetensors: tensor w is of type {dtype}, only F64, F32, F16, BF16"):
        Shards(tmp_path).check("w", (2, 3), model="m")


@pytest.mark.parametrize(("dtype", "bytes_each"), [("F64", 8), ("F32", 4), ("F16", 2), ("BF16", 2)])
def test_ordinary_floats_are_read(tmp_path: Path, dtype: str, bytes_each: int) -> None:
    _write_raw(tmp_path / SINGLE, dtype, bytes_each)
    files = Shards(tmp_path)
    files.check("w", (2, 3), model="m")
    assert not files.read("w").any()
    with pytest.raises(ValueError, match=r"tensor w has shape \(2, 3\), model 'm' needs \(3, 2\)"):
        files.check("w", (3, 2), model="m")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    tensors = {f"w{i}": np.full((4,), i, np.float32) for i in range(5)}
    write_shards(tmp_path, iter(tensors.items()), shard_bytes=32)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *(f"model-{i:05d}-of-00003.safetensors" for i in (1, 2, 3)),
        INDEX,
    ]
    files = Shards(tmp_path)
    assert files.names() == set(tensors)
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(files.read(name), tensor)
