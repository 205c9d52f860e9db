"""Policy folders: parameters as safetensors, and beside them what made them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import safe_open

from ragen_jax.files import replacing, write_atomically
from ragen_jax.models.config import ModelConfig
from ragen_jax.models.shards import write_file
from ragen_jax.models.transformer import init_params
from ragen_jax.types import Params


def save_policy(folder: Path, params: Params, facts: dict[str, Any]) -> None:
    """Write parameters as safetensors, and what made them as JSON, atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    flat = {"/".join(path): np.ascontiguousarray(leaf) for path, leaf in _flatten(params)}
    write_atomically(folder / "policy.json", json.dumps(facts, indent=2, sort_keys=True) + "\n")
    with replacing(folder / "policy.safetensors") as draft:  # the last file: its presence makes the folder a policy
        write_file(draft, flat)


def load_policy(folder: Path, model: ModelConfig) -> Params:
    """Parameters of a policy folder, checked against the network.

    Raises:
      ValueError: no policy there, or tensors that are missing, extra or of another shape; names them.
    """
    path = folder / "policy.safetensors"
    if not path.exists():
        raise ValueError(f"{folder} is not a policy folder: policy.safetensors is missing")
    wanted = dict(_flatten(jax.eval_shape(lambda: init_params(model, jax.random.key(0)))))
    with safe_open(path, framework="numpy") as file:
        found = {tuple(name.split("/")): file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    wrong = [
        f"{'/'.join(name)}: file {getattr(found.get(name), 'shape', 'missing')}, "
        f"network {getattr(wanted.get(name), 'shape', 'absent')}"
        for name in sorted(found.keys() | wanted.keys())
        if name not in found or name not in wanted or found[name].shape != wanted[name].shape
    ]
    if wrong:
        raise ValueError(f"{path} does not fit model {model.name!r}: {'; '.join(wrong[:5])}")
    tree: Params = {}
    for name, leaf in found.items():
        node = tree
        for part in name[:-1]:
            node = node.setdefault(part, {})
        node[name[-1]] = leaf.astype(np.float32)
    return tree


def _flatten(tree: Params, prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _flatten(value, (*prefix, name))
        else:
            yield (*prefix, name), value
