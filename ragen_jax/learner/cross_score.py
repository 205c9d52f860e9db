"""Cross-scoring L[i, k, j] = log p(z_ik | x_j), exactly, without running any context twice.

Each context is run once, and what all of them begin with (the system prompt) once for all. The reasonings are packed
into rows and read every context's keys and values. What two reasonings of a row begin with alike is run once, so equal
reasonings cost no more than one. Logits become one number per token at once. Cost: C * Lx + C * (tokens of all
reasonings) at most, instead of C * C * G * (Lx + Lz) tokens for padded pairs. With S sampled columns a prompt, C * Lx +
S * (tokens of all reasonings).
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
from ragen_jax.models.transformer import continuation_pass, prompt_pass, reads
from ragen_jax.types import CrossScores, Params, ReasoningPairs

WIDTH = 64  # least tokens of a packed row; narrow rows are hard to fill
PIECES = 32  # of the rows that could be needed, so that rounding up to whole pieces costs little
CONTEXTS = 4  # at once at most; more would run more of those that are there twice
BEGINNING = 16  # the common beginning is a multiple of this, so that few programs serve all batches


@dataclasses.dataclass(frozen=True)
class PackedReasonings:
    """Reasonings as trees of tokens: what two of them begin with alike stands, and is run, once.

    A row holds trees in depth-first order.

    Attributes:
      tokens: [R, W] int32.
      parents: [R, W] int32, place of the token before; -1 at the first one of a reasoning.
      ends: [R, W] int32, place of the last token that follows from this one; -1 on padding.
      offsets: [R, W] int32, position of a token within its reasonings.
      last_row: [M] int32, row of a reasoning's last token; R for an empty reasoning.
      last_place: [M] int32, and its place there.
      used: rows in use (the rest is padding).
    """

    tokens: np.ndarray
    parents: np.ndarray
    ends: np.ndarray
    offsets: np.ndarray
    last_row: np.ndarray
    last_place: np.ndarray
    used: int


@dataclasses.dataclass
class _OpenRow:
    """A row that is being filled: its slots in use, and the places of the reasoning that came last."""

    used: int
    path: list[int]
    alike: int  # first tokens that the last reasoning shares with the one that is to be placed


def pack(tokens: np.ndarray, mask: np.ndarray, *, width: int, max_rows: int) -> PackedReasonings:
    """Pack [M, Lz] reasonings into at most ``max_rows`` rows of ``width`` tokens.

    They are taken in the order of their tokens. Each goes to the row where most of it stands already, among those with
    room for the rest.

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
    packed = PackedReasonings(
        tokens=np.zeros((max_rows, width), np.int32),
        parents=np.full((max_rows, width), -1, np.int32),
        ends=np.full((max_rows, width), -1, np.int32),
        offsets=np.zeros((max_rows, width), np.int32),
        last_row=np.full(len(tokens), max_rows, np.int32),
        last_place=np.zeros(len(tokens), np.int32),
        used=0,
    )
    words = {index: tokens[index, :length].tolist() for index, length in enumerate(lengths) if length}
    rows: list[_OpenRow] = []
    before: list[int] = []
    for index in sorted(words, key=words.__getitem__):
        word = words[index]
        common = _common_prefix(before, word)
        for row in rows:
            row.alike = min(row.alike, common)
        fitting = [number for number, row in enumerate(rows) if row.used + len(word) - row.alike <= width]
        chosen = max(fitting, key=lambda number: rows[number].alike, default=len(rows))
        if chosen == len(rows):
            if chosen == max_rows:
                raise ValueError(f"max_rows={max_rows} packed rows do not suffice for {int(lengths.sum())} tokens")
            rows.append(_OpenRow(used=0, path=[], alike=0))
        _append(packed, chosen, rows[chosen], word)
        packed.last_row[index], packed.last_place[index] = chosen, rows[chosen].path[-1]
        before = word
    return dataclasses.replace(packed, used=len(rows))


