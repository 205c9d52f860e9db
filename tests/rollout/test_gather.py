"""Groups of several batches as one: every array keeps its rows, whatever the padding was."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ragen_jax.rollout.assemble import Row, assemble
from ragen_jax.rollout.episodes import Episode, Rollout, RolloutInfo
from ragen_jax.rollout.gather import gather_groups

PAD = 9


def episode(seed: int, member: int) -> Episode:
    return Episode(
        env="bandit",
        seed=seed,
        member=member,
        prompt="",
        turns=(),
        success=False,
        terminated=True,
        truncated=False,
        penalty=0.0,
        metrics={},
        error=None,
    )


def rollout(prompts: list[list[int]], lengths: list[int], *, offset: int, version: int = 4) -> Rollout:
    """Two rows a prompt; token t of row b is ``offset + 10 * b + t``, an observation stands at slot 1."""
    rows = []
    for number, length in enumerate(lengths):
        row = Row(penalty=-0.1 * number)
        for slot in range(length):
            token = [offset + 10 * number + slot]
            if slot == 1:
                row.add_observation(token)
            else:
                row.add_response(token, [-0.5 * slot], turn=min(slot, 2))
        row.add_reward(float(offset + number))
        rows.append(row)
    batch = assemble(
        prompts,
        rows,
        valid=np.arange(len(rows)) != 1,
        pad_id=PAD,
        prompt_bucket=2,
        length_bucket=2,
        policy_version=version,
    )
    episodes = tuple(episode(offset + number // 2, number % 2) for number in range(len(rows)))
    return Rollout(batch=batch, info=RolloutInfo(episodes=episodes, group_size=2))


SHORT = rollout([[1, 2], [3]], [3, 1, 2, 3], offset=100)
LONG = rollout([[5, 6, 7], [1, 2]], [6, 5, 1, 4], offset=200)
PROMPT_FIELDS = ("prompt_tokens", "prompt_mask")
ROW_FIELDS = (
    "tokens",
    "attention_mask",
    "response_mask",
    "turn_ids",
    "token_rewards",
    "returns",
    "penalties",
    "behaviour_log_probs",
    "valid",
)


def test_rows_prompts_and_records_are_those_of_their_groups():
    assert SHORT.batch.tokens.shape[1] < LONG.batch.tokens.shape[1]
    chosen = [(1, 1), (0, 0), (0, 1)]
    gathered = gather_groups([SHORT, LONG], chosen, pad_id=PAD)
    assert gathered.batch.prompt_tokens.shape == (3, 4) and gathered.batch.tokens.shape == (6, 6)
    for place, (number, group) in enumerate(chosen):
        source = (SHORT, LONG)[number].batch
        for name in PROMPT_FIELDS:
            wanted, got = getattr(source, name)[group], getattr(gathered.batch, name)[place]
            assert got[-len(wanted) :].tolist() == wanted.tolist()
            assert set(got[: -len(wanted)].tolist()) <= {PAD if name == "prompt_tokens" else False}
        for name in ROW_FIELDS:
            wanted = getattr(source, name)[2 * group : 2 * group + 2]
            got = getattr(gathered.batch, name)[2 * place : 2 * place + 2]
            width = wanted.shape[1] if wanted.ndim > 1 else None
            assert got.dtype == wanted.dtype, name
            assert got[:, :width].tolist() == wanted.tolist() if width else got.tolist() == wanted.tolist(), name
    assert (gathered.batch.tokens[~gathered.batch.attention_mask] == PAD).all()
    assert (gathered.batch.turn_ids[~gathered.batch.response_mask] == -1).all()
    assert [(e.seed, e.member) for e in gathered.info.episodes] == [
        (201, 0),
        (201, 1),
        (100, 0),
        (100, 1),
        (101, 0),
        (101, 1),
    ]
    assert int(gathered.batch.policy_version) == 4 and gathered.info.group_size == 2


def test_equal_prompts_of_different_batches_share_their_class():
    gathered = gather_groups([SHORT, LONG], [(0, 0), (0, 1), (1, 1)], pad_id=PAD)
    assert gathered.batch.prompt_class.tolist() == [0, 1, 0]


def test_all_groups_of_one_batch_are_that_batch():
    same = gather_groups([LONG], [(0, 0), (0, 1)], pad_id=PAD)
    for field in dataclasses.fields(same.batch):
        np.testing.assert_array_equal(getattr(same.batch, field.name), getattr(LONG.batch, field.name))


def test_what_does_not_belong_together_is_refused():
    with pytest.raises(ValueError, match="no group"):
        gather_groups([SHORT], [], pad_id=PAD)
    other = rollout([[1]], [2, 2], offset=1, version=5)
    with pytest.raises(ValueError, match="policy version"):
        gather_groups([SHORT, other], [(0, 0), (1, 0)], pad_id=PAD)
