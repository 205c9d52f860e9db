"""The decoder: parameters, the prompt pass, the pass over continuations of a prompt, and the cached pass.

Hot functions take (static config, parameters, arrays). The nnx module only describes the parameters: it is split once
into the nested dict that everything else works on, with the layers stacked on a leading axis.
"""

from __future__ import annotations

import functools

import chex
import jax
import jax.numpy as jnp
from flax import nnx

from ragen_jax.models.cache import PromptCache, RowCache
from ragen_jax.models.config import ModelConfig
from ragen_jax.models.layers import attend, block, rms_norm, rotary
from ragen_jax.types import Array, Params


class Decoder(nnx.Module):
    """Parameters of a decoder, for construction, loading and inspection.

    ``nnx.split(Decoder(config, rngs=...))`` gives the graph definition and the parameters; ``init_params`` returns the
    latter as a plain nested dict.
    """

    def __init__(self, config: ModelConfig, *, rngs: nnx.Rngs) -> None:
        """Draw random parameters: normal weights with ``config.init_scale``, zero biases, unit norms."""
        depth, d, hd = config.layers, config.width, config.head_dim

        def normal(*shape: int) -> nnx.Param:
            return nnx.Param(jax.random.normal(rngs.params(), shape, jnp.float32) * config.init_scale)

        layer = {
            "attention_norm": nnx.Param(jnp.ones((depth, d))),
            "query": normal(depth, d, config.heads, hd),
            "key": normal(depth, d, config.kv_heads, hd),
            "value": normal(depth, d, config.kv_heads, hd),
            "output": normal(depth, config.heads, hd, d),
            "mlp_norm": nnx.Param(jnp.ones((depth, d))),
            "gate": normal(depth, d, config.mlp_width),
            "up": normal(depth, d, config.mlp_width),
            "down": normal(depth, config.mlp_width, d),
        }
        if config.qkv_bias:
            layer["query_bias"] = nnx.Param(jnp.zeros((depth, config.heads, hd)))
            layer["key_bias"] = nnx.Param(jnp.zeros((depth, config.kv_heads, hd)))
            layer["value_bias"] = nnx.Param(jnp.zeros((depth, config.kv_heads, hd)))
        if config.qk_norm:
            layer["query_norm"] = nnx.Param(jnp.ones((depth, hd)))
            layer["key_norm"] = nnx.Param(jnp.ones((depth, hd)))
        self.embedding = normal(config.vocab_rows, d)
        self.layers = nnx.Dict(layer)
        self.final_norm = nnx.Param(jnp.ones((d,)))
        if not config.tied:
            self.head = normal(config.vocab_rows, d)


def init_params(config: ModelConfig, key: jax.Array) -> Params:
    """Random parameters as a nested dict of float32 arrays; layer parameters are stacked on axis 0."""
    return _init_params(config, key)


@functools.partial(jax.jit, static_argnums=(0,))
def _init_params(config: ModelConfig, key: jax.Array) -> Params:
    _, state = nnx.split(Decoder(config, rngs=nnx.Rngs(params=key)))
    return nnx.to_pure_dict(state)


def stacked_layers(params: Params) -> Params:
    """Parameters of all layers, adapters among them, stacked on axis 0."""
    return {**params["layers"], **params.get("adapters", {})}


def prompt_pass(
    params: Params,
    config: ModelConfig,
    tokens: Array,
    mask: Array,
    *,
    dtype: str,
    beginning: PromptCache | None = None,
    remat: bool = False,
) -> PromptCache:
    """Run first prompts once.

    Args:
      params: parameters.
      config: static shapes.
      tokens: [P, Lx] int32, left padded.
      mask: [P, Lx] bool.
      dtype: of the activations.
      beginning: what this function returned for the one row of tokens, without padding, that all prompts begin with;
        the tokens are then those that follow it, at least one in each row.
      remat: recompute activations in the backward pass instead of storing them.

    Returns:
      Keys, values and the last hidden state of every prompt, its beginning included. Padding is never read.
    """
    chex.assert_rank([tokens, mask], 2)
    chex.assert_equal_shape([tokens, mask])
    shared = [] if beginning is None else [beginning]
    before = sum((cache.lengths for cache in shared), jnp.zeros((), jnp.int32))
    cos, sin = rotary(before + jnp.maximum(jnp.cumsum(mask, axis=1) - 1, 0), config)
    causal = jnp.tril(jnp.ones((tokens.shape[1],) * 2, bool))
    visible = causal & mask[:, None, :]

    def layer(x: Array, inputs: tuple[Params, list[tuple[Array, Array]]]) -> tuple[Array, tuple[Array, Array]]:
        weights, earlier = inputs
        stored = {}

        def attention(query: Array, keys: Array, values: Array) -> Array:
            stored["kv"] = (keys, values)
            read = [(*kv, cache.mask[:, None, :]) for kv, cache in zip(earlier, shared, strict=True)]
            return attend(query, [*read, (keys, values, visible)])

        return block(config, weights, x, cos, sin, attention), stored["kv"]

    x = params["embedding"].astype(dtype)[tokens]
    inputs = (stacked_layers(params), [(cache.keys, cache.values) for cache in shared])
    x, (keys, values) = jax.lax.scan(jax.checkpoint(layer) if remat else layer, x, inputs)
    last = rms_norm(x[:, -1], params["final_norm"], eps=config.norm_eps)
    own = PromptCache(
        keys=keys, values=values, mask=mask, lengths=before + mask.sum(1, dtype=jnp.int32), last_hidden=last
    )
    return own if beginning is None else own.behind(beginning)


