"""Construction of the train state and of the optimiser."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from ragen_jax.learner.optimizer import adam
from ragen_jax.learner.state import abstract_state, build_state
from ragen_jax.models.sharding import make_mesh, shardings
from ragen_jax.models.value_head import init_critic
from tests.device_fixtures import MODEL, random_params
from tests.learner_fixtures import assert_trees_equal

ADAM = {"lr": 1e-2, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0, "grad_clip": 1.0}


def test_a_state_is_laid_out_by_the_rules_from_the_start():
    mesh = make_mesh(data=1, fsdp=2, tensor=2)
    optimizer = adam(**ADAM, warmup_updates=0)
    params = random_params()
    critic = init_critic(MODEL, jax.random.key(0))
    state = build_state(params, critic, optimizer, optimizer, mesh=mesh)
    assert_trees_equal(jax.device_get(state.params), jax.device_get(params))
    expected = shardings(state, mesh)
    for leaf, where in zip(jax.tree.leaves(state), jax.tree.leaves(expected), strict=True):
        assert leaf.sharding.is_equivalent_to(where, leaf.ndim)
    moments = [
        leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(state.opt_state)
        if jax.tree_util.keystr(path).endswith("['gate']")
    ]
    assert len(moments) == 2  # both moments are split as their parameter is
    assert all(leaf.sharding == state.params["layers"]["gate"].sharding for leaf in moments)
    target = abstract_state(state, mesh)
    assert jax.tree.structure(target) == jax.tree.structure(state)
    assert all(a.sharding == b for a, b in zip(jax.tree.leaves(target), jax.tree.leaves(expected), strict=True))
    assert int(state.step) == 0 and int(state.collapse.count) == 0


def test_the_given_parameters_stay_the_callers():
    params = random_params()
    optimizer = adam(**ADAM, warmup_updates=0)
    state = build_state(params, None, optimizer, None, mesh=make_mesh(data=1))
    assert state.critic_params is None and state.critic_opt_state is None
    for leaf in jax.tree.leaves(state.params):
        leaf.delete()
    assert all(np.isfinite(np.asarray(leaf)).all() for leaf in jax.tree.leaves(params))


@pytest.mark.parametrize(("warmup", "rates"), [(0, [1, 1, 1]), (1, [1, 1, 1]), (4, [0.25, 0.5, 0.75, 1, 1])])
def test_the_warm_up_reaches_the_full_rate_at_its_last_update(warmup: int, rates: list[float]):
    optimizer = adam(**ADAM, warmup_updates=warmup)
    params = {"weight": np.zeros(1, np.float32)}
    state = optimizer.init(params)
    for rate in rates:  # a constant gradient makes Adam step by its rate
        changes, state = optimizer.update({"weight": np.full(1, 0.5, np.float32)}, state, params)
        np.testing.assert_allclose(changes["weight"], -1e-2 * rate, rtol=1e-4)


def test_the_gradient_is_clipped_by_its_global_norm():
    optimizer = adam(**(ADAM | {"grad_clip": 0.5}), warmup_updates=0)
    params = {"a": np.zeros(1, np.float32), "b": np.zeros(1, np.float32)}
    _, state = optimizer.update(
        {"a": np.full(1, 3.0, np.float32), "b": np.full(1, 4.0, np.float32)}, optimizer.init(params), params
    )
    first = [leaf for path, leaf in jax.tree_util.tree_leaves_with_path(state) if ".mu" in jax.tree_util.keystr(path)]
    np.testing.assert_allclose(np.concatenate(first), [0.1 * 0.3, 0.1 * 0.4], rtol=1e-5)
