"""The probe against the gradient of the update, planted batches, an enumerated MI gradient and its memory bound."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ragen_jax.learner import gradient_probe
from ragen_jax.learner.gradient_probe import PARAMETER_BUFFERS, ProbeReport, mutual_information_gradient, probe
from ragen_jax.learner.score import response_log_probs
from ragen_jax.models.sharding import make_mesh, shardings
from ragen_jax.types import LearnerBatch, ObjectiveTerms, ReasoningPairs
from tests.device_fixtures import MODEL, VOCAB, random_params
from tests.learner_fixtures import (
    ONE,
    SCORING,
    SETTINGS,
    accumulated,
    denominator,
    fresh_state,
    gradients,
    learner_batch,
    with_algorithm,
)

PROMPTS, GROUP = 5, 4
KEEP = np.array([True, False, True, True, False])
VARIANCES = np.array([0.3, 0.0, 0.5, 0.1, 0.2], np.float32)


@pytest.fixture(scope="module")
def batch() -> LearnerBatch:
    return learner_batch(groups=PROMPTS, group_size=GROUP)


def run(batch: LearnerBatch, *, settings: Any = SETTINGS, keep: np.ndarray = KEEP, **changes: Any) -> ProbeReport:
    arguments: dict[str, Any] = {"variances": VARIANCES, "loss_scale": 1.0, "buckets": 2, "mesh": ONE}
    if "denominator" not in changes:
        weighted = dataclasses.replace(batch, weights=batch.weights * keep[:, None])
        arguments["denominator"] = float(denominator(weighted))
    return probe(random_params(), settings, batch, keep=keep, **(arguments | changes))


def flat(tree: Any) -> np.ndarray:
    """All leaves as one float64 vector."""
    return np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(tree)])


@pytest.fixture(scope="module")
def report(batch: LearnerBatch) -> ProbeReport:
    return run(batch)


@pytest.mark.slow
def test_the_kept_parts_sum_to_the_gradient_of_the_update(batch: LearnerBatch, report: ProbeReport):
    order = [0, 2, 3, 1, 4]
    weighted = dataclasses.replace(batch, weights=batch.weights * KEEP[:, None])
    (actor, _), _, _ = gradients(weighted, order=order, count=3)
    algorithm = SETTINGS.algorithm
    assert report.update is not None
    total = flat(report.update.total(kl_coef=algorithm.kl_coef, entropy_coef=algorithm.entropy_coef))
    expected = flat(actor)
    assert np.linalg.norm(total - expected) < 1e-5 * np.linalg.norm(expected)
    np.testing.assert_allclose(report.metrics["update/total_norm"], np.linalg.norm(expected), rtol=1e-5)
    bare = with_algorithm(SETTINGS, kl_coef=0.0, entropy_coef=0.0)
    (alone, _), _, _ = gradients(weighted, settings=bare, order=order, count=3)
    np.testing.assert_allclose(report.metrics["update/task_norm"], np.linalg.norm(flat(alone)), rtol=1e-5)


@pytest.mark.slow
def test_gradients_of_half_precision_parameters_are_summed_in_float32():
    """Rounding every gradient once leaves 0.002 of the norm here, sums in bfloat16 left 0.007."""
    halves = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), random_params())
    batch = learner_batch(groups=32, group_size=GROUP)
    everything = np.ones(32, bool)
    found = probe(
        halves,
        SETTINGS,
        batch,
        keep=everything,
        variances=np.arange(32.0),
        denominator=float(denominator(batch)),
        loss_scale=1.0,
        buckets=2,
        mesh=ONE,
    )
    assert found.update is not None
    algorithm = SETTINGS.algorithm
    total = flat(found.update.total(kl_coef=algorithm.kl_coef, entropy_coef=algorithm.entropy_coef))
    parts = accumulated(
        dataclasses.replace(fresh_state(), params=halves),
        SETTINGS,
        batch,
        np.arange(32, dtype=np.int32),
        np.int32(32),
        denominator(batch),
        denominator(batch),
        np.float32(1),
        mesh=ONE,
    )
    expected = flat(parts[0][0])
    assert np.linalg.norm(total - expected) < 5e-3 * np.linalg.norm(expected)


def test_the_scale_of_the_loss_scales_every_term(batch: LearnerBatch, report: ProbeReport):
    half = run(batch, loss_scale=0.5)
    for name in ("task_norm", "kl_norm", "entropy_norm", "total_norm"):
        np.testing.assert_allclose(half.metrics[f"update/{name}"], 0.5 * report.metrics[f"update/{name}"], rtol=1e-5)
    for name in ("dominance", "cos_task_kl"):
        np.testing.assert_allclose(half.metrics[f"update/{name}"], report.metrics[f"update/{name}"], rtol=1e-4)


def test_rows_tell_every_prompt_and_buckets_compare_at_equal_counts(report: ProbeReport):
    assert [row["prompt"] for row in report.rows] == list(range(PROMPTS))
    assert [row["bucket"] for row in report.rows] == [2, 1, 2, 1, 2]
    assert [row["kept"] for row in report.rows] == KEEP.tolist()
    assert report.metrics["bucket_1/averaged"] == report.metrics["bucket_2/averaged"] == 2
    assert report.metrics["bucket_1/prompts"] == 2 and report.metrics["bucket_2/prompts"] == 3
    np.testing.assert_allclose(report.metrics["bucket_2/reward_variance_mean"], (0.3 + 0.5 + 0.2) / 3, rtol=1e-6)


def test_a_bucket_is_the_mean_gradient_of_its_prompts_on_the_scale_of_the_update(batch: LearnerBatch):
    together = run(batch, edges=(0.15,), buckets=None)  # {1, 3} below, {0, 2, 4} above; two of each are averaged
    weights = np.zeros((PROMPTS, GROUP), np.float32)
    weights[[0, 2]] = 1.0
    pair = dataclasses.replace(batch, weights=weights)
    divisor = float(denominator(dataclasses.replace(batch, weights=batch.weights * KEEP[:, None])))
    (actor, _), _, _ = gradients(pair, divide_by=divisor)
    expected = np.linalg.norm(flat(actor)) * KEEP.sum() / 2
    np.testing.assert_allclose(together.metrics["bucket_2/total_norm"], expected, rtol=1e-5)


def test_only_the_prompt_with_reward_variance_has_a_task_gradient(batch: LearnerBatch):
    advantages = np.zeros_like(batch.advantages)
    advantages[2] = np.array([1.0, -1.0, 1.0, -1.0])[:, None]
    planted = dataclasses.replace(batch, advantages=advantages)
    found = run(planted, variances=np.array([0, 0, 1, 0, 0], np.float32), edges=(0.5,), buckets=None)
    assert [row["task_norm"] > 0 for row in found.rows] == [False, False, True, False, False]
    for row in found.rows:
        assert row["kl_norm"] > 0 and row["entropy_norm"] > 0
        assert (row["dominance"] == 1) == (row["prompt"] != 2)
    assert found.metrics["bucket_1/task_norm"] == 0 and found.metrics["bucket_1/dominance"] == 1
    assert found.metrics["bucket_2/task_norm"] > 0 and found.metrics["bucket_2/dominance"] < 1


def test_equal_halves_are_all_signal_and_opposite_halves_all_noise():
    batch = learner_batch(groups=PROMPTS, group_size=GROUP, spread=0.0)  # ratio 1: nothing is clipped

    def repeated(x: Any) -> np.ndarray:
        return np.concatenate([np.asarray(x)[:, :2]] * 2, axis=1)

    twice = {
        field.name: repeated(getattr(batch, field.name))
        for field in dataclasses.fields(LearnerBatch)
        if not field.name.startswith("prompt")
    }
    same = dataclasses.replace(batch, **twice)
    for row in run(same).rows:
        assert row["noise_norm"] < 1e-5 * row["task_norm"]
        np.testing.assert_allclose(row["signal_norm"], row["task_norm"], rtol=1e-5)
    sign = np.array([1.0, 1.0, -1.0, -1.0], np.float32)[:, None]
    opposite = dataclasses.replace(same, advantages=same.advantages * sign)
    for row in run(opposite).rows:
        assert row["task_norm"] < 1e-5 * row["noise_norm"]
        assert row["signal_sq"] < 0 and row["snr"] == 0


def test_regularisers_are_measured_without_their_coefficients(batch: LearnerBatch, report: ProbeReport):
    bare = run(batch, settings=with_algorithm(SETTINGS, kl_coef=0.0, entropy_coef=0.0, kl_estimator="k2"))
    k2 = run(batch, settings=with_algorithm(SETTINGS, kl_estimator="k2"))
    for name in ("kl_unit_norm", "entropy_unit_norm"):
        assert bare.metrics[f"update/{name}"] == k2.metrics[f"update/{name}"] > 0
    assert bare.metrics["update/regulariser_norm"] == bare.metrics["update/dominance"] == 0
    np.testing.assert_allclose(report.metrics["all/kl_norm"], 0.1 * report.metrics["all/kl_unit_norm"], rtol=1e-5)


def test_a_kl_in_the_reward_is_no_regulariser_of_the_loss(batch: LearnerBatch):
    found = run(batch, settings=with_algorithm(SETTINGS, kl_target="reward", entropy_coef=0.0))
    assert found.metrics["update/regulariser_norm"] == 0 and found.metrics["update/kl_unit_norm"] > 0


def test_nothing_kept_is_probed_all_the_same(batch: LearnerBatch):
    found = run(batch, keep=np.zeros(PROMPTS, bool), denominator=float(denominator(batch)))
    assert found.update is None and not any(name.startswith("update/") for name in found.metrics)
    (actor, _), _, _ = gradients(batch)
    np.testing.assert_allclose(found.metrics["all/total_norm"], np.linalg.norm(flat(actor)), rtol=1e-5)


def test_prompts_without_a_valid_row_are_left_out(batch: LearnerBatch):
    weights = batch.weights.copy()
    weights[3] = 0
    found = run(dataclasses.replace(batch, weights=weights))
    assert [row["prompt"] for row in found.rows] == [0, 1, 2, 4]
    nothing = run(dataclasses.replace(batch, weights=0 * weights), denominator=1.0)
    assert nothing == ProbeReport(metrics={}, rows=[], update=None)


@pytest.mark.parametrize("group", [2, 5])
def test_groups_that_do_not_halve_are_refused(group: int):
    with pytest.raises(ValueError, match="two halves"):
        run(learner_batch(groups=PROMPTS, group_size=group), denominator=1.0)


def one_token_pairs(seed: int = 0) -> ReasoningPairs:
    """Two prompts, every reasoning of one token of the vocabulary once: an enumeration of Z."""
    rng = np.random.default_rng(seed)
    tokens = np.broadcast_to(np.arange(VOCAB, dtype=np.int32)[None, :, None], (2, VOCAB, 1))
    return ReasoningPairs(
        prompt_tokens=rng.integers(3, VOCAB, (2, 4)).astype(np.int32),
        prompt_mask=np.ones((2, 4), bool),
        reasoning_tokens=tokens,
        reasoning_mask=np.ones(tokens.shape, bool),
        column_class=np.arange(2),
    )


def table(params: Any, pairs: ReasoningPairs) -> jax.Array:
    """Log-probs [2, V] of all one-token reasonings."""
    log_probs, _ = response_log_probs(
        params, MODEL, SCORING, pairs.prompt_tokens, pairs.prompt_mask, pairs.reasoning_tokens
    )
    return log_probs[..., 0]


def exact_mi(params: Any, pairs: ReasoningPairs) -> jax.Array:
    log_p = table(params, pairs)
    mixture = jax.nn.logsumexp(log_p, axis=0) - jnp.log(2.0)
    return jnp.mean(jnp.sum(jnp.exp(log_p) * (log_p - mixture), axis=1))


def proxy(params: Any, pairs: ReasoningPairs) -> jax.Array:
    """The estimate with its reasonings held fixed, each weighed by its probability now: an expectation over samples."""
    log_p = table(params, pairs)
    mixture = jax.nn.logsumexp(log_p, axis=0) - jnp.log(2.0)
    weights = jax.lax.stop_gradient(jnp.exp(log_p))
    return jnp.mean(jnp.sum(weights * (log_p - mixture), axis=1))


@pytest.mark.slow
def test_the_direction_is_the_gradient_of_the_mutual_information():
    """Samples drawn from the policy itself; the mean over many is the exact gradient, that of the fixed proxy is 0."""
    pairs, params = one_token_pairs(), random_params()
    exact = flat(jax.grad(exact_mi)(params, pairs))
    assert np.linalg.norm(flat(jax.grad(proxy)(params, pairs))) < 1e-5 * np.linalg.norm(exact)
    probabilities = np.exp(np.asarray(table(params, pairs), np.float64))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    rng = np.random.default_rng(1)
    samples = np.stack([rng.choice(VOCAB, size=4000, p=row) for row in probabilities])[..., None].astype(np.int32)
    drawn = dataclasses.replace(pairs, reasoning_tokens=samples, reasoning_mask=np.ones(samples.shape, bool))
    found = -flat(mutual_information_gradient(params, SETTINGS, drawn, mesh=ONE))
    cosine = found @ exact / (np.linalg.norm(found) * np.linalg.norm(exact))
    assert cosine > 0.98
    assert 0.9 < np.linalg.norm(found) / np.linalg.norm(exact) < 1.1


@pytest.mark.slow
def test_unscored_reasonings_and_lone_ones_do_not_count():
    pairs = one_token_pairs()
    mask = np.zeros(pairs.reasoning_mask.shape, bool)
    mask[:, 0] = True
    lone = dataclasses.replace(pairs, reasoning_mask=mask)
    assert np.linalg.norm(flat(mutual_information_gradient(random_params(), SETTINGS, lone, mesh=ONE))) == 0


def test_cosines_with_the_direction_are_logged_when_it_is_asked_for(batch: LearnerBatch, report: ProbeReport):
    assert not any("mi" in name.rpartition("/")[2].split("_") for name in report.metrics)
    found = run(batch, pairs=one_token_pairs())
    for name in ("cos_task_mi", "cos_kl_mi", "cos_entropy_mi", "cos_total_mi"):
        assert 0 < abs(found.metrics[f"update/{name}"]) < 1
        assert all(name in row for row in found.rows)
    assert {name: found.metrics[name] for name in report.metrics} == report.metrics


def test_memory_is_bounded_whatever_the_number_of_prompts(batch: LearnerBatch, monkeypatch: pytest.MonkeyPatch):
    params = random_params()
    size = flat(params).size * 4
    most = 0

    def counted(function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal most
            result = function(*args, **kwargs)
            most = max(most, sum(array.nbytes for array in jax.live_arrays()) - before)
            return result

        return call

    for name in ("_term_gradient", "_sum_and_difference", "_add", "_zeros", "_gram", "_add_weighted_scores"):
        monkeypatch.setattr(gradient_probe, name, counted(getattr(gradient_probe, name)))
    pairs = one_token_pairs()
    before = sum(array.nbytes for array in jax.live_arrays())
    run(batch, pairs=pairs, buckets=3)
    inputs = 64 * 1024  # token arrays of one prompt and Gram matrices
    assert 12 * size < most <= PARAMETER_BUFFERS * size + inputs


@pytest.mark.slow
def test_split_parameters_give_the_same_account(batch: LearnerBatch, report: ProbeReport):
    mesh = make_mesh(data=1, fsdp=2, tensor=2)
    params = jax.device_put(random_params(), shardings(random_params(), mesh))
    divisor = float(denominator(dataclasses.replace(batch, weights=batch.weights * KEEP[:, None])))
    found = probe(
        params,
        SETTINGS,
        batch,
        keep=KEEP,
        variances=VARIANCES,
        denominator=divisor,
        loss_scale=1.0,
        mesh=mesh,
        buckets=2,
        pairs=one_token_pairs(),
    )
    for name, value in report.metrics.items():
        np.testing.assert_allclose(found.metrics[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
    assert found.update is not None

    def on_one_device(tree: Any) -> int:
        return sum(leaf.addressable_shards[0].data.nbytes for leaf in jax.tree.leaves(tree))

    assert on_one_device(found.update.task) <= on_one_device(params) < 4 * flat(params).size


@pytest.mark.slow
def test_one_backward_pass_needs_little_beside_its_result():
    """On a network whose parameters outweigh its activations, by the compiler's own account."""
    model = dataclasses.replace(MODEL, width=64, vocab_rows=512, mlp_width=256, head_dim=16)
    params = random_params(config=model)
    half = gradient_probe._half(learner_batch(groups=1, group_size=4), 0, slice(0, 2))
    one = np.float32(1.0)
    terms = ObjectiveTerms(task=one, kl=one, entropy=one, value=one)
    settings = dataclasses.replace(SETTINGS, model=model)
    program = gradient_probe._term_gradient.lower(params, settings, half, terms, one, one).compile()
    assert program.memory_analysis().temp_size_in_bytes < 3 * 4 * flat(params).size


def test_parameters_and_batch_are_left_alone(batch: LearnerBatch):
    params = random_params()
    before = flat(params)
    copy = jax.tree.map(np.array, batch)
    probe(params, SETTINGS, batch, keep=KEEP, variances=VARIANCES, denominator=7.0, loss_scale=1.0, mesh=ONE, buckets=2)
    assert (flat(params) == before).all()
    for a, b in zip(jax.tree.leaves(batch), jax.tree.leaves(copy), strict=True):
        assert (np.asarray(a) == b).all()
