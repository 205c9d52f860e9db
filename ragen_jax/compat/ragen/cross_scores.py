"""Cross log-probs by whole passes of a scorer over [prompt | reasoning], one call a prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

# (input_ids [R, L], attention_mask [R, L]) -> log-probs [R, L] of each token given those before it, nats
Scorer = Callable[[NDArray[np.int64], NDArray[np.int64]], ArrayLike]


class CrossLogProbs(NamedTuple):
    """Scores of S reasonings under N prompts, in nats.

    Attributes:
      mean_log_prob: [S, N] float32, per token.
      sum_log_prob: [S, N] float32, per reasoning.
    """

    mean_log_prob: NDArray[np.float32]
    sum_log_prob: NDArray[np.float32]


def pad_reasonings(
    reasonings: Sequence[Sequence[int]], *, pad_id: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Right-padded ids [S, Lz] and their mask.

    Args:
      reasonings: S sequences of token ids.
      pad_id: stands behind shorter ones.

    Raises:
      ValueError: no reasonings.
    """
    if not reasonings:
        raise ValueError("no reasonings to score; give at least one")
    width = max(len(reasoning) for reasoning in reasonings)
    ids = np.full((len(reasonings), width), pad_id, np.int64)
    mask = np.zeros((len(reasonings), width), np.float32)
    for row, reasoning in enumerate(reasonings):
        ids[row, : len(reasoning)] = reasoning
        mask[row, : len(reasoning)] = 1
    return ids, mask


def cross_log_probs(
    prompts: Sequence[Sequence[int]],
    reasonings: Sequence[Sequence[int]],
    scorer: Scorer,
    *,
    pad_id: int,
    row_multiple: int = 1,
) -> CrossLogProbs:
    """Log-prob of every reasoning under every prompt, with any scorer that knows whole sequences.

    The prompt is run again for every pair; ``learner.cross_score`` runs it once.

    Args:
      prompts: N prompts, unpadded; up to and including the think marker.
      reasonings: S reasonings, without markers.
      scorer: given ids and attention mask [R, Lx + Lz], gives the log-prob of each token.
      pad_id: fills the end of shorter reasonings.
      row_multiple: rows are filled up to a multiple of this with copies of the last one, whose scores are dropped.

    Returns:
      Means and sums over the tokens of each reasoning; the mean of an empty one is 0.

    Raises:
      ValueError: no prompts, no reasonings, a multiple below 1, or scores of another shape than the ids.
    """
    if not prompts or row_multiple < 1:
        raise ValueError(f"{len(prompts)} prompts and row_multiple={row_multiple}: both must be at least 1")
    ids, mask = pad_reasonings(reasonings, pad_id=pad_id)
    count = len(ids)
    rows = np.minimum(np.arange(-(-count // row_multiple) * row_multiple), count - 1)
    sums = np.zeros((count, len(prompts)), np.float32)
    for column, prompt in enumerate(prompts):
        shape = (len(rows), len(prompt))
        tokens = np.concatenate([np.broadcast_to(np.asarray(prompt, np.int64), shape), ids[rows]], axis=1)
        attended = np.concatenate([np.ones(shape, np.int64), mask[rows].astype(np.int64)], axis=1)
        log_probs = np.asarray(scorer(tokens, attended), np.float32)
        if log_probs.shape != tokens.shape:
            raise ValueError(
                f"the scorer gave {log_probs.shape} for ids of shape {tokens.shape}; give one score a token"
            )
        sums[:, column] = np.where(mask > 0, log_probs[:count, len(prompt) :], 0.0).sum(axis=1)
    return CrossLogProbs(mean_log_prob=sums / np.maximum(mask.sum(axis=1), 1.0)[:, None], sum_log_prob=sums)
