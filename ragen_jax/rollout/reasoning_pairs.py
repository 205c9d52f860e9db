"""(context, reasoning) pairs for cross-scoring, from the exact sampled ids."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from ragen_jax.rollout.assemble import classes, pad_left, pad_right
from ragen_jax.rollout.episodes import RolloutInfo, TurnRecord
from ragen_jax.types import Array, ReasoningPairs, RolloutBatch

Item = TypeVar("Item")


def first_turn_pairs(batch: RolloutBatch, info: RolloutInfo, *, bucket: int) -> ReasoningPairs:
    """First reasonings of all rollouts under the first prompts: C = P columns, G rows each.

    Every rollout with closed reasoning counts, also when its environment failed later.

    Args:
      batch: arrays of the rollout.
      info: records of the same rollout.
      bucket: reasonings are padded to a multiple of this (tokens).

    Returns:
      The pairs; a row without closed reasoning has an all-false mask.
    """
    reasonings = [
        _reasoning(batch, row, episode.turns[0]) if episode.turns else [] for row, episode in enumerate(info.episodes)
    ]
    tokens, mask = pad_right(reasonings, bucket=bucket, pad_id=0)
    shape = (len(batch.prompt_tokens), info.group_size, -1)
    return ReasoningPairs(
        prompt_tokens=np.asarray(batch.prompt_tokens),
        prompt_mask=np.asarray(batch.prompt_mask),
        reasoning_tokens=tokens.reshape(shape),
        reasoning_mask=mask.reshape(shape),
        column_class=np.asarray(batch.prompt_class),
    )


def trajectory_pairs(
    batch: RolloutBatch,
    info: RolloutInfo,
    *,
    draws: int,
    rng: np.random.Generator,
    prompt_bucket: int,
    bucket: int,
) -> ReasoningPairs:
    """Random turns of random trajectories, each under its own context: C = draws columns, G = 1.

    With replacement: a trajectory uniformly among those with closed reasoning, then one of its turns with closed
    reasoning uniformly. The context holds every id that the policy had seen or said when the reasoning began. When
    no trajectory has closed reasoning the contexts are first prompts and nothing is scored.

    Args:
      batch: arrays of the rollout.
      info: records of the same rollout.
      draws: number of pairs.
      rng: source of the draws.
      prompt_bucket: contexts are padded to a multiple of this (tokens).
      bucket: reasonings are padded to a multiple of this (tokens).

    Returns:
      The pairs.

    Raises:
      ValueError: for less than one draw.
    """
    _check_draws(draws)
    scorable = [
        (row, [turn for turn in episode.turns if turn.reasoning is not None])
        for row, episode in enumerate(info.episodes)
    ]
    with_reasoning = [(row, turns) for row, turns in scorable if turns]
    chosen: list[tuple[int, TurnRecord | None]] = []
    for _ in range(draws):
        row, turns = _choose(with_reasoning or scorable, rng)
        chosen.append((row, _choose(turns, rng) if turns else None))
    return _own_columns(batch, info, chosen, prompt_bucket=prompt_bucket, bucket=bucket)


def turn_uniform_pairs(
    batch: RolloutBatch,
    info: RolloutInfo,
    *,
    draws: int,
    rng: np.random.Generator,
    prompt_bucket: int,
    bucket: int,
) -> ReasoningPairs:
    """Random turns with closed reasoning, all equally likely, each under its own context: C columns, G = 1.

    Without replacement, so C is the smaller of ``draws`` and the number of such turns. Long trajectories weigh more
    than in :func:`trajectory_pairs`. When no turn has closed reasoning the result is that of :func:`trajectory_pairs`:
    ``draws`` first prompts, nothing scored.

    Args:
      batch: arrays of the rollout.
      info: records of the same rollout.
      draws: largest number of pairs.
      rng: source of the draws.
      prompt_bucket: contexts are padded to a multiple of this (tokens).
      bucket: reasonings are padded to a multiple of this (tokens).

    Returns:
      The pairs.

    Raises:
      ValueError: for less than one draw.
    """
    _check_draws(draws)
    turns = [
        (row, turn) for row, episode in enumerate(info.episodes) for turn in episode.turns if turn.reasoning is not None
    ]
    if not turns:
        return trajectory_pairs(batch, info, draws=draws, rng=rng, prompt_bucket=prompt_bucket, bucket=bucket)
    chosen = [turns[index] for index in rng.choice(len(turns), min(draws, len(turns)), replace=False)]
    return _own_columns(batch, info, chosen, prompt_bucket=prompt_bucket, bucket=bucket)


def draw_rollouts(pairs: ReasoningPairs, *, sample: int, rng: np.random.Generator) -> ReasoningPairs:
    """Some rollouts of each prompt, drawn uniformly and without replacement, whether they have reasoning or not.

    Args:
      pairs: [C, G, Lz] reasonings.
      sample: rollouts of each prompt.
      rng: source of the draws; prompts draw independently of one another.

    Raises:
      ValueError: a sample outside 1 .. G.
    """
    columns, group, _ = pairs.reasoning_tokens.shape
    if not 1 <= sample <= group:
        raise ValueError(f"sample={sample} of {group} rollouts: use 1 to {group}")
    drawn = np.argsort(rng.random((columns, group)), axis=1)[:, :sample, None]
    return dataclasses.replace(
        pairs,
        reasoning_tokens=np.take_along_axis(np.asarray(pairs.reasoning_tokens), drawn, axis=1),
        reasoning_mask=np.take_along_axis(np.asarray(pairs.reasoning_mask), drawn, axis=1),
    )


def draw_columns(column_class: Array, *, sample: int, rng: np.random.Generator) -> np.ndarray:
    """Columns under which the reasonings of each prompt are scored when not all are.

    What is drawn are the other classes, uniformly and without replacement, each by its first column: a second column
    with the same context would say nothing new. When the other classes are fewer than S - 1, all of them are there and
    further columns fill the row.

    Args:
      column_class: [C], equal for columns with identical context.
      sample: S, contexts for each prompt, its own among them.
      rng: source of the draws; prompts draw independently of one another.

    Returns:
      [C, S] int32: the own column, then S - 1 others.

    Raises:
      ValueError: S outside 2 .. C.
    """
    classes = np.asarray(column_class)
    count = len(classes)
    if not 2 <= sample <= count:
        raise ValueError(f"sample={sample} of {count} columns: use 2 to {count}")
    _, first = np.unique(classes, return_index=True)
    first = np.sort(first)
    rows = []
    for own in range(count):
        others = first[classes[first] != classes[own]]
        drawn = [own, *others[rng.permutation(len(others))][: sample - 1]]
        rows.append(drawn + np.setdiff1d(np.arange(count), drawn)[: sample - len(drawn)].tolist())
    return np.array(rows, np.int32)


def _own_columns(
    batch: RolloutBatch,
    info: RolloutInfo,
    chosen: Sequence[tuple[int, TurnRecord | None]],
    *,
    prompt_bucket: int,
    bucket: int,
) -> ReasoningPairs:
    """Pairs of (row, turn), each its own column; a row without a turn gives its first prompt and no reasoning."""
    contexts: list[list[int]] = []
    reasonings: list[list[int]] = []
    for row, turn in chosen:
        group = row // info.group_size
        prompt = batch.prompt_tokens[group][batch.prompt_mask[group]].tolist()
        contexts.append(prompt if turn is None else prompt + batch.tokens[row, : turn.start].tolist())
        reasonings.append([] if turn is None else _reasoning(batch, row, turn))
    prompt_tokens, prompt_mask = pad_left(contexts, bucket=prompt_bucket, pad_id=0)
    tokens, mask = pad_right(reasonings, bucket=bucket, pad_id=0)
    return ReasoningPairs(
        prompt_tokens=prompt_tokens,
        prompt_mask=prompt_mask,
        reasoning_tokens=tokens[:, None],
        reasoning_mask=mask[:, None],
        column_class=classes(contexts),
    )


def _check_draws(draws: int) -> None:
    if draws < 1:
        raise ValueError(f"draws={draws}: use 1 or more")


def _choose(items: Sequence[Item], rng: np.random.Generator) -> Item:
    return items[int(rng.integers(len(items)))]


def _reasoning(batch: RolloutBatch, row: int, turn: TurnRecord) -> list[int]:
    """Ids of a turn's reasoning; empty when it is not closed."""
    start, stop = turn.reasoning or (0, 0)
    ids: list[int] = batch.tokens[row, start:stop].tolist()
    return ids
