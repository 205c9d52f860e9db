"""Teacher-forced scoring of groups: log-probs, entropies and values of every token after the first prompt."""

from __future__ import annotations

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from ragen_jax.core.masking import masked_mean
from ragen_jax.models.cache import PromptCache
from ragen_jax.models.config import ModelConfig
from ragen_jax.models.head import token_log_probs
from ragen_jax.models.sharding import activations_on
from ragen_jax.models.transformer import continuation_pass, prompt_pass
from ragen_jax.models.value_head import values_from_hidden
from ragen_jax.types import Array, Params


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreConfig:
    """Static settings that sampler, scorer and update share.

    Attributes:
      vocab_size: ids below this can be drawn.
      temperature: divides the logits.
      dtype: of activations.
    """

    vocab_size: int
    temperature: float = 1.0
    dtype: str = "float32"


def predicting_states(prompts: PromptCache, hidden: Array) -> jax.Array:
    """States that predict each token: [P, G, T, d] -> [P, G, T, d], shifted right by one.

    Token 0 is predicted by the last prompt token, token t by token t - 1.
    """
    first = jnp.broadcast_to(prompts.last_hidden[:, None, None], (*hidden.shape[:2], 1, hidden.shape[3]))
    return jnp.concatenate([first.astype(hidden.dtype), hidden[:, :, :-1]], axis=2)


def group_states(
    params: Params,
    config: ModelConfig,
    prompt_tokens: Array,
    prompt_mask: Array,
    tokens: Array,
    *,
    dtype: str,
    remat: bool = False,
) -> jax.Array:
    """States [P, G, T, d] that predict the tokens [P, G, T] after the first prompts [P, Lx]; each prompt runs once."""
    chex.assert_rank([prompt_tokens, tokens], [2, 3])
    prompts = prompt_pass(params, config, prompt_tokens, prompt_mask, dtype=dtype, remat=remat)
    hidden = continuation_pass(params, config, prompts, tokens, remat=remat)
    return predicting_states(prompts, hidden)


def response_log_probs(
    params: Params,
    config: ModelConfig,
    settings: ScoreConfig,
    prompt_tokens: Array,
    prompt_mask: Array,
    tokens: Array,
    *,
    remat: bool = False,
) -> tuple[jax.Array, jax.Array]:
    """Log-prob and entropy of every token.

    Args:
      params: parameters.
      config: static shapes.
      settings: static scoring settings.
      prompt_tokens: [P, Lx] int32, left padded.
      prompt_mask: [P, Lx] bool.
      tokens: [P, G, T] int32, right padded.
      remat: recompute activations in the backward pass.

    Returns:
      Two [P, G, T] float32 arrays in nats; values at padding mean nothing.
    """
    states = group_states(params, config, prompt_tokens, prompt_mask, tokens, dtype=settings.dtype, remat=remat)
    return token_log_probs(
        params, config, states, tokens, vocab_size=settings.vocab_size, temperature=settings.temperature
    )


def group_values(
    params: Params,
    config: ModelConfig,
    prompt_tokens: Array,
    prompt_mask: Array,
    tokens: Array,
    *,
    dtype: str,
    remat: bool = False,
) -> jax.Array:
    """Critic values [P, G, T] float32: the value at t is that of the state before token t."""
    decoder = params["decoder"]
    states = group_states(decoder, config, prompt_tokens, prompt_mask, tokens, dtype=dtype, remat=remat)
    return values_from_hidden(params, states)


@functools.partial(jax.jit, static_argnums=(1, 2, 6), static_argnames=("mesh",))
def score(
    params: Params,
    config: ModelConfig,
    settings: ScoreConfig,
    prompt_tokens: Array,
    prompt_mask: Array,
    tokens: Array,
    micro_groups: int,
    *,
    mesh: Mesh | None = None,
) -> jax.Array:
    """``response_log_probs`` without gradients, ``micro_groups`` groups at a time: [P, G, T] (nats)."""

    def piece(args: tuple[Array, Array, Array]) -> jax.Array:
        return response_log_probs(params, config, settings, *args)[0]

    with activations_on(mesh):
        return _by_groups(piece, (prompt_tokens, prompt_mask, tokens), micro_groups)


@functools.partial(jax.jit, static_argnums=(1, 2, 7), static_argnames=("mesh",))
def row_entropies(
    params: Params,
    config: ModelConfig,
    settings: ScoreConfig,
    prompt_tokens: Array,
    prompt_mask: Array,
    tokens: Array,
    response_mask: Array,
    micro_groups: int,
    *,
    mesh: Mesh | None = None,
) -> jax.Array:
    """Token-mean entropy of every rollout's responses, ``micro_groups`` groups at a time: [P, G] (nats).

    A rollout without a response token has 0.
    """

    def piece(args: tuple[Array, Array, Array, Array]) -> jax.Array:
        *inputs, mask = args
        return masked_mean(response_log_probs(params, config, settings, *inputs)[1], mask, axis=2)

    with activations_on(mesh):
        return _by_groups(piece, (prompt_tokens, prompt_mask, tokens, response_mask), micro_groups)


@functools.partial(jax.jit, static_argnums=(1, 5, 6), static_argnames=("mesh",))
def score_values(
    params: Params,
    config: ModelConfig,
    prompt_tokens: Array,
    prompt_mask: Array,
    tokens: Array,
    micro_groups: int,
    dtype: str,
    *,
    mesh: Mesh | None = None,
) -> jax.Array:
    """``group_values`` without gradients, ``micro_groups`` groups at a time: [P, G, T]."""

    def piece(args: tuple[Array, Array, Array]) -> jax.Array:
        return group_values(params, config, *args, dtype=dtype)

    with activations_on(mesh):
        return _by_groups(piece, (prompt_tokens, prompt_mask, tokens), micro_groups)


def _by_groups(piece, arrays: tuple[Array, ...], micro_groups: int) -> jax.Array:
    split = tuple(x.reshape(-1, micro_groups, *x.shape[1:]) for x in arrays)
    out = jax.lax.map(piece, split)
    return out.reshape(-1, *out.shape[2:])