def _common_prefix(first: list[int], second: list[int]) -> int:
    differing = (n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    return next(differing, min(len(first), len(second)))


def _append(packed: PackedReasonings, number: int, row: _OpenRow, word: list[int]) -> None:
    """Add to a row what it lacks of a reasoning."""
    new = range(row.used, row.used + len(word) - row.alike)
    path = [*row.path[: row.alike], *new]
    packed.tokens[number, new] = word[row.alike :]
    packed.parents[number, new] = [-1, *path][row.alike : len(word)]
    packed.offsets[number, new] = range(row.alike, len(word))
    row.used, row.path, row.alike = row.used + len(new), path, len(word)
    packed.ends[number, path] = row.used - 1


def pack_by_prompt(tokens: np.ndarray, mask: np.ndarray, *, width: int) -> tuple[PackedReasonings, list[range]]:
    """Pack [C, G, Lz] reasonings so that no row holds those of two prompts.

    Returns:
      C * G rows, and the rows of each prompt.
    """
    columns, group, _ = tokens.shape
    parts = [pack(tokens[i], mask[i], width=width, max_rows=group) for i in range(columns)]
    ends = np.cumsum([part.used for part in parts]).tolist()
    starts = [0, *ends[:-1]]
    empty = pack(tokens[0], np.zeros_like(mask[0]), width=width, max_rows=columns * group - ends[-1])

    def joined(name: str) -> np.ndarray:
        return np.concatenate([*(getattr(part, name)[: part.used] for part in parts), getattr(empty, name)])

    last_rows = [
        np.where(part.last_row < group, part.last_row + start, columns * group)
        for part, start in zip(parts, starts, strict=True)
    ]
    packed = PackedReasonings(
        tokens=joined("tokens"),
        parents=joined("parents"),
        ends=joined("ends"),
        offsets=joined("offsets"),
        last_row=np.concatenate(last_rows).astype(np.int32),
        last_place=np.concatenate([part.last_place for part in parts]),
        used=ends[-1],
    )
    return packed, [range(start, end) for start, end in zip(starts, ends, strict=True)]


@dataclasses.dataclass(frozen=True)
class Pieces:
    """What runs at once.

    Attributes:
      width: tokens of a packed row.
      rows: packed rows under each context.
      contexts: contexts.
    """

    width: int
    rows: int
    contexts: int


def pieces(*, contexts: int, reasonings: int, longest: int, chunk: int) -> Pieces:
    """Shape of the pieces: at most the tokens of ``chunk`` longest reasonings, or one row where that is more.

    Args:
      contexts: C.
      reasonings: M.
      longest: Lz, tokens.
      chunk: reasonings whose tokens may be alive at once; bounds memory.
    """
    width = max(longest, WIDTH)
    most = -(-reasonings * longest // width)  # rows in use, about, when nothing is shared
    alive = max(chunk * longest // width, 1)
    rows = min(alive, -(-most // PIECES))
    return Pieces(width=width, rows=rows, contexts=min(contexts, CONTEXTS, alive // rows))


def split_beginning(tokens: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Take off what all contexts begin with.

    Args:
      tokens: [C, Lx] int32, left padded.
      mask: [C, Lx] bool.

    Returns:
      The n tokens that all begin with, [1, n] (a multiple of ``BEGINNING``; every context keeps at least one token);
      and the contexts behind them, [C, Lx - n] tokens and mask, left padded. n is 0 for a single context.
    """
    lengths = mask.sum(1)
    starts = [row[keep].tolist() for row, keep in zip(tokens, mask, strict=True)]
    common = min((_common_prefix(starts[0], other) for other in starts[1:]), default=0)
    count = min(common, lengths.min() - 1) // BEGINNING * BEGINNING
    width = tokens.shape[1]
    kept = np.arange(count, width) >= (width - lengths + count)[:, None]
    return np.array([starts[0][:count]], np.int32), np.where(kept, tokens[:, count:], 0), kept


@functools.partial(jax.jit, static_argnums=(1, 2, 11, 12))
def _score_columns(
    params: Params,
    config: ModelConfig,
    settings: ScoreConfig,
    beginning: Array,
    context_tokens: Array,
    context_mask: Array,
    columns: Array,
    packed: tuple[Array, Array, Array, Array],
    last: tuple[Array, Array],
    row_ids: Array,
    row_counts: Array,
    contexts_at_once: int,
    rows_at_once: int,
) -> Array:
    """Log-probs [C, M] of M packed reasonings under the first ``columns`` of C contexts.

    Context j reads the packed rows ``row_ids[j, : row_counts[j]]``; pairs that it does not read stay 0. C is a multiple
    of the contexts at once, and the rows that a context may read one of the rows at once.
    """
    run = functools.partial(prompt_pass, params, config, dtype=settings.dtype)
    first = run(beginning, jnp.ones_like(beginning, bool)) if beginning.shape[1] else None
    contexts = run(context_tokens, context_mask, beginning=first)
    own = jnp.arange(contexts_at_once)[:, None]

    def block(index: Array, out: Array) -> Array:
        begin = index * contexts_at_once

        def some(x: Array | np.ndarray, axis: int = 0) -> Array:
            return jax.lax.dynamic_slice_in_dim(x, begin, contexts_at_once, axis=axis)

        context = PromptCache(
            keys=some(contexts.keys, axis=1),
            values=some(contexts.values, axis=1),
            mask=some(contexts.mask),
            lengths=some(contexts.lengths),
            last_hidden=some(contexts.last_hidden),
        )

        def piece(piece_index: Array, sums: Array) -> Array:
            rows = jax.lax.dynamic_slice_in_dim(some(row_ids), piece_index * rows_at_once, rows_at_once, axis=1)
            tokens, parents, ends, offsets = (x[rows] for x in packed)  # [contexts, rows, W] each
            hidden = continuation_pass(params, config, context, tokens, ends=ends, offsets=offsets)
            before = jnp.take_along_axis(hidden, jnp.maximum(parents, 0)[..., None], axis=2)
            start = context.last_hidden[:, None, None].astype(hidden.dtype)
            log_probs, _ = token_log_probs(
                params,
                config,
                jnp.where((parents < 0)[..., None], start, before),
                tokens,
                vocab_size=settings.vocab_size,
                temperature=settings.temperature,
            )
            # The tokens from the first of a reasoning to this one are just those that this one reads.
            path = reads(ends.reshape(-1, ends.shape[-1])).reshape(*ends.shape, -1)
            return sums.at[own, rows].set(jnp.where(path, log_probs[..., None, :], 0.0).sum(-1))

        count = (some(row_counts).max() + rows_at_once - 1) // rows_at_once
        sums = jax.lax.fori_loop(0, count, piece, jnp.zeros((contexts_at_once, *packed[0].shape), jnp.float32))
        return jax.lax.dynamic_update_slice_in_dim(out, sums[:, *last], begin, axis=0)

    blank = jnp.zeros((context_tokens.shape[0], last[0].shape[0]), jnp.float32)
    return jax.lax.fori_loop(0, (columns + contexts_at_once - 1) // contexts_at_once, block, blank)


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
      chunk: reasonings whose tokens may be alive at once; bounds memory.
      columns: [C, S] int32, the contexts for the reasonings of each prompt, its own first; None for all. All rollouts
        of a prompt share them, so that a context runs the packed rows of the prompts that drew it and no others: the
        work falls to S / C.

    Returns:
      CrossScores with NumPy leaves: log_probs [C, G, C] in nats per sequence, [C, G, S] with ``columns``; rows without
      reasoning are not valid.

    Raises:
      ValueError: the own column does not stand first, or a prompt has a column twice.
    """
    contexts, group, longest = pairs.reasoning_tokens.shape
    count = contexts * group
    tokens, mask = np.asarray(pairs.reasoning_tokens), np.asarray(pairs.reasoning_mask)
    _, first, inverse = np.unique(np.asarray(pairs.column_class), return_index=True, return_inverse=True)
    distinct = len(first)
    shape = pieces(contexts=contexts, reasonings=count, longest=longest, chunk=chunk)
    rows_at_once = shape.rows
    if columns is None:
        flat = (count, longest)
        packed = pack(tokens.reshape(flat), mask.reshape(flat), width=shape.width, max_rows=count)
        readers = [list(range(packed.used))] * distinct
    else:
        _check_columns(columns, contexts)
        rows_at_once = -(-rows_at_once * columns.shape[1] // contexts)
        packed, rows_of = pack_by_prompt(tokens, mask, width=shape.width)
        wanted = [np.flatnonzero((inverse[columns] == column).any(axis=1)) for column in range(distinct)]
        readers = [[row for i in prompts for row in rows_of[i]] for prompts in wanted]
    padded = _multiple(contexts, shape.contexts)
    row_ids = np.full((padded, _multiple(count, rows_at_once)), count, np.int32)  # the row behind the last is padding
    for column, rows in enumerate(readers):
        row_ids[column, : len(rows)] = rows
    order = np.concatenate([first, np.zeros(padded - distinct, first.dtype)])  # distinct contexts in front
    inputs = (
        *split_beginning(np.asarray(pairs.prompt_tokens)[order], np.asarray(pairs.prompt_mask)[order]),
        np.int32(distinct),
        (
            np.pad(packed.tokens, ((0, 1), (0, 0))),
            np.pad(packed.parents, ((0, 1), (0, 0)), constant_values=-1),
            np.pad(packed.ends, ((0, 1), (0, 0)), constant_values=-1),
            np.pad(packed.offsets, ((0, 1), (0, 0))),
        ),
        (packed.last_row, packed.last_place),
        row_ids,
        np.array([len(rows) for rows in readers] + [0] * (padded - distinct), np.int32),
    )
    inputs = jax.device_put(inputs, replicated(mesh))
    scores = _score_columns(params, config, settings, *inputs, shape.contexts, rows_at_once)
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


def _multiple(number: int, of: int) -> int:
    return -(-number // of) * of


def _check_columns(columns: np.ndarray, contexts: int) -> None:
    if columns.ndim != 2 or len(columns) != contexts or columns.min() < 0 or columns.max() >= contexts:
        raise ValueError(f"columns of shape {columns.shape} do not name {contexts} contexts, one row for each prompt")
    if (columns[:, 0] != np.arange(contexts)).any():
        raise ValueError("the own column must stand first: columns[i, 0] == i")
    ordered = np.sort(columns, axis=1)
    if (ordered[:, 1:] == ordered[:, :-1]).any():
        raise ValueError("a prompt has one column twice; draw the others without replacement")
