"""Building blocks of the decoder, as functions over one layer's parameters."""

from __future__ import annotations

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp

from ragen_jax.models.config import ModelConfig
from ragen_jax.models.sharding import lay_out
from ragen_jax.types import Array, Params

MASKED = -1e30  # finite: a fully masked row must not become NaN
SCORES = 2**26  # attention scores of a layer that are alive at once (entries); longer rows run in blocks of queries


def rms_norm(x: Array, weight: Array, *, eps: float) -> jax.Array:
    """Root-mean-square norm over the last axis, in float32, scaled after the cast back."""
    y = x.astype(jnp.float32)
    y = y * jax.lax.rsqrt(jnp.mean(y * y, axis=-1, keepdims=True) + eps)
    return jnp.asarray(y.astype(x.dtype) * weight.astype(x.dtype))


def rotary(positions: Array, config: ModelConfig) -> tuple[Array, Array]:
    """Cosines and sines of the rotary embedding, positions [...] -> two [..., head_dim / 2] float32."""
    angle = positions.astype(jnp.float32)[..., None] * _frequencies(config)
    return jnp.cos(angle), jnp.sin(angle)


def _frequencies(config: ModelConfig) -> Array:
    """Rotary frequencies [head_dim / 2] float32, ``theta^(-2i / head_dim)``, stretched as Llama 3 does if asked for.

    With wavelength w = 2 pi / f and context c of the pretraining: f / factor where w > c / low, f where w < c / high,
    and between them ``(1 - s) f / factor + s f`` with ``s = (c / w - low) / (high - low)``.
    """
    frequency = config.rope_theta ** (-jnp.arange(0, config.head_dim, 2, dtype=jnp.float32) / config.head_dim)
    scaling = config.rope_scaling
    if scaling is None:
        return frequency
    turns = scaling.original_context * frequency / (2 * jnp.pi)  # c / w
    span = scaling.high_freq_factor - scaling.low_freq_factor
    kept = jnp.clip((turns - scaling.low_freq_factor) / span, 0.0, 1.0)
    return (1 - kept) * frequency / scaling.factor + kept * frequency


def rotate(x: Array, cos: Array, sin: Array) -> Array:
    """Rotate halves of the head axis: x [..., heads, head_dim], cos and sin [..., head_dim / 2]."""
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    cos, sin = cos[..., None, :], sin[..., None, :]
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1).astype(x.dtype)