def continuation_pass(
    params: Params,
    config: ModelConfig,
    prompts: PromptCache,
    tokens: Array,
    *,
    ends: Array | None = None,
    offsets: Array | None = None,
    remat: bool = False,
) -> Array:
    """Run G continuations of every prompt; the prompt's keys and values are read, not recomputed.

    Args:
      params: parameters.
      config: static shapes.
      prompts: what ``prompt_pass`` returned for P prompts; gradients flow back through it.
      tokens: [P, G, T] int32, right padded.
      ends: [P, G, T] int32, rows that hold trees of tokens: the last place that may read a token (``reads``). None:
        every token is read by all behind it.
      offsets: [P, G, T] int32, position of a token within its continuation. None: 0, 1, 2, ...
      remat: recompute activations in the backward pass instead of storing them.

    Returns:
      [P, G, T, d] final hidden states; the state at t predicts token t + 1 (``prompts.last_hidden`` predicts token 0).
    """
    chex.assert_rank(tokens, 3)
    size, group, length = tokens.shape
    rows = size * group
    offsets = jnp.broadcast_to(jnp.arange(length), tokens.shape) if offsets is None else offsets
    positions = (prompts.lengths[:, None, None] + offsets).reshape(rows, length)
    cos, sin = rotary(positions, config)
    own = reads(jnp.full((rows, length), length) if ends is None else ends.reshape(rows, length))
    visible = prompts.mask[:, None, :]

    def layer(x: Array, inputs: tuple[Params, Array, Array]) -> tuple[Array, None]:
        weights, prompt_keys, prompt_values = inputs

        def attention(query: Array, keys: Array, values: Array) -> Array:
            return attend(query, [(prompt_keys, prompt_values, visible), (keys, values, own)])

        return block(config, weights, x, cos, sin, attention), None

    x = params["embedding"].astype(prompts.keys.dtype)[tokens.reshape(rows, length)]
    body = jax.checkpoint(layer) if remat else layer
    x, _ = jax.lax.scan(body, x, (stacked_layers(params), prompts.keys, prompts.values))
    x = rms_norm(x, params["final_norm"], eps=config.norm_eps)
    return x.reshape(size, group, length, config.width)


def reads(ends: Array) -> Array:
    """Which tokens of a row a token reads, itself among them: ends [R, T] -> [R, T, T], true where t reads s.

    A row may hold trees of tokens in depth-first order: then the descendants of the token at s are those behind it up
    to ``ends[s]``. An end before s itself marks padding, which nothing reads.
    """
    place = jnp.arange(ends.shape[1])
    return (place[None, :] <= place[:, None]) & (place[:, None] <= ends[:, None, :])


def cached_pass(
    params: Params, config: ModelConfig, prompts: PromptCache, rows: RowCache, tokens: Array, mask: Array
) -> RowCache:
    """Append tokens to the rows: one sampled token each while decoding, or an observation between two turns.

    Args:
      params: parameters.
      config: static shapes.
      prompts: cache of the P first prompts.
      rows: cache of the B rows.
      tokens: [B, n] int32, right padded.
      mask: [B, n] bool; a row without a real token keeps its last hidden state.

    Returns:
      The row cache with n more slots in use.
    """
    chex.assert_equal_shape([tokens, mask])
    count, added = tokens.shape
    share = count // prompts.lengths.shape[0]
    positions = jnp.repeat(prompts.lengths, share)[:, None] + rows.lengths[:, None] + jnp.cumsum(mask, axis=1) - 1
    cos, sin = rotary(positions, config)
    slots = jnp.arange(rows.capacity)
    row_mask = jax.lax.dynamic_update_slice(rows.mask, mask, (0, rows.slot))
    visible = row_mask[:, None, :] & (slots[None, None, :] <= rows.slot + jnp.arange(added)[None, :, None])
    prompt_visible = prompts.mask[:, None, :]
    x = params["embedding"].astype(prompts.keys.dtype)[tokens]
    all_keys, all_values = [], []
    for index in range(config.layers):

        def attention(query: Array, keys: Array, values: Array, index: int = index) -> Array:
            own_keys = jax.lax.dynamic_update_slice(rows.keys[index], keys, (0, 0, 0, rows.slot))
            own_values = jax.lax.dynamic_update_slice(rows.values[index], values, (0, 0, rows.slot, 0))
            all_keys.append(own_keys)
            all_values.append(own_values)
            return attend(
                query,
                [
                    (prompts.keys[index], prompts.values[index], prompt_visible),
                    (own_keys, own_values, visible),
                ],
            )

        weights = jax.tree.map(lambda leaf, index=index: leaf[index], stacked_layers(params))
        x = block(config, weights, x, cos, sin, attention)
    x = rms_norm(x, params["final_norm"], eps=config.norm_eps)
    real = mask.sum(axis=1, dtype=jnp.int32)
    last = jnp.take_along_axis(x, jnp.maximum(real - 1, 0)[:, None, None], axis=1)[:, 0]
    return RowCache(
        keys=tuple(all_keys),
        values=tuple(all_values),
        mask=row_mask,
        lengths=rows.lengths + real,
        slot=rows.slot + added,
        last_hidden=jnp.where((real > 0)[:, None], last, rows.last_hidden),
    )
