"""Cross-scoring L[i, k, j] = log p(z_ik | x_j), exactly, without running any context twice.

Each context is run once, and what all of them begin with (the system prompt) once for all. The reasonings are packed
into rows and read every context's keys and values. What two reasonings of a row begin with alike is run once, so equal
reasonings cost no more than one. Logits become one number per token at once. Cost: C * Lx + C * (tokens of all
reasonings) at most, instead of C * C * G * (Lx + Lz) tokens for padded pairs. With S sampled columns a prompt, C * Lx +
S * (tokens of all reasonings). The devices of a mesh share the contexts, then the packed rows.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh

from ragen_jax.learner.packing import common_prefix, pack
from ragen_jax.learner.score import ScoreConfig
from ragen_jax.models.cache import PROMPT_AXES, PromptCache
from ragen_jax.models.config import ModelConfig
from ragen_jax.models.head import token_log_probs
from ragen_jax.models.sharding import activations_on, join_rows, replicated, row_shards, split_rows
from ragen_jax.models.transformer import continuation_pass, prompt_pass, reads
from ragen_jax.types import CrossScores, Params, ReasoningPairs

WIDTH = 64  # least tokens of a packed row; narrow rows are hard to fill
PIECES = 32  # of the rows that could be needed, so that rounding up to whole pieces costs little
ITEMS, SAMPLED_ITEMS = 4, 8  # at once at most; of one row each where columns are sampled
BEGINNING = 16  # the common beginning is a multiple of this, so that few programs serve all batches


@dataclasses.dataclass(frozen=True)
class Pieces:
    """What runs at once.

    Attributes:
      width: tokens of a packed row.
      rows: packed rows that one item of work holds, all under one context.
      items: items of work.
    """

    width: int
    rows: int
    items: int


def pieces(*, reasonings: int, longest: int, chunk: int, sampled: bool = False) -> Pieces:
    """Shape of the pieces: at most the tokens of ``chunk`` longest reasonings, or one row where that is more.

    Args:
      reasonings: M.
      longest: Lz, tokens.
      chunk: reasonings whose tokens may be alive at once; bounds memory.
      sampled: columns are; then a row holds reasonings of one prompt, and contexts have few rows in common.
    """
    width = longest if sampled else max(longest, WIDTH)
    most = -(-reasonings * longest // width)  # rows in use, about, when nothing is shared
    alive = max(chunk * longest // width, 1)
    rows = 1 if sampled else min(alive, -(-most // PIECES))
    return Pieces(width=width, rows=rows, items=min(SAMPLED_ITEMS if sampled else ITEMS, alive // rows))


def contexts_together(contexts: int, *, length: int, longest: int, chunk: int) -> int:
    """Contexts of ``length`` tokens that run at once: no more tokens than ``chunk`` longest reasonings, or one."""
    return min(contexts, max(chunk * longest // length, 1))


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
    common = min((common_prefix(starts[0], other) for other in starts[1:]), default=0)
    count = min(common, lengths.min() - 1) // BEGINNING * BEGINNING
    width = tokens.shape[1]
    kept = np.arange(count, width) >= (width - lengths + count)[:, None]
    return np.array([starts[0][:count]], np.int32), np.where(kept, tokens[:, count:], 0), kept


@dataclasses.dataclass(frozen=True)
class Work:
    """What a batch of pairs asks of the program: items of a context and the packed rows that are run under it.

    Attributes:
      arrays: the array arguments of ``_score_items``, in its order.
      at_once: items that run together, on all devices.
      contexts_at_once: contexts that run together, on all devices.
      same: [M] int32, the reasoning whose score is also that of m; -1 for an empty one.
      context: [C], the place of column j among the distinct contexts.
    """

    arrays: tuple[Any, ...]
    at_once: int
    contexts_at_once: int
    same: np.ndarray
    context: np.ndarray


def plan_work(pairs: ReasoningPairs, *, chunk: int, columns: np.ndarray | None = None, shards: int = 1) -> Work:
    """Pack the reasonings and list what is to be run.

    Args:
      pairs: contexts and reasonings.
      chunk: reasonings whose tokens may be alive at once, on each device.
      columns: [C, S] int32, the contexts for the reasonings of each prompt; None for all.
      shards: parts that the items are split into, one for each device of the data and fsdp axes.
    """
    contexts, group, longest = pairs.reasoning_tokens.shape
    count, prompts = contexts * group, np.arange(contexts)
    _, first, inverse = np.unique(np.asarray(pairs.column_class), return_index=True, return_inverse=True)
    piece = pieces(reasonings=count, longest=longest, chunk=chunk, sampled=columns is not None)
    packed = pack(
        np.asarray(pairs.reasoning_tokens).reshape(count, longest),
        np.asarray(pairs.reasoning_mask).reshape(count, longest),
        width=piece.width,
        max_rows=count,
        owners=None if columns is None else np.repeat(prompts, group),
    )
    reads_prompt = np.full((len(first), contexts), columns is None)
    if columns is not None:
        reads_prompt[inverse[columns], prompts[:, None]] = True
    item_contexts: list[int] = []
    item_rows: list[np.ndarray] = []
    for context, read in enumerate(reads_prompt):
        rows = np.flatnonzero(read[packed.owners[: packed.used]])
        item_rows += [rows[begin : begin + piece.rows] for begin in range(0, len(rows), piece.rows)]
        item_contexts += [context] * (len(item_rows) - len(item_contexts))
    at_once = piece.items * shards
    most = _multiple(contexts * -(-count // piece.rows), at_once)
    listed = np.full((most, piece.rows), count, np.int32)  # the row behind the last is padding
    for item, rows in enumerate(item_rows):
        listed[item, : len(rows)] = rows
    length = pairs.prompt_tokens.shape[1]
    contexts_at_once = shards * contexts_together(-(-contexts // shards), length=length, longest=longest, chunk=chunk)
    order = np.zeros(_multiple(contexts, contexts_at_once), np.int64)  # distinct contexts in front
    order[: len(first)] = first
    arrays = (
        *split_beginning(np.asarray(pairs.prompt_tokens)[order], np.asarray(pairs.prompt_mask)[order]),
        tuple(
            np.pad(rows, ((0, 1), (0, 0)), constant_values=padding)
            for rows, padding in (
                (packed.tokens, 0),
                (packed.parents, -1),
                (packed.ends, -1),
                (packed.offsets, 0),
                (packed.closes, -1),
            )
        ),
        np.pad(np.array(item_contexts, np.int32), (0, most - len(item_contexts))),
        listed,
        np.int32(len(item_contexts)),
    )
    return Work(arrays=arrays, at_once=at_once, contexts_at_once=contexts_at_once, same=packed.same, context=inverse)


@functools.partial(jax.jit, static_argnums=(1, 2, 10, 11), static_argnames=("mesh",))
def _score_items(
    params: Params,
    config: ModelConfig,
    settings: ScoreConfig,
    beginning: Array,
    context_tokens: Array,
    context_mask: Array,
    packed: tuple[Array, Array, Array, Array, Array],
    item_contexts: Array,
    item_rows: Array,
    count: Array,
    at_once: int,
    contexts_at_once: int,
    *,
    mesh: Mesh,
) -> Array:
    """Log-probs [C, M] of packed reasonings under C contexts; pairs that no item holds stay 0.

    Item n of ``count`` runs the packed rows ``item_rows[n]`` under context ``item_contexts[n]``, ``at_once`` items
    together and split over the devices; contexts are as well, and every device then gets the keys and values of all.
    """
    run = functools.partial(prompt_pass, params, config, dtype=settings.dtype)
    first = run(beginning, jnp.ones_like(beginning, bool)) if beginning.shape[1] else None

    def shared(tokens: Array, mask: Array) -> PromptCache:
        part = run(*(split_rows(x, mesh, axis=0) for x in (tokens, mask)), beginning=first)
        return PromptCache(
            **{name: join_rows(getattr(part, name), mesh, axis=axis) for name, axis in PROMPT_AXES.items()}
        )

    with activations_on(mesh):
        contexts = _run_contexts(shared, context_tokens, context_mask, at_once=contexts_at_once)
    reasonings = packed[0].shape[0] - 1

    def piece(index: Array, out: Array) -> Array:
        of_items = functools.partial(
            jax.lax.dynamic_slice_in_dim, start_index=index * at_once, slice_size=at_once, axis=0
        )
        chosen = of_items(item_contexts)
        rows = of_items(item_rows)
        # [items, rows, W] each
        tokens, parents, ends, offsets, closes = (split_rows(jnp.asarray(x)[rows], mesh, axis=0) for x in packed)
        context = PromptCache(
            **{
                name: split_rows(jnp.take(getattr(contexts, name), chosen, axis=axis, mode="clip"), mesh, axis=axis)
                for name, axis in PROMPT_AXES.items()
            }
        )
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
        sums = jnp.where(path, log_probs[..., None, :], 0.0).sum(-1)
        target = jnp.where(closes < 0, reasonings, closes)  # out of range: dropped
        return out.at[chosen[:, None, None], target].set(sums, mode="drop")

    blank = jnp.zeros((context_tokens.shape[0], reasonings), jnp.float32)
    with activations_on(mesh):
        return jax.lax.fori_loop(0, (count + at_once - 1) // at_once, piece, blank)


def _run_contexts(
    run: Callable[[Array, Array], PromptCache], tokens: Array, mask: Array, *, at_once: int
) -> PromptCache:
    """Keys and values of all contexts, of which ``at_once`` run together; their number is a multiple of it."""
    if at_once == len(tokens):
        return run(tokens, mask)

    def some(index: Array, cache: PromptCache) -> PromptCache:
        begin = index * at_once
        new = run(*(jax.lax.dynamic_slice_in_dim(x, begin, at_once) for x in (tokens, mask)))
        stored = {
            name: jax.lax.dynamic_update_slice_in_dim(getattr(cache, name), getattr(new, name), begin, axis=axis)
            for name, axis in PROMPT_AXES.items()
        }
        return PromptCache(**stored)

    part = jax.eval_shape(run, tokens[:at_once], mask[:at_once])
    empty = PromptCache(
        **{
            name: jnp.zeros((*leaf.shape[:axis], len(tokens), *leaf.shape[axis + 1 :]), leaf.dtype)
            for name, axis in PROMPT_AXES.items()
            for leaf in [getattr(part, name)]
        }
    )
    return jax.lax.fori_loop(0, len(tokens) // at_once, some, empty)


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
      chunk: reasonings whose tokens may be alive at once on a device; bounds memory.
      columns: [C, S] int32, the contexts for the reasonings of each prompt, its own first; None for all. All rollouts
        of a prompt share them, so that a context runs the packed rows of the prompts that drew it and no others: the
        work falls to S / C.

    Returns:
      CrossScores with NumPy leaves: log_probs [C, G, C] in nats per sequence, [C, G, S] with ``columns``; rows without
      reasoning are not valid.

    Raises:
      ValueError: the own column does not stand first, or a prompt has a column twice.
    """
    contexts, group, _ = pairs.reasoning_tokens.shape
    if columns is not None:
        _check_columns(columns, contexts)
    work = plan_work(pairs, chunk=chunk, columns=columns, shards=row_shards(mesh))
    arrays = jax.device_put(work.arrays, replicated(mesh))
    scores = _score_items(params, config, settings, *arrays, work.at_once, work.contexts_at_once, mesh=mesh)
    of_reasoning = np.asarray(jax.device_get(scores))[work.context][:, work.same]
    log_probs = np.where(work.same >= 0, of_reasoning, 0.0).T.reshape(contexts, group, contexts)
    if columns is not None:
        log_probs = np.take_along_axis(log_probs, columns[:, None, :], axis=2)
    lengths = np.asarray(pairs.reasoning_mask).sum(2).astype(np.int32)
    return CrossScores(
        log_probs=log_probs.astype(np.float32),
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