def attend(query: Array, parts: list[tuple[Array, Array, Array]]) -> Array:
    """Softmax attention over several key/value parts without concatenating them.

    softmax([q k_1, q k_2, ...]) [v_1; v_2; ...], with the parts' exponentials summed under one common maximum. At most
    about ``SCORES`` scores are alive at once, in the backward pass too, as long as those of one query position of all
    rows are fewer.

    Args:
      query: [R, kv, q, hd] queries, the heads of one key/value head and the query positions flattened into q.
      parts: (keys [Rp, kv, hd, S], values [Rp, kv, S, hd], mask [Rp, qm, S]) each; R = Rp * share, where ``share``
        consecutive rows read the same keys (the prompt of a group is stored once). The mask says which keys the
        query positions may read; qm is 1 or the number of query positions.

    Returns:
      [R, kv, q, hd].
    """
    rows, kv, length, head_dim = query.shape
    positions = max(mask.shape[1] for _, _, mask in parts)
    entries = rows * kv * length * sum(keys.shape[-1] for keys, _, _ in parts)
    size = -(-positions // -(-entries // SCORES))  # query positions of a block
    if size == positions:
        return _attend(query, parts)
    blocks = -(-positions // size)
    padding = blocks * size - positions

    def split(x: Array) -> jax.Array:
        """[..., positions, n] -> [blocks, ..., size, n]; positions that pad the last block read nothing."""
        x = jnp.pad(x, (*((0, 0),) * (x.ndim - 2), (0, padding), (0, 0)))
        return jnp.moveaxis(x.reshape(*x.shape[:-2], blocks, size, x.shape[-1]), -3, 0)

    @jax.checkpoint
    def some_positions(args: tuple[Array, list[Array]]) -> jax.Array:
        queries, masks = args
        given = iter(masks)
        some = [(k, v, mask if mask.shape[1] == 1 else next(given)) for k, v, mask in parts]
        return jnp.reshape(_attend(queries.reshape(rows, kv, -1, head_dim), some), queries.shape)

    queries = split(query.reshape(rows, kv, -1, positions, head_dim))
    out = jax.lax.map(some_positions, (queries, [split(mask) for _, _, mask in parts if mask.shape[1] > 1]))
    out = jnp.moveaxis(out, 0, -3).reshape(rows, kv, -1, blocks * size, head_dim)
    return jnp.reshape(out[..., :positions, :], query.shape)


def _attend(query: Array, parts: list[tuple[Array, Array, Array]]) -> Array:
    """``attend`` on all query positions at once."""
    rows, kv, length, head_dim = query.shape
    scale = head_dim**-0.5
    scores = []
    for keys, _, mask in parts:
        share = rows // keys.shape[0]
        folded = _fold(query, share)  # [Rp, kv, share * q, hd]
        score = jnp.einsum("rkqd,rkds->rkqs", folded, keys, preferred_element_type=jnp.float32) * scale
        score = score.reshape(keys.shape[0], kv, share, length // mask.shape[1], mask.shape[1], -1)
        score = jnp.where(mask[:, None, None, None], score, MASKED)
        scores.append(score.reshape(keys.shape[0], kv, share * length, -1))
    unfolded = [_unfold(s.max(axis=-1, keepdims=True), rows) for s in scores]
    top = jax.lax.stop_gradient(jnp.stack(unfolded).max(axis=0))  # [R, kv, q, 1]
    total = out = jnp.zeros(())
    for score, (keys, values, _) in zip(scores, parts, strict=True):
        weight = jnp.exp(score - _fold(top, rows // keys.shape[0]))
        total += _unfold(weight.sum(axis=-1, keepdims=True), rows)
        mixed = jnp.einsum("rkqs,rksd->rkqd", weight.astype(values.dtype), values, preferred_element_type=jnp.float32)
        out += _unfold(mixed, rows)
    return (out / total).astype(query.dtype)


def _fold(x: Array, share: int) -> Array:
    """[R, kv, q, n] -> [R / share, kv, share * q, n]."""
    rows, kv, length, width = x.shape
    return x.reshape(rows // share, share, kv, length, width).swapaxes(1, 2).reshape(rows // share, kv, -1, width)


def _unfold(x: Array, rows: int) -> Array:
    """Inverse of ``_fold``."""
    shared, kv, length, width = x.shape
    share = rows // shared
    return x.reshape(shared, kv, share, length // share, width).swapaxes(1, 2).reshape(rows, kv, length // share, width)


def block(
    config: ModelConfig,
    layer: Params,
    x: Array,
    cos: Array,
    sin: Array,
    attention: Callable[[Array, Array, Array], Array],
) -> Array:
    """One decoder block.

    Args:
      config: static shapes.
      layer: parameters of this layer.
      x: [R, T, d] residual stream.
      cos: [R, T, head_dim / 2] rotary cosines.
      sin: [R, T, head_dim / 2] rotary sines.
      attention: from queries [R, kv, g * T, hd], keys [R, kv, hd, T] and values [R, kv, T, hd] of these tokens to
        the attention output [R, kv, g * T, hd]; it decides what else is read (a prompt, a cache) and the masks.

    Returns:
      [R, T, d].
    """
    chex.assert_rank(x, 3)
    rows, length, width = x.shape
    # Projections see [R * T, d]: for [R, T, d] XLA transposes a copy of every gradient on a CPU (an update took 1.3 x).
    x = lay_out(x.reshape(-1, width), "rows", None)
    y = rms_norm(x, layer["attention_norm"], eps=config.norm_eps)
    query, key, value = (
        lay_out(_project(config, layer, name, "nd,dhk->nhk", y), "rows", "tensor", None)
        for name in ("query", "key", "value")
    )
    if config.qkv_bias:
        query = query + layer["query_bias"].astype(y.dtype)
        key = key + layer["key_bias"].astype(y.dtype)
        value = value + layer["value_bias"].astype(y.dtype)
    if config.qk_norm:
        query = rms_norm(query, layer["query_norm"], eps=config.norm_eps)
        key = rms_norm(key, layer["key_norm"], eps=config.norm_eps)
    query, key, value = (z.reshape(rows, length, *z.shape[1:]) for z in (query, key, value))
    keys, values = rotate(key, cos, sin).transpose(0, 2, 3, 1), value.transpose(0, 2, 1, 3)
    queries = rotate(query, cos, sin).reshape(rows, length, config.kv_heads, config.group, config.head_dim)
    queries = queries.transpose(0, 2, 3, 1, 4).reshape(rows, config.kv_heads, -1, config.head_dim)
    out = attention(queries, keys, values)
    out = out.reshape(rows, config.kv_heads, config.group, length, config.head_dim).transpose(0, 3, 1, 2, 4)
    out = out.reshape(-1, config.heads, config.head_dim)
    out = lay_out(out, "rows", "tensor", None)
    x = lay_out(x + _project(config, layer, "output", "nhk,hkd->nd", out), "rows", None)
    y = rms_norm(x, layer["mlp_norm"], eps=config.norm_eps)
    gate = jax.nn.silu(_project(config, layer, "gate", "nd,df->nf", y))
    up = _project(config, layer, "up", "nd,df->nf", y)
    inner = lay_out(gate * up, "rows", "tensor")
    x = lay_out(x + _project(config, layer, "down", "nf,fd->nd", inner), "rows", None)
    return x.reshape(rows, length, width)


def _project(config: ModelConfig, layer: Params, name: str, spec: str, x: Array) -> jax.Array:
    """A projection of a layer and, where it has one, its low-rank adapter: ``x W + adapter_scale (x A) B``."""
    projected = jnp.einsum(spec, x, layer[name].astype(x.dtype))
    if f"{name}_a" not in layer:
        return projected
    (inner, weight), outer = spec.partition("->")[0].split(","), spec.partition("->")[2]
    rest = "".join(axis for axis in weight if axis not in inner)
    shared = "".join(axis for axis in weight if axis in inner)
    kept = inner.removesuffix(shared)
    low = jnp.einsum(f"{inner},{shared}r->{kept}r", x, layer[f"{name}_a"].astype(x.dtype))
    return projected + config.adapter_scale * jnp.einsum(
        f"{kept}r,r{rest}->{outer}", low, layer[f"{name}_b"].astype(x.dtype)
    )
