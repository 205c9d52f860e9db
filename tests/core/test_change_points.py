"""False alarms and detections on planted series; ``python -m tests.core.test_change_points`` prints the table."""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from ragen_jax import core

SERIES, STEPS, CHANGE = 5, 200, 60
LEVEL, SPREAD = 1.0, 0.2
update = jax.jit(core.update_change_points, static_argnames=("threshold", "slack", "least_spread", "largest_score"))


@jax.jit
def alarms_of(series):
    """[T, S] -> [T, S] alarms."""
    _, alarms = jax.lax.scan(core.update_change_points, core.empty_change_points(series.shape[1]), series)
    return alarms


def noise(runs, series, *, carry=0.0, seed=0):
    """[T, runs * series] around the level; each value takes ``carry`` of its deviation from the one before."""
    rng = np.random.default_rng(seed)
    fresh = rng.normal(size=(STEPS, runs * series))
    values = [fresh[0]]
    for step in fresh[1:]:
        values.append(carry * values[-1] + np.sqrt(1 - carry**2) * step)
    return np.stack(values)


def skewed(runs, series, *, seed=0):
    """[T, runs * series] independent values with mean 0, spread 1 and a long right tail."""
    return (np.random.default_rng(seed).gamma(2.0, size=(STEPS, runs * series)) - 2.0) / np.sqrt(2.0)


def rates(runs=2000):
    """Shares of planted runs, by name."""

    def alarmed(deviation, start, stop):
        alarms = np.asarray(alarms_of(jnp.asarray(LEVEL + SPREAD * deviation, jnp.float32)))
        return alarms[start:stop]

    table = {}
    planted = {
        "independent": noise(runs, SERIES),
        "skewed": skewed(runs, SERIES),
        "each value carries half of the last": noise(runs, SERIES, carry=0.5),
    }
    for name, deviation in planted.items():
        alarms = alarmed(deviation, 0, STEPS).reshape(STEPS, runs, SERIES)
        table[f"false alarm in a run, {name}"] = (alarms != 0).any(axis=(0, 2)).mean()
    after = np.maximum(np.arange(STEPS) - CHANGE + 1, 0)[:, None]
    for size in (2.0, 3.0, 5.0):
        for within in (10, 20):
            fall = alarmed(noise(runs, 1, seed=1) - size * (after > 0), CHANGE, CHANGE + within)
            table[f"fall by {size:g} spreads found within {within} steps"] = (fall == -1).any(axis=0).mean()
    for slope in (0.05, 0.1):
        rise = alarmed(noise(runs, 1, seed=2) + slope * after, CHANGE, CHANGE + 60)
        table[f"drift of {slope:g} spreads a step found within 60 steps"] = (rise == 1).any(axis=0).mean()
    return {name: float(value) for name, value in table.items()}


def test_false_alarms_and_detections_are_those_of_the_docstring():
    found = rates(runs=500)
    stated = {
        "false alarm in a run, independent": 0.0,
        "false alarm in a run, skewed": 0.0,
        "false alarm in a run, each value carries half of the last": 0.048,
        "fall by 2 spreads found within 10 steps": 0.095,
        "fall by 2 spreads found within 20 steps": 0.490,
        "fall by 3 spreads found within 10 steps": 0.867,
        "fall by 3 spreads found within 20 steps": 0.999,
        "drift of 0.05 spreads a step found within 60 steps": 0.915,
    }
    for name, share in stated.items():
        spread = np.sqrt(max(share * (1 - share), 0.002) * (1 / 500 + 1 / 2000))
        assert abs(found[name] - share) < 4 * spread, (name, found[name])


def run(values, **settings):
    """Alarms [T, S] of values [T, S], one step at a time."""
    state, alarms = core.empty_change_points(np.shape(values)[1]), []
    for row in np.asarray(values, np.float32):
        state, alarm = update(state, row, **settings)
        alarms.append(np.asarray(alarm).tolist())
    return state, alarms


def test_scores_are_those_of_the_t_distribution():
    """The sums of one series, from scipy's t and normal distributions in float64."""
    values = np.random.default_rng(0).normal(5.0, 1.0, 12)
    up = down = 0.0
    for index in range(2, 12):
        before = values[:index]
        t = (values[index] - before.mean()) / (before.std(ddof=1) * np.sqrt(1 + 1 / index))
        score = np.clip(stats.norm.ppf(stats.t.cdf(t, index - 1)), -4, 4)
        up, down = max(0.0, up + score - 0.2), max(0.0, down - score - 0.2)
    state, _ = run(values[:, None], slack=0.2, least_spread=0.0)
    np.testing.assert_allclose([state.up[0], state.down[0]], [up, down], atol=1e-4)
    np.testing.assert_allclose(state.mean[0], values.mean(), rtol=1e-6)
    np.testing.assert_allclose(state.squares[0], np.square(values - values.mean()).sum(), rtol=1e-4)
    assert up > 0 or down > 0


def test_an_alarm_names_its_direction_once_and_the_series_begins_again():
    rng = np.random.default_rng(1)
    levels = np.repeat([[1.0, 0.0, 3.0]], 60, axis=0)
    levels[30:, 0] += 3.0
    levels[30:, 1] -= 3.0
    state, alarms = run(levels + 0.1 * rng.normal(size=levels.shape))
    hits = [(step, series, value) for step, row in enumerate(alarms) for series, value in enumerate(row) if value]
    assert [(series, value) for _, series, value in hits] == [(0, 1), (1, -1)] or [
        (series, value) for _, series, value in hits
    ] == [(1, -1), (0, 1)]
    assert all(30 < step < 40 for step, _, _ in hits)
    np.testing.assert_allclose(state.mean[:2], [4.0, -3.0], atol=0.1)


def test_values_that_were_not_measured_leave_a_series_alone():
    values = np.random.default_rng(2).normal(size=(20, 1))
    holes = np.full((40, 1), np.nan)
    holes[::2] = values
    holes[1] = np.inf
    whole, _ = run(values)
    with_holes, _ = run(holes)
    for name in ("count", "mean", "squares", "up", "down"):
        np.testing.assert_array_equal(getattr(with_holes, name), getattr(whole, name))


def test_series_that_hardly_move_are_quiet():
    ceiling = 2.079 - 1e-4 * np.abs(np.random.default_rng(3).normal(size=(40, 1)))
    ceiling[20:] -= 0.03  # 300 spreads, and 1.4 % of the level
    assert not np.any(run(ceiling)[1])
    assert np.any(run(ceiling, least_spread=0.0)[1])


def test_a_constant_series_notices_that_it_is_none_any_more():
    values = np.zeros((30, 1))
    assert not np.any(run(values)[1])
    values[20:] = 0.5
    _, alarms = run(values)
    assert [row[0] for row in alarms].count(1) >= 1
    assert not np.any(alarms[:21])  # no single value raises an alarm


def test_a_score_that_could_raise_an_alarm_alone_is_refused():
    with pytest.raises(ValueError, match=r"largest_score=12.0"):
        core.update_change_points(core.empty_change_points(1), np.zeros(1), largest_score=12.0)
    with pytest.raises(AssertionError):
        core.update_change_points(core.empty_change_points(2), np.zeros(3))


if __name__ == "__main__":
    sys.stdout.writelines(f"{name:<60} {value:.3f}\n" for name, value in rates().items())
