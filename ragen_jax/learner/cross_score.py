"""Cross-scoring L[i, k, j] = log p(z_ik | x_j), exactly, without running any context twice.

Each context is run once; the reasonings are packed into short rows and read every context's keys and values. Logits
become one number per token at once. Cost: C * Lx + C * (tokens of all reasonings) instead of
C * C * G * (Lx + Lz) tokens for padded pairs.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh

from ragen_jax.learner.score import ScoreConfig
from ragen_jax.models.cache import PromptCache
from ragen_jax.models.config import ModelConfig
from ragen_jax.models.head import token_log_probs
from ragen_jax.models.sharding import replicated
from ragen_jax.models.transformer import continuation_pass, prompt_pass
from ragen_jax.types import CrossScores, Params, ReasoningPairs


@dataclasses.dataclass(frozen=True)
class PackedReasonings:
    """Reasonings laid end to end in rows.

    Attributes:
      tokens: [R, W] int32.
      segments: [R, W] int32, which reasoning of the row a token belongs to; -1 on padding.
      offsets: [R, W] int32, position of a token within its reasoning.
      owners: [R, W] int32, index of the reasoning; the number of reasonings on padding.
      rows: rows in use (the rest is padding, never computed).
    """

    tokens: np.ndarray
    segments: np.ndarray
    offsets: np.ndarray
    owners: np.ndarray
    rows: int


def pack(tokens: np.ndarray, mask: np.ndarray, *, width: int, max_rows: int) -> PackedReasonings:
    """First-fit-decreasing packing of [M, Lz] reasonings into at most ``max_rows`` rows of ``width`` tokens.

    Args:
      tokens: [M, Lz] int32, right padded.
      mask: [M, Lz] bool.
      width: tokens of a packed row, at least the longest reasoning.
      max_rows: rows of the result; M always suffices.

    Raises:
      ValueError: a reasoning is longer than ``width``, or the rows do not suffice.
    """
    lengths = mask.sum(1)
    if lengths.max(initial=0) > width:
        raise ValueError(f"a reasoning of {lengths.max()} tokens does not fit into packed rows of width={width}")
    out = np.zeros((max_rows, width), np.int32)
    segments = np.full((max_rows, width), -1, np.int32)
    offsets = np.zeros((max_rows, width), np.int32)
    owners = np.full((max_rows, width), len(tokens), np.int32)
    used: list[int] = []
    counts: list[int] = []
    for index in np.argsort(-lengths, kind="stable"):
        length = int(lengths[index])
        if length == 0:
            break
        row = next((r for r, taken in enumerate(used) if taken + length <= width), len(used))
        if row == len(used):
            if row == max_rows:
                raise ValueError(f"max_rows={max_rows} packed rows do not suffice for {int(lengths.sum())} tokens")
            used.append(0)
            counts.append(0)
        span = slice(used[row], used[row] + length)
        out[row, span] = tokens[index, :length]
        segments[row, span] = counts[row]
        offsets[row, span] = np.arange(length)
        owners[row, span] = index
        used[row] += length
        counts[row] += 1
    return PackedReasonings(tokens=out, segments=segments, offsets=offsets, owners=owners, rows=len(used))


@functools.partial(jax.jit, static_argnums=(1, 2, 8, 9))
def _score_columns(
    params: Params,
    config: ModelConfig,
    settings: ScoreConfig,
    context_tokens: Array,
    context_mask: Array,
    columns: Array,
    packed: tuple[Array, Array, Array, Array],
    rows: Array,
    reasonings: int,
    chunk: int,
) -> Array:
    """Log-probs [C, M] of M packed reasonings under the first ``columns`` of C contexts, ``chunk`` rows at a time."""
    contexts = prompt_pass(params, config, context_tokens, context_mask, dtype=settings.dtype)

    def column(index: Array, out: Array) -> Array:
        context = PromptCache(
            keys=jax.lax.dynamic_slice_in_dim(contexts.keys, index, 1, axis=1),
            values=jax.lax.dynamic_slice_in_dim(contexts.values, index, 1, axis=1),
            mask=contexts.mask[index][None],
            lengths=contexts.lengths[index][None],
            last_hidden=contexts.last_hidden[index][None],
        )

        def piece(piece_index: Array, sums: Array) -> Array:
            tokens, segments, offsets, owners = (
                jax.lax.dynamic_slice_in_dim(x, piece_index * chunk, chunk, axis=0) for x in packed
            )
            hidden = continuation_pass(
                params, config, context, tokens[None], segments=segments[None], offsets=offsets[None]
            )[0]
            shifted = jnp.pad(hidden[:, :-1], ((0, 0), (1, 0), (0, 0)))
            states = jnp.where((offsets == 0)[..., None], context.last_hidden[0].astype(hidden.dtype), shifted)
            log_probs, _ = token_log_probs(
                params, config, states, tokens, vocab_size=settings.vocab_size, temperature=settings.temperature
            )
            return sums.at[owners.reshape(-1)].add(jnp.where(segments >= 0, log_probs, 0.0).reshape(-1))

        pieces = (rows + chunk - 1) // chunk
        sums = jax.lax.fori_loop(0, pieces, piece, jnp.zeros((reasonings + 1,), jnp.float32))
        return out.at[index].set(sums[:reasonings])

    return jax.lax.fori_loop(0, columns, column, jnp.zeros((context_tokens.shape[0], reasonings), jnp.float32))


def cross_score(
    params: Params,
    config: ModelConfig,
    settings: ScoreConfig,
    pairs: ReasoningPairs,
    *,
    mesh: Mesh,
    chunk: int = 64,
) -> CrossScores:
    """Score every reasoning under every context with the given parameters (current, frozen or any other policy).

    Args:
      params: parameters of the scorer.
      config: static shapes.
      settings: static scoring settings.
      pairs: contexts and reasonings, NumPy, exact sampled tokens.
      mesh: devices.
      chunk: packed rows scored at once; bounds memory.

    Returns:
      CrossScores with NumPy leaves: log_probs [C, G, C] in nats per sequence; rows without reasoning are not valid.
    """
    columns, group, width = pairs.reasoning_tokens.shape
    count = columns * group
    chunk = min(chunk, count)
    max_rows = -(-count // chunk) * chunk
    mask = np.asarray(pairs.reasoning_mask).reshape(count, width)
    packed = pack(np.asarray(pairs.reasoning_tokens).reshape(count, width), mask, width=width, max_rows=max_rows)
    _, first, inverse = np.unique(np.asarray(pairs.column_class), return_index=True, return_inverse=True)
    order = np.concatenate([first, np.zeros(columns - len(first), first.dtype)])  # distinct contexts in front
    inputs = (
        np.asarray(pairs.prompt_tokens)[order],
        np.asarray(pairs.prompt_mask)[order],
        np.int32(len(first)),
        (packed.tokens, packed.segments, packed.offsets, packed.owners),
        np.int32(packed.rows),
    )
    scores = _score_columns(params, config, settings, *jax.device_put(inputs, replicated(mesh)), count, chunk)
    lengths = mask.sum(1).astype(np.int32).reshape(columns, group)
    return CrossScores(
        log_probs=np.asarray(jax.device_get(scores))[inverse].T.reshape(columns, group, columns),
        lengths=lengths,
        valid=lengths > 0,
        column_class=np.asarray(pairs.column_class),
    )
