"""Groups of several batches become one batch, when a step samples until enough of its prompts are kept."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ragen_jax.rollout.assemble import classes, widen
from ragen_jax.rollout.episodes import Rollout, RolloutInfo
from ragen_jax.types import RolloutBatch


def gather_groups(rollouts: Sequence[Rollout], chosen: Sequence[tuple[int, int]], *, pad_id: int) -> Rollout:
    """The chosen groups as one batch, in the order given.

    Batches may be padded to different lengths: prompts grow on the left and rows on the right to the largest.

    Args:
      rollouts: batches of one policy and one group size.
      chosen: (number of the batch, number of the group in it) of each group.
      pad_id: token id of new slots.

    Returns:
      Arrays and records of ``len(chosen)`` groups; equal prompts of different batches share their class.

    Raises:
      ValueError: no group, or batches of different group sizes or policies.
    """
    if not chosen:
        raise ValueError("no group is chosen; a batch needs at least one")
    batches, size = [rollout.batch for rollout in rollouts], rollouts[0].info.group_size
    if len({rollout.info.group_size for rollout in rollouts}) > 1 or len({int(b.policy_version) for b in batches}) > 1:
        raise ValueError("the batches differ in group size or policy version; gather those of one step only")
    prompt_width = max(np.shape(batch.prompt_tokens)[1] for batch in batches)
    width = max(np.shape(batch.tokens)[1] for batch in batches)

    def prompts(name: str, empty: int) -> np.ndarray:
        return np.stack([widen(getattr(batches[n], name)[i], prompt_width, empty=empty, left=True) for n, i in chosen])

    def rows(name: str, empty: int) -> np.ndarray:
        parts = [getattr(batches[n], name)[i * size : (i + 1) * size] for n, i in chosen]
        return np.concatenate([widen(part, width, empty=empty) for part in parts])

    def numbers(name: str) -> np.ndarray:
        return np.concatenate([np.asarray(getattr(batches[n], name))[i * size : (i + 1) * size] for n, i in chosen])

    prompt_tokens, prompt_mask = prompts("prompt_tokens", pad_id), prompts("prompt_mask", 0)
    batch = RolloutBatch(
        prompt_tokens=prompt_tokens,
        prompt_mask=prompt_mask,
        prompt_class=classes([row[mask].tolist() for row, mask in zip(prompt_tokens, prompt_mask, strict=True)]),
        tokens=rows("tokens", pad_id),
        attention_mask=rows("attention_mask", 0),
        response_mask=rows("response_mask", 0),
        turn_ids=rows("turn_ids", -1),
        token_rewards=rows("token_rewards", 0),
        returns=numbers("returns"),
        penalties=numbers("penalties"),
        behaviour_log_probs=rows("behaviour_log_probs", 0),
        policy_version=batches[0].policy_version,
        valid=numbers("valid"),
    )
    episodes = tuple(episode for n, i in chosen for episode in rollouts[n].info.episodes[i * size : (i + 1) * size])
    return Rollout(batch=batch, info=RolloutInfo(episodes=episodes, group_size=size))
