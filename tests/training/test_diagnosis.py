"""What a step measures about its batch: scorer, families, sampled columns, null."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from configs._change import change
from ragen_jax.config import Config
from ragen_jax.core import permutation_null
from ragen_jax.core.estimators import MAY_BE_UNKNOWN
from ragen_jax.rollout.episodes import Rollout
from ragen_jax.rollout.reasoning_pairs import draw_columns, draw_rollouts, first_turn_pairs
from ragen_jax.training.build import Components, build
from ragen_jax.training.diagnosis import diagnose
from ragen_jax.training.measure import measure, null_permutations, score_pairs
from ragen_jax.training.scorer import check_scorer, scorer_fingerprint
from tests.training_fixtures import tiny_config

FIRST = "collapse/first_turn"
EXACT = f"{FIRST}/conditional_entropy_sequence_nats"


@pytest.fixture(scope="module")
def played(bandit_policy: Path) -> Iterator[tuple[Components, Rollout]]:
    parts = build(tiny_config(bandit_policy))
    rollout = parts.training_rollout(parts.sampler(parts.state.params, version=0), 0)
    yield parts, rollout
    parts.close()


def with_collapse(parts: Components, **settings: Any) -> Components:
    return dataclasses.replace(parts, config=change(parts.config, collapse=settings))


def moved(parts: Components) -> Any:
    """A state whose policy has gone somewhere else."""
    return dataclasses.replace(parts.state, params=jax.tree.map(lambda x: 0.9 * x, parts.state.params))


def test_a_frozen_scorer_does_not_move_with_the_policy(played: tuple[Components, Rollout]):
    parts, rollout = played
    frozen = dataclasses.replace(parts, scorer=jax.tree.map(np.asarray, parts.state.params))
    before = diagnose(parts, parts.state, rollout, step=0)[1]
    after = diagnose(parts, moved(parts), rollout, step=0)[1]
    still = diagnose(frozen, moved(parts), rollout, step=0)[1]
    assert before[EXACT] != pytest.approx(after[EXACT], rel=1e-3)
    assert still == pytest.approx(before, rel=1e-6)


def test_the_scorer_is_built_from_the_first_parameters_or_from_a_folder(bandit_policy: Path):
    named = build(tiny_config(None, collapse={"scorer": str(bandit_policy)}))
    initial = build(tiny_config(bandit_policy, collapse={"scorer": "initial"}))
    current = build(tiny_config(bandit_policy))
    for parts in (named, initial, current):
        parts.close()
    assert current.scorer is None and scorer_fingerprint(current) is None
    assert initial.reference is None
    jax.tree.map(np.testing.assert_array_equal, initial.scorer, current.state.params)
    jax.tree.map(np.testing.assert_array_equal, named.scorer, current.state.params)
    assert scorer_fingerprint(named) == scorer_fingerprint(initial) is not None
    assert not np.array_equal(*(jax.tree.leaves(tree)[0] for tree in (named.scorer, named.state.params)))
    check_scorer("initial", scorer_fingerprint(named), scorer_fingerprint(initial))
    with pytest.raises(ValueError, match=r"collapse.scorer=runs/x has other parameters now \(checksum 1\)"):
        check_scorer("runs/x", 1, 2)


def test_sampled_columns_are_the_step_s_own_draw(played: tuple[Components, Rollout]):
    parts, rollout = played
    some = with_collapse(parts, columns=3)
    _, metrics = diagnose(some, parts.state, rollout, step=5)
    assert metrics == diagnose(some, parts.state, rollout, step=5)[1]
    assert f"{FIRST}/null_p_value" not in metrics
    _, exact = diagnose(parts, parts.state, rollout, step=5)
    assert metrics[EXACT] == pytest.approx(exact[EXACT], rel=1e-5)
    assert exact[f"{FIRST}/mi_sequence_sampled_columns_se_nats"] == 0.0
    rng = np.random.default_rng(np.random.SeedSequence(parts.config.seed, spawn_key=(5, 2)))
    pairs = first_turn_pairs(rollout.batch, rollout.info, bucket=parts.config.rollout.max_new_tokens)
    columns = draw_columns(pairs.column_class, sample=3, rng=rng)
    scores = score_pairs(parts, parts.state.params, pairs, columns=columns)
    assert scores.log_probs.shape == (4, 4, 3) and (scores.columns == columns).all()


def test_sampled_rollouts_are_the_step_s_own_draw_and_keep_the_null(played: tuple[Components, Rollout]):
    parts, rollout = played
    some = with_collapse(parts, rollouts=2)
    _, metrics = diagnose(some, parts.state, rollout, step=5)
    assert metrics == diagnose(some, parts.state, rollout, step=5)[1]
    assert metrics[f"{FIRST}/scored"] + metrics[f"{FIRST}/unscored"] == 8
    assert f"{FIRST}/null_p_value" in metrics and f"{FIRST}/mi_sequence_high_nats" in metrics
    rng = np.random.default_rng(np.random.SeedSequence(parts.config.seed, spawn_key=(5, 5)))
    pairs = first_turn_pairs(rollout.batch, rollout.info, bucket=parts.config.rollout.max_new_tokens)
    drawn = draw_rollouts(pairs, sample=2, rng=rng)
    expected, _ = measure(score_pairs(parts, parts.state.params, drawn))
    assert metrics[f"{FIRST}/mi_sequence_nats"] == pytest.approx(float(expected["mi_sequence_nats"]), rel=1e-5)
    both = with_collapse(parts, rollouts=2, columns=3)
    assert f"{FIRST}/mi_sequence_sampled_columns_se_nats" in diagnose(both, parts.state, rollout, step=5)[1]


def test_the_null_is_that_of_the_step_s_permutations(played: tuple[Components, Rollout]):
    parts, rollout = played
    _, metrics = diagnose(parts, parts.state, rollout, step=3)
    pairs = first_turn_pairs(rollout.batch, rollout.info, bucket=parts.config.rollout.max_new_tokens)
    permutations = null_permutations(4, seed=parts.config.seed, draw=3)
    assert permutations.shape == (199, 4) and (np.sort(permutations, axis=1) == np.arange(4)).all()
    assert len(np.unique(permutations, axis=0)) == 24  # the identity among them
    test = permutation_null(score_pairs(parts, parts.state.params, pairs), permutations)["mi_sequence_nats"]
    assert metrics[f"{FIRST}/null_mi_sequence_nats"] == pytest.approx(float(test.values.mean()), rel=1e-5, abs=1e-6)
    assert metrics[f"{FIRST}/null_p_value"] == pytest.approx(float(test.p_value), rel=1e-6)
    assert metrics[f"{FIRST}/null_mi_sequence_high_nats"] <= float(test.values.max()) + 1e-6


def test_families(played: tuple[Components, Rollout]):
    parts, rollout = played
    every = with_collapse(parts, trajectory=True, turn_uniform=True, trajectory_samples=6)
    _, metrics = diagnose(every, parts.state, rollout, step=0)
    bare = {
        family: {name.rpartition("/")[2] for name in metrics if name.startswith(f"collapse/{family}/")}
        for family in ("first_turn", "trajectory", "turn_uniform")
    }
    # Turns are drawn one by one: no group tells their spread, and no prompts could be permuted.
    alone = {name for name in bare["first_turn"] if name.startswith("null_") or name in MAY_BE_UNKNOWN}
    assert len(alone) == 3 + len(MAY_BE_UNKNOWN)
    assert bare["first_turn"] - alone == bare["trajectory"] == bare["turn_uniform"]
    assert sum(len(names) for names in bare.values()) == len(metrics)
    # One turn an episode: trajectories and turns are the same draws, but turns come without return.
    assert metrics["collapse/turn_uniform/scored"] == 6.0


def test_steps_that_are_not_due_measure_nothing(played: tuple[Components, Rollout]):
    parts, rollout = played
    every = with_collapse(parts, every=2)
    assert diagnose(every, parts.state, rollout, step=1) == (parts.state, {})
    assert diagnose(every, parts.state, rollout, step=2)[1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"collapse": {"scorer": "no/such/folder"}}, "collapse.scorer=no/such/folder is no folder"),
        (
            {"collapse": {"scorer": "initial", "every": 0}, "validation": {"collapse_samples": 0}},
            "collapse.scorer=initial has no effect",
        ),
        ({"collapse": {"columns": 2}}, "collapse.columns=2 leaves fewer than two other columns"),
        ({"collapse": {"columns": 4}}, "collapse.columns=4 is no sample of rollout.prompts=4"),
        ({"collapse": {"columns": -1}}, "collapse.columns=-1 is too small"),
        ({"collapse": {"rollouts": 1}}, "collapse.rollouts=1 shows no spread within a prompt"),
        ({"collapse": {"rollouts": 4}}, "collapse.rollouts=4 is no sample of rollout.group_size=4"),
        ({"collapse": {"rollouts": -1}}, "collapse.rollouts=-1 is too small"),
        ({"collapse": {"rollouts": 2, "every": 0}}, "collapse.rollouts=2 has no effect with collapse.every=0"),
        ({"collapse": {"columns": 3, "every": 0}}, "collapse.columns=3 has no effect with collapse.every=0"),
        ({"collapse": {"turn_uniform": True, "every": 0}}, "collapse.turn_uniform=True has no effect"),
        ({"alarm": {"repeated_share": 1.5}}, "alarm.repeated_share=1.5 must lie between 0 and 1"),
        ({"alarm": {"repeated_share": 0.0, "stop": True}}, "alarm.stop=True has no effect"),
        ({"alarm": {"stop": True}, "checkpoint": {"keep": 1}}, "checkpoint.keep=1"),
        ({"alarm": {"stop": True}, "checkpoint": {"every": 0}}, "checkpoint.every=0"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes: dict[str, Any], message: str):
    config: Config = tiny_config(None, **changes)
    with pytest.raises(ValueError, match=message):
        build(config)
