"""Cross-scoring L[i, k, j] = log p(z_ik | x_j), exactly, without running any context twice.

Each context is run once; the reasonings are packed into short rows and read every context's keys and values. Logits
become one number per token at once. Cost: C * Lx + C * (tokens of all reasonings) instead of
C * C * G * (Lx + Lz) tokens for padded pairs. With S sampled columns a prompt, C * Lx + S * (tokens of all reasonings).
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
      rows: rows in use (the rest is padding).
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


def pack_by_prompt(tokens: np.ndarray, mask: np.ndarray) -> tuple[PackedReasonings, list[range]]:
    """Pack [C, G, Lz] reasonings so that no row holds those of two prompts.

    Returns:
      C * G rows of width Lz, and the rows of each prompt.
    """
    columns, group, width = tokens.shape
    parts = [pack(tokens[i], mask[i], width=width, max_rows=group) for i in range(columns)]
    ends = np.cumsum([part.rows for part in parts]).tolist()
    kept = [
        dataclasses.replace(part, owners=np.where(part.segments >= 0, part.owners + i * group, columns * group))
        for i, part in enumerate(parts)
    ]
    empty = pack(tokens[0], np.zeros_like(mask[0]), width=width, max_rows=columns * group - ends[-1])
    empty = dataclasses.replace(empty, owners=np.full_like(empty.owners, columns * group))

    def joined(name: str) -> np.ndarray:
        return np.concatenate([*(getattr(part, name)[: part.rows] for part in kept), getattr(empty, name)])

    packed = PackedReasonings(
        tokens=joined("tokens"),
        segments=joined("segments"),
        offsets=joined("offsets"),
        owners=joined("owners"),
        rows=ends[-1],
    )
    return packed, [range(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True)]


@functools.partial(jax.jit, static_argnums=(1, 2, 9, 10))
def _score_columns(
    params: Params,
    config: ModelConfig,
    settings: ScoreConfig,
    context_tokens: Array,
    context_mask: Array,
    columns: Array,
    packed: tuple[Array, Array, Array, Array],
    row_ids: Array,
    row_counts: Array,
    reasonings: int,
    chunk: int,
) -> Array:
    """Log-probs [C, M] of M packed reasonings under the first ``columns`` of C contexts, ``chunk`` rows at a time.

    Context j reads the packed rows ``row_ids[j, : row_counts[j]]``; pairs that it does not read stay 0.
    """
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
            rows = jax.lax.dynamic_slice_in_dim(row_ids[index], piece_index * chunk, chunk)
            tokens, segments, offsets, owners = (x[rows] for x in packed)
            hidden = continuation_pass(
                params, config, context, tokens[None], segments=segments[None], offsets=offsets[None]
            )[0]
            shifted = jnp.pad(hidden[:, :-1], ((0, 0), (1, 0), (0, 0)))
            states = jnp.where((offsets == 0)[..., None], context.last_hidden[0].astype(hidden.dtype), shifted)
            log_probs, _ = token_log_probs(
                params, config, states, tokens, vocab_size=settings.vocab_size, temperature=settings.temperature
            )
            return sums.at[owners.reshape(-1)].add(jnp.where(segments >= 0, log_probs, 0.0).reshape(-1))

        pieces = (row_counts[index] + chunk - 1) // chunk
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
    columns: np.ndarray | None = None,
) -> CrossScores:
    """Score every reasoning under every context with the given parameters (current, frozen or any other policy).

    Args:
      params: parameters of the scorer.
      config: static shapes.
      settings: static scoring settings.
      pairs: contexts and reasonings, NumPy, exact sampled tokens.
      mesh: devices.
      chunk: packed rows scored at once; bounds memory.
      columns: [C, S] int32, the contexts for the reasonings of each prompt, its own first; None for all. All rollouts
        of a prompt share them, so that a context runs the packed rows of the prompts that drew it and no others: the
        work falls to S / C.

    Returns:
      CrossScores with NumPy leaves: log_probs [C, G, C] in nats per sequence, [C, G, S] with ``columns``; rows without
      reasoning are not valid.

    Raises:
      ValueError: the own column does not stand first, or a prompt has a column twice.
    """
    contexts, group, width = pairs.reasoning_tokens.shape
    count = contexts * group
    tokens, mask = np.asarray(pairs.reasoning_tokens), np.asarray(pairs.reasoning_mask)
    _, first, inverse = np.unique(np.asarray(pairs.column_class), return_index=True, return_inverse=True)
    distinct = len(first)
    if columns is None:
        chunk = min(chunk, count)
        packed = pack(tokens.reshape(count, width), mask.reshape(count, width), width=width, max_rows=count)
        readers = [list(range(packed.rows))] * distinct
    else:
        _check_columns(columns, contexts)
        chunk = -(-min(chunk, count) * columns.shape[1] // contexts)
        packed, rows_of = pack_by_prompt(tokens, mask)
        wanted = [np.flatnonzero((inverse[columns] == column).any(axis=1)) for column in range(distinct)]
        readers = [[row for i in prompts for row in rows_of[i]] for prompts in wanted]
    row_ids = np.full((contexts, -(-count // chunk) * chunk), count, np.int32)  # the row behind the last is padding
    for column, rows in enumerate(readers):
        row_ids[column, : len(rows)] = rows
    order = np.concatenate([first, np.zeros(contexts - distinct, first.dtype)])  # distinct contexts in front
    inputs = (
        np.asarray(pairs.prompt_tokens)[order],
        np.asarray(pairs.prompt_mask)[order],
        np.int32(distinct),
        (
            np.pad(packed.tokens, ((0, 1), (0, 0))),
            np.pad(packed.segments, ((0, 1), (0, 0)), constant_values=-1),
            np.pad(packed.offsets, ((0, 1), (0, 0))),
            np.pad(packed.owners, ((0, 1), (0, 0)), constant_values=count),
        ),
        row_ids,
        np.array([len(rows) for rows in readers] + [0] * (contexts - distinct), np.int32),
    )
    scores = _score_columns(params, config, settings, *jax.device_put(inputs, replicated(mesh)), count, chunk)
    log_probs = np.asarray(jax.device_get(scores))[inverse].T.reshape(contexts, group, contexts)
    if columns is not None:
        log_probs = np.take_along_axis(log_probs, columns[:, None, :], axis=2)
    lengths = mask.sum(2).astype(np.int32)
    return CrossScores(
        log_probs=log_probs,
        lengths=lengths,
        valid=lengths > 0,
        column_class=np.asarray(pairs.column_class),
        columns=columns,
    )


def _check_columns(columns: np.ndarray, contexts: int) -> None:
    if columns.ndim != 2 or len(columns) != contexts or columns.min() < 0 or columns.max() >= contexts:
        raise ValueError(f"columns of shape {columns.shape} do not name {contexts} contexts, one row for each prompt")
    if (columns[:, 0] != np.arange(contexts)).any():
        raise ValueError("the own column must stand first: columns[i, 0] == i")
    ordered = np.sort(columns, axis=1)
    if (ordered[:, 1:] == ordered[:, :-1]).any():
        raise ValueError("a prompt has one column twice; draw the others without replacement")
