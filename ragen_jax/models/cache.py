"""Keys and values: of a group's first prompt (stored once), and of what each rollout added."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
from flax import struct

from ragen_jax.models.config import ModelConfig
from ragen_jax.models.sharding import lay_out
from ragen_jax.types import Array

PROMPT_AXES = {"keys": 1, "values": 1, "mask": 0, "lengths": 0, "last_hidden": 0}  # where a PromptCache has its prompts


@struct.dataclass
class PromptCache:
    """Keys and values of first prompts, layers stacked on the leading axis.

    Attributes:
      keys: [L, P, kv, hd, Lx].
      values: [L, P, kv, Lx, hd].
      mask: [P, Lx] bool, true on real prompt tokens.
      lengths: [P] int32, real prompt tokens; the next token of a row has this position.
      last_hidden: [P, d] final hidden state of the last prompt token; it predicts the first response token.
    """

    keys: Array
    values: Array
    mask: Array
    lengths: Array
    last_hidden: Array

    def behind(self, beginning: PromptCache) -> PromptCache:
        """The cache of whole prompts: the one row of ``beginning`` in front of every row of this one."""

        def joined(first: Array, rest: Array, *, row_axis: int, axis: int) -> Array:
            shape = list(first.shape)
            shape[row_axis] = rest.shape[row_axis]
            return jnp.concatenate([jnp.broadcast_to(first, shape), rest], axis=axis)

        return dataclasses.replace(
            self,
            keys=joined(beginning.keys, self.keys, row_axis=1, axis=4),
            values=joined(beginning.values, self.values, row_axis=1, axis=3),
            mask=joined(beginning.mask, self.mask, row_axis=0, axis=1),
        )


@struct.dataclass
class RowCache:
    """What each rollout added after its first prompt. All rows write the same slot; ``mask`` marks real tokens.

    Layers are a tuple, not a stacked array: a loop that updates one stacked array copies it at every layer.

    Attributes:
      keys: per layer [B, kv, hd, S].
      values: per layer [B, kv, S, hd].
      mask: [B, S] bool, slots that hold a real token of the row.
      lengths: [B] int32, real tokens of the row after its first prompt.
      slot: [] int32, next free slot.
      last_hidden: [B, d] hidden state that predicts the row's next token.
    """

    keys: tuple[Array, ...]
    values: tuple[Array, ...]
    mask: Array
    lengths: Array
    slot: Array
    last_hidden: Array

    @property
    def capacity(self) -> int:
        """Slots."""
        return self.mask.shape[1]


def empty_rows(config: ModelConfig, prompts: PromptCache, *, group_size: int, capacity: int) -> RowCache:
    """A row cache with nothing in it; every row of a group starts from its prompt's last hidden state."""
    rows = prompts.lengths.shape[0] * group_size
    dtype = prompts.keys.dtype
    keys = (rows, config.kv_heads, config.head_dim, capacity)
    values = (rows, config.kv_heads, capacity, config.head_dim)
    return RowCache(
        keys=tuple(jnp.zeros(keys, dtype) for _ in range(config.layers)),
        values=tuple(jnp.zeros(values, dtype) for _ in range(config.layers)),
        mask=jnp.zeros((rows, capacity), bool),
        lengths=jnp.zeros((rows,), jnp.int32),
        slot=jnp.zeros((), jnp.int32),
        last_hidden=jnp.repeat(prompts.last_hidden, group_size, axis=0),
    )


def lay_out_rows(cache: RowCache) -> RowCache:
    """Split the rows, and the heads of a tensor axis, over the devices of ``activations_on``."""
    return dataclasses.replace(
        cache,
        keys=tuple(lay_out(k, "rows", "tensor", None, None) for k in cache.keys),
        values=tuple(lay_out(v, "rows", "tensor", None, None) for v in cache.values),
        mask=lay_out(cache.mask, "rows", None),
        lengths=lay_out(cache.lengths, "rows"),
        last_hidden=lay_out(cache.last_hidden, "rows", None),
    )


def grow_rows(cache: RowCache, *, capacity: int) -> RowCache:
    """The same cache with more slots."""
    extra = capacity - cache.capacity
    return dataclasses.replace(
        cache,
        keys=tuple(jnp.pad(k, ((0, 0), (0, 0), (0, 0), (0, extra))) for k in cache.keys),
        values=tuple(jnp.pad(v, ((0, 0), (0, 0), (0, extra), (0, 0))) for v in cache.values),
        mask=jnp.pad(cache.mask, ((0, 0), (0, extra))),
    )
