"""The update against a plain gradient on tiled rows, a float64 loss, other micro-batches and other meshes."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragen_jax.learner.score import ScoreConfig
from ragen_jax.learner.update import actor_terms
from ragen_jax.models.sharding import make_mesh, put_rows, replicated
from ragen_jax.models.transformer import continuation_pass, prompt_pass
from ragen_jax.models.value_head import values_from_hidden
from ragen_jax.sampling.sampler import Sampler, SamplerConfig
from ragen_jax.training.compile_counter import CompileCounter
from ragen_jax.types import LearnerBatch
from tests.device_fixtures import MODEL, VOCAB, ragged_prompts, random_params
from tests.learner_fixtures import (
    ONE,
    SETTINGS,
    assert_trees_close,
    assert_trees_equal,
    denominator,
    fresh_state,
    gradients,
    learner_batch,
    optimizers,
    update_program,
    with_algorithm,
)
from tests.oracles import decoder, learning

MODES = ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm")


def tiled_states(params: dict[str, Any], batch: LearnerBatch) -> jax.Array:
    """States that predict the tokens, [B, T, d]: every row runs its own copy of the prompt."""
    groups, size, width = batch.tokens.shape
    prompts = prompt_pass(
        params, MODEL, np.repeat(batch.prompt_tokens, size, 0), np.repeat(batch.prompt_mask, size, 0), dtype="float32"
    )
    hidden = continuation_pass(params, MODEL, prompts, batch.tokens.reshape(groups * size, 1, width))[:, 0]
    return jnp.concatenate([prompts.last_hidden[:, None], hidden[:, :-1]], axis=1)


def tiled_actor_loss(params: dict[str, Any], batch: LearnerBatch) -> jax.Array:
    """Token-mean PPO with dual clip, k3 and entropy, written out."""
    states = tiled_states(params, batch)
    table = jax.nn.log_softmax(states @ params["embedding"][:VOCAB].T / SETTINGS.scoring.temperature)
    width = batch.tokens.shape[-1]
    tokens, old, ref, advantages, mask = (
        jnp.reshape(x, (-1, width))
        for x in (batch.tokens, batch.old_log_probs, batch.ref_log_probs, batch.advantages, batch.response_mask)
    )
    now = jnp.take_along_axis(table, tokens[..., None], 2)[..., 0]
    ratio = jnp.exp(now - old)
    surrogate = jnp.maximum(-advantages * ratio, -advantages * jnp.clip(ratio, 0.8, 1.28))
    surrogate = jnp.where(advantages < 0, jnp.minimum(surrogate, -3.0 * advantages), surrogate)
    k3 = jnp.exp(ref - now) - 1 - (ref - now)
    entropy = -(jnp.exp(table) * table).sum(-1)
    loss = surrogate + SETTINGS.algorithm.kl_coef * k3 - SETTINGS.algorithm.entropy_coef * entropy
    return jnp.where(mask, loss, 0.0).sum() / mask.sum()


def tiled_critic_loss(params: dict[str, Any], batch: LearnerBatch) -> jax.Array:
    """Token-mean clipped squared error, written out."""
    values = values_from_hidden(params, tiled_states(params["decoder"], batch))
    old, returns, mask = (jnp.reshape(x, values.shape) for x in (batch.values, batch.returns, batch.response_mask))
    held = old + jnp.clip(values - old, -SETTINGS.algorithm.value_clip, SETTINGS.algorithm.value_clip)
    loss = 0.5 * jnp.maximum((values - returns) ** 2, (held - returns) ** 2)
    return jnp.where(mask, loss, 0.0).sum() / mask.sum()


@pytest.fixture(scope="module")
def batch() -> LearnerBatch:
    return learner_batch(groups=4, group_size=3)


@pytest.mark.parametrize("micro_groups", [pytest.param(1, marks=pytest.mark.slow), 2, 4])
def test_gradient_equals_a_plain_gradient_on_tiled_rows(batch: LearnerBatch, micro_groups: int):
    settings = dataclasses.replace(SETTINGS, micro_groups=micro_groups, critic=MODEL)
    (actor, critic), terms, sums = gradients(batch, settings=settings)
    state = fresh_state(critic=True)
    loss, expected = jax.value_and_grad(tiled_actor_loss)(state.params, batch)
    np.testing.assert_allclose(terms.actor, loss, atol=1e-6)
    assert_trees_close(actor, expected, atol=1e-6)
    loss, expected = jax.value_and_grad(tiled_critic_loss)(state.critic_params, batch)
    np.testing.assert_allclose(terms.value, loss, atol=1e-6)
    assert_trees_close(critic, expected, atol=1e-6)
    assert sums.tokens == batch.response_mask.sum()
    assert 0 < sums.clipped < sums.tokens and 0 < sums.clipped_value < sums.tokens


def test_loss_equals_the_float64_oracle(batch: LearnerBatch):
    _, terms, _ = gradients(batch, settings=dataclasses.replace(SETTINGS, critic=MODEL))
    params = random_params()
    total, count = 0.0, 0
    for i, k in np.ndindex(batch.tokens.shape[:2]):
        prompt = batch.prompt_tokens[i][batch.prompt_mask[i]].tolist()
        now = decoder.continuation_log_probs(
            params, MODEL, prompt, batch.tokens[i, k].tolist(), vocab_size=VOCAB, temperature=0.7
        )
        for t in np.flatnonzero(batch.response_mask[i, k]):
            old, advantage = float(batch.old_log_probs[i, k, t]), float(batch.advantages[i, k, t])
            total += learning.ppo(now[t], old, advantage, clip_low=0.2, clip_high=0.28, clip_dual=3.0)
            count += 1
    np.testing.assert_allclose(terms.task, total / count, atol=2e-5)


def test_the_scale_of_the_loss_reaches_the_actor_only(batch: LearnerBatch):
    settings = dataclasses.replace(SETTINGS, critic=MODEL)
    (actor, critic), terms, _ = gradients(batch, settings=settings)
    (half_actor, half_critic), half_terms, _ = gradients(batch, settings=settings, scale=0.5)
    assert_trees_close(half_actor, jax.tree.map(lambda g: 0.5 * g, actor), atol=1e-6)
    assert_trees_equal(half_critic, critic)
    np.testing.assert_allclose(half_terms.actor, 0.5 * terms.actor, rtol=1e-5)


@pytest.mark.parametrize("mode", ["token-mean", pytest.param("seq-mean-token-mean", marks=pytest.mark.slow)])
def test_c06_rows_with_empty_masks_add_nothing(mode: str):
    small = learner_batch(groups=2, group_size=2, seed=1)

    def widen(x: Any, wild: Any) -> np.ndarray:
        return np.concatenate([x, np.broadcast_to(np.asarray(wild, x.dtype), x.shape)], axis=1)

    silent = dataclasses.replace(
        small,
        tokens=widen(small.tokens, 5),
        attention_mask=widen(small.attention_mask, True),
        response_mask=widen(small.response_mask, False),
        old_log_probs=widen(small.old_log_probs, -60.0),
        ref_log_probs=widen(small.ref_log_probs, 47.0),
        values=widen(small.values, 9.0),
        advantages=widen(small.advantages, -50.0),
        returns=widen(small.returns, -9.0),
        weights=widen(small.weights, 1.0),
    )
    settings = dataclasses.replace(with_algorithm(SETTINGS, aggregation=mode), critic=MODEL)
    alone, together = gradients(small, settings=settings), gradients(silent, settings=settings)
    assert_trees_close(together, alone, atol=2e-6)
    assert together[2].tokens == alone[2].tokens


def test_c06_groups_of_weight_zero_add_nothing(batch: LearnerBatch):
    settings = dataclasses.replace(SETTINGS, critic=MODEL)
    weights = np.ones((4, 3), np.float32)
    weights[2:] = 0
    calm = dataclasses.replace(batch, weights=weights)
    wild = dataclasses.replace(
        calm,
        old_log_probs=np.where(weights[..., None] > 0, batch.old_log_probs, -60).astype(np.float32),
        ref_log_probs=np.where(weights[..., None] > 0, batch.ref_log_probs, 47).astype(np.float32),
        advantages=np.where(weights[..., None] > 0, batch.advantages, -50).astype(np.float32),
    )
    assert_trees_equal(gradients(wild, settings=settings), gradients(calm, settings=settings))
    assert_trees_close(gradients(wild, settings=settings), gradients(calm, settings=settings, count=2), atol=1e-6)


def two_rows() -> LearnerBatch:
    """Row A: 2 trained tokens of loss 1 each; row B: 8 of loss 3 each (ratio 1, advantages -1 and -3)."""
    batch = learner_batch(groups=2, group_size=1, width=8, spread=0.0)
    mask = np.zeros((2, 1, 8), bool)
    mask[0, 0, :2] = mask[1] = True
    advantages = np.where(np.arange(2)[:, None, None] == 0, -1.0, -3.0) * np.ones((2, 1, 8))
    return dataclasses.replace(batch, response_mask=mask, attention_mask=mask, advantages=advantages.astype(np.float32))


@pytest.mark.parametrize(("mode", "value"), list(zip(MODES, (2.6, 2.0, 13.0, 1.3), strict=True)))
def test_c07_reductions_do_not_depend_on_micro_batches(mode: str, value: float):
    settings = with_algorithm(SETTINGS, aggregation=mode, kl_coef=0.0, entropy_coef=0.0)
    constant = 10.0 if mode.endswith("norm") else None
    apart = gradients(two_rows(), settings=settings, constant=constant)
    together = gradients(two_rows(), settings=dataclasses.replace(settings, micro_groups=2), constant=constant)
    np.testing.assert_allclose(apart[1].task, value, rtol=1e-5)
    np.testing.assert_allclose(together[1].task, value, rtol=1e-5)
    assert_trees_close(
        jax.tree.map(lambda g: g / value, together[0]), jax.tree.map(lambda g: g / value, apart[0]), atol=2e-6
    )


@pytest.mark.parametrize("mode", MODES)
def test_c08_nothing_to_train_is_zero_and_finite(mode: str):
    batch = two_rows()
    empty = dataclasses.replace(batch, response_mask=np.zeros_like(batch.response_mask))
    settings = with_algorithm(SETTINGS, aggregation=mode, kl_coef=0.0, entropy_coef=0.0)
    gradient, terms, sums = gradients(empty, settings=settings, constant=10.0 if mode.endswith("norm") else None)
    for leaf in jax.tree.leaves((gradient, terms, sums)):
        assert not np.any(leaf)


@pytest.mark.parametrize(("ratio", "advantage", "loss"), [(2.0, 1.0, -1.28), (0.5, -1.0, 0.8), (0.5, 1.0, -0.5)])
def test_c09_the_two_clips_differ(ratio: float, advantage: float, loss: float):
    batch = jax.tree.map(lambda x: x[:1], two_rows())
    mask = np.zeros((1, 1, 8), bool)
    mask[0, 0, 0] = True
    one = dataclasses.replace(
        batch,
        response_mask=mask,
        old_log_probs=(batch.old_log_probs - np.log(ratio)).astype(np.float32),
        advantages=np.full_like(batch.advantages, advantage),
    )
    terms, sums = actor_terms(random_params(), SETTINGS, one, np.float32(1))
    np.testing.assert_allclose(terms.task, loss, atol=1e-4)
    np.testing.assert_allclose(sums.log_ratio, np.log(ratio), atol=1e-4)


def test_c10_ratio_is_one_at_the_first_update():
    ragged = ragged_prompts([3, 5], width=6)
    scoring = SamplerConfig(vocab_size=VOCAB, stop_ids=(1,), max_new_tokens=7, temperature=0.5)
    sampler = Sampler(random_params(), MODEL, scoring, ONE)
    session = sampler.begin(ragged.tokens, ragged.mask, group_size=3, max_turns=1, max_context=7, seed=(1,))
    reply = session.respond(np.ones(6, bool))
    mask = (np.arange(7) < reply.lengths[:, None]).reshape(2, 3, 7)
    sampled = dataclasses.replace(
        learner_batch(groups=2, group_size=3),
        prompt_tokens=ragged.tokens,
        prompt_mask=ragged.mask,
        tokens=reply.tokens.reshape(2, 3, 7),
        attention_mask=mask,
        response_mask=mask,
        old_log_probs=reply.log_probs.reshape(2, 3, 7),
    )
    warm = dataclasses.replace(SETTINGS, scoring=ScoreConfig(vocab_size=VOCAB, temperature=0.5))
    _, sums = actor_terms(random_params(), warm, sampled, denominator(sampled))
    assert sums.max_ratio_gap < 1e-4
    assert sums.clipped == 0
    _, sums = actor_terms(random_params(), SETTINGS, sampled, denominator(sampled))  # the wrong temperature shows
    assert sums.max_ratio_gap > 1e-2


@given(st.lists(st.booleans(), min_size=4, max_size=4).filter(any), st.permutations(range(4)))
def test_compact_equals_masked(keep: list[bool], shuffle: list[int]):
    batch = learner_batch(groups=4, group_size=3)
    kept = [i for i in shuffle if keep[i]]
    order = kept + [0] * (4 - len(kept))
    masked = dataclasses.replace(batch, weights=(batch.weights * np.array(keep)[:, None]).astype(np.float32))
    settings = dataclasses.replace(SETTINGS, micro_groups=2, critic=MODEL)
    divide_by = float(denominator(masked))
    compact = gradients(batch, settings=settings, order=order, count=len(kept), divide_by=divide_by)
    whole = gradients(masked, settings=settings, divide_by=divide_by)
    assert_trees_close(compact[0][0], whole[0][0], atol=1e-6)
    np.testing.assert_allclose(compact[1].actor, whole[1].actor, atol=1e-6)
    assert compact[2].tokens == whole[2].tokens


def on_mesh(mesh: Any, micro_groups: int, batch: LearnerBatch, order: list[int], count: int) -> tuple[Any, Any]:
    """(gradient, metrics) of one update; plain descent at rate 1 shows the gradient as a difference."""
    program = update_program(mesh, micro_groups)
    state = fresh_state(mesh=mesh)
    scalars = (np.asarray(order, np.int32), np.int32(count), denominator(batch), np.float32(0), np.float32(1))
    new, metrics = program(state, put_rows(batch, mesh), *jax.device_put(scalars, replicated(mesh)))
    before = random_params()
    return jax.tree.map(lambda a, b: np.asarray(a) - np.asarray(b), before, jax.device_get(new.params)), metrics


@pytest.mark.parametrize(
    ("shape", "micro_groups"),
    [
        pytest.param({"data": 4}, 4, marks=pytest.mark.slow),
        ({"data": 1, "fsdp": 2, "tensor": 2}, 1),  # the devices share the rows of a group
        pytest.param({"data": 1, "fsdp": 2, "tensor": 2}, 2, marks=pytest.mark.slow),
        pytest.param({"data": 4}, 1, marks=pytest.mark.slow),
        pytest.param({"data": 4}, 2, marks=pytest.mark.slow),
        pytest.param({"data": 2}, 2, marks=pytest.mark.slow),
        pytest.param({"data": 2, "fsdp": 2}, 4, marks=pytest.mark.slow),
    ],
)
def test_c16_kept_groups_that_do_not_divide_over_the_devices(shape: dict[str, int], micro_groups: int):
    batch = learner_batch(groups=8, group_size=4, seed=2)
    keep = np.isin(np.arange(8), (1, 4, 6))
    batch = dataclasses.replace(batch, weights=(batch.weights * keep[:, None]).astype(np.float32))
    order = [1, 4, 6, 0, 0, 0, 0, 0]
    expected, numbers = on_mesh(ONE, 2, batch, order, 3)  # two micro-batches, the second half filler
    assert max(np.abs(leaf).max() for leaf in jax.tree.leaves(expected)) > 1e-2
    got, metrics = on_mesh(make_mesh(**shape), micro_groups, batch, order, 3)
    assert_trees_close(got, expected, atol=1e-6)
    for name in ("loss/task", "loss/kl", "loss/entropy"):
        np.testing.assert_allclose(metrics[name], numbers[name], atol=1e-6)
    assert_trees_close(jax.device_get(metrics), jax.device_get(numbers), atol=1e-5)


@pytest.mark.slow
def test_devices_gather_parameters_not_activations():
    """In every layer of a mesh with fsdp; what is gathered is never larger than a parameter of a layer."""
    mesh = make_mesh(data=1, fsdp=4)
    batch = learner_batch(groups=8, group_size=4, width=64)
    program, state = update_program(mesh, 4), fresh_state(mesh=mesh)
    scalars = (np.arange(8, dtype=np.int32), np.int32(8), *(np.float32(1),) * 3)
    lowered = program.lower(state, put_rows(batch, mesh), *jax.device_put(scalars, replicated(mesh)))
    text = lowered.compile().as_text()
    assert "all-to-all(" not in text and "collective-permute(" not in text
    shapes = re.findall(r"= f32\[([\d,]+)\]\S* all-gather\(", text)
    gathered = [math.prod(map(int, shape.split(","))) for shape in shapes]
    largest = max(leaf[0].size for leaf in jax.tree.leaves(random_params()["layers"]))
    assert max(gathered) == largest < 4 * 4 * 64 * MODEL.width


def run_update(batch: LearnerBatch, count: int, *, state: Any = None, optimizer: str = "adam") -> tuple[Any, Any]:
    program = update_program(ONE, 1, True, optimizer)
    state = fresh_state(critic=True, optimizer=optimizers()[optimizer]) if state is None else state
    scalars = (np.arange(4, dtype=np.int32), np.int32(count), denominator(batch), denominator(batch), np.float32(1))
    return program(state, put_rows(batch, ONE), *jax.device_put(scalars, replicated(ONE)))


@pytest.mark.parametrize("field", ["advantages", "returns", "old_log_probs"])
def test_a_loss_that_is_not_finite_changes_nothing(batch: LearnerBatch, field: str):
    values = np.array(getattr(batch, field))
    place = tuple(np.argwhere(batch.response_mask)[0])
    values[place] = np.inf
    state, _ = run_update(batch, 4)  # moments that are not zero
    before = jax.device_get(state)
    after, metrics = run_update(dataclasses.replace(batch, **{field: values}), 4, state=state)
    assert metrics["update/finite"] == 0
    assert_trees_equal(jax.device_get(after), before)
    _, metrics = run_update(batch, 4, state=after)
    assert metrics["update/finite"] == 1


def test_c08_nothing_to_train_changes_neither_parameters_nor_moments(batch: LearnerBatch):
    """With KL, entropy and critic on, and with moments that are not zero."""
    state, _ = run_update(batch, 4)
    before = jax.device_get(state)
    empty = dataclasses.replace(batch, response_mask=np.zeros_like(batch.response_mask))
    after, metrics = run_update(empty, 4, state=state)
    assert_trees_equal(jax.device_get(after), before)
    assert metrics["update/finite"] == 1 and metrics["update/applied"] == 0
    for name, value in metrics.items():
        if name.startswith(("loss/", "gradient/", "policy/", "critic/")):
            assert value == 0, name


def test_a_kl_in_the_reward_is_no_term_of_the_loss(batch: LearnerBatch):
    terms, sums = actor_terms(random_params(), with_algorithm(SETTINGS, kl_target="reward"), batch, denominator(batch))
    assert terms.kl == 0
    _, in_loss = actor_terms(random_params(), SETTINGS, batch, denominator(batch))
    assert sums.kl == in_loss.kl > 0  # and still measured


def test_donated_buffers_do_not_break_what_others_hold(batch: LearnerBatch):
    state = fresh_state(critic=True, optimizer=optimizers()["adam"])
    held = jax.tree.map(jnp.copy, state.params)
    snapshot = jax.device_get(held)
    given_up = jax.tree.leaves(state.params)
    new, _ = run_update(batch, 4, state=state)
    assert all(leaf.is_deleted() for leaf in given_up)
    assert_trees_equal(jax.device_get(held), snapshot)
    assert any(
        (np.asarray(a) != b).any() for a, b in zip(jax.tree.leaves(new.params), jax.tree.leaves(snapshot), strict=True)
    )


def test_one_program_serves_every_kept_count_and_every_call(batch: LearnerBatch):
    program = update_program.__wrapped__(ONE, 1)  # a new one, that no other test has compiled
    state = fresh_state()
    with CompileCounter() as compiled:
        for count in (1, 3, 4, 2):
            scalars = (np.arange(4, dtype=np.int32), np.int32(count), denominator(batch), np.float32(0), np.float32(1))
            state, _ = program(state, put_rows(batch, ONE), *jax.device_put(scalars, replicated(ONE)))
    assert compiled.by_program["jit(update)"] == 1
