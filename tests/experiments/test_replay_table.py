"""Replayed variance ranks prompts better than plain variance, the tempting difference worse."""

from __future__ import annotations

import json
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from experiments.replay_table import (
    SLIPS,
    PromptSet,
    compare,
    describe,
    main,
    prompt_set,
    rank_correlation,
    scores,
)
from ragen_jax.envs import make_env
from ragen_jax.envs.frozen_lake.lake import ACTIONS
from tests.oracles.frozen_lake import success_of_plan

RESULT = Path(__file__).parents[2] / "docs" / "results" / "replay_table.json"


@pytest.fixture(scope="module", params=SLIPS)
def sets(request):
    """Three prompt sets of their own seeds at one slip rate."""
    return [prompt_set(slip=request.param, prompts=64, group=16, replays=4, seed=seed) for seed in range(3)]


def test_four_replays_beat_plain_variance_and_the_difference_is_worse(sets):
    found = compare(sets, (4,), resamples=100)
    _, low, _ = found["replayed_4"]["gain"]
    assert low > 0
    _, _, high = found["difference_4"]["gain"]
    assert high < 0
    for data in sets:  # and in each set alone
        values = scores(data, (4,))
        rho = {name: rank_correlation(values["truth"], found) for name, found in values.items()}
        assert rho["replayed_4"] > rho["plain"] > rho["difference_4"]


def test_walks_average_to_the_truth(sets):
    """Within four standard errors, which the exact mu gives too."""
    for data in sets:
        noise = data.mu * (1 - data.mu)
        replays = data.replays.shape[2]
        assert abs(data.rewards.mean() - data.mu.mean()) < 4 * np.sqrt(noise.sum()) / noise.size
        assert abs(data.replays.mean() - data.mu.mean()) < 4 * np.sqrt(noise.sum() / replays) / noise.size


@pytest.mark.parametrize("slip_rate", [0.0, 0.3, 2 / 3])
def test_plan_values_equal_the_oracle(slip_rate):
    rng = np.random.default_rng(0)
    env = make_env("frozen_lake", slip_rate=slip_rate, locked_share=0.2)
    values = set()
    for seed in range(25):
        env.reset(seed)
        plan = [ACTIONS[a] for a in rng.integers(4, size=rng.integers(0, 8))]
        plan += [ACTIONS[a] for a in env.lake.shortest_path(env.lake.start)]
        start = env.lake.start[0] * env.lake.size + env.lake.start[1]
        got = env.transition_table().plan_value(start, [ACTIONS.index(name) for name in plan])
        np.testing.assert_allclose(got, success_of_plan(env.lake, plan, slip_rate), atol=1e-12)
        values.add(round(got, 6))
    assert len(values) > 1


@given(st.lists(st.integers(0, 4), min_size=2, max_size=8))
def test_ranks_share_ties(values):
    """Against the definition: rank = values below + half of the others that are equal + 1."""
    array = np.array(values, np.float64)
    ranks = [sum(v < x for v in values) + (sum(v == x for v in values) + 1) / 2 for x in values]
    other = np.arange(len(values), dtype=np.float64)
    if len(set(values)) == 1:
        assert rank_correlation(array, other) == 0
    else:
        np.testing.assert_allclose(rank_correlation(array, other), np.corrcoef(ranks, other)[0, 1], atol=1e-12)


def test_noise_share_is_that_of_the_expected_variance():
    mu = np.array([[0.0, 1.0], [0.5, 0.5]])
    data = PromptSet(mu=mu, rewards=np.array([[0.0, 1.0], [0.0, 0.0]]), replays=np.zeros((2, 2, 2)))
    assert describe([data]) == {"noise_share": 0.3333, "flat_share": 0.5, "mean_reward": 0.25}


def test_the_table_prints_and_bad_sizes_are_refused(capsys):
    main(["prompts=6", "group=4", "sets=1", "resamples=2"])
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 2 + len(SLIPS)
    assert all(line.count("|") == printed[0].count("|") for line in printed)
    with pytest.raises(ValueError, match="prompts=2: use a whole number of 3"):
        main(["prompts=2"])


def test_the_saved_table_shows_the_same():
    for row in json.loads(RESULT.read_text(encoding="utf-8"))["slips"].values():
        assert row["replayed_4"]["gain"][1] > 0 > row["difference_4"]["gain"][2]
