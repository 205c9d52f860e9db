from __future__ import annotations

import json
import math

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

from ragen_jax import core
from tests.oracles import learning as oracle

CLIP = {"clip_low": 0.2, "clip_high": 0.28}
MODES = ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm")
LOG_PROBS = st.integers(-24, 0).map(lambda n: n / 4)


def one(value):
    return np.full((1, 1), value, np.float32)


def kl_one(log_prob, ref, estimator):
    return core.kl(one(log_prob), one(ref), estimator=estimator)[0, 0]


@pytest.mark.parametrize(("ratio", "advantage", "loss"), [(2.0, 1.0, -1.28), (0.5, -1.0, 0.8), (0.5, 1.0, -0.5)])
def test_c09_lower_and_upper_clip_differ(ratio, advantage, loss):
    value, clipped, lower = core.ppo_terms(one(math.log(ratio)), one(0), one(advantage), one(1), **CLIP, clip_dual=3.0)
    np.testing.assert_allclose(value, [[loss]], atol=1e-6)
    assert clipped.tolist() == [[not (ratio == 0.5 and advantage == 1.0)]]
    assert lower.tolist() == [[False]]


def test_dual_clip_bounds_the_loss_of_a_bad_token():
    value, _, lower = core.ppo_terms(one(2.0), one(0), one(-1.0), one(1), **CLIP, clip_dual=3.0)
    assert (value.tolist(), lower.tolist()) == ([[3.0]], [[True]])
    value, _, lower = core.ppo_terms(one(2.0), one(0), one(-1.0), one(1), **CLIP, clip_dual=0.0)
    np.testing.assert_allclose(value, [[math.exp(2)]], rtol=1e-6)
    assert lower.tolist() == [[False]]


@pytest.mark.parametrize("clip_dual", [0.0, 3.0])
@given(
    log_probs=hnp.arrays(np.float32, (2, 3), elements=LOG_PROBS),
    old=hnp.arrays(np.float32, (2, 3), elements=LOG_PROBS),
    advantages=hnp.arrays(np.float32, (2, 3), elements=LOG_PROBS.map(lambda x: x + 3)),
)
def test_ppo_agrees_with_the_oracle(clip_dual, log_probs, old, advantages):
    loss, _, _ = core.ppo_terms(log_probs, old, advantages, np.ones((2, 3), bool), **CLIP, clip_dual=clip_dual)
    for index in np.ndindex(2, 3):
        expected = oracle.ppo(
            float(log_probs[index]), float(old[index]), float(advantages[index]), **CLIP, clip_dual=clip_dual
        )
        np.testing.assert_allclose(loss[index], expected, rtol=1e-5, atol=1e-6)


def test_the_first_update_has_the_plain_policy_gradient():
    rng = np.random.default_rng(0)
    log_probs, advantages = rng.normal(size=(2, 2, 4)).astype(np.float32)
    mask = np.ones((2, 4), bool)
    gradient = jax.grad(lambda x: core.ppo_policy_loss(x, log_probs, advantages, mask, **CLIP)[0])(log_probs)
    np.testing.assert_allclose(gradient, -advantages / 8, rtol=1e-6)


def test_a_huge_log_ratio_is_finite():
    for log_prob, advantage in ((0.0, -1.0), (0.0, 1.0), (-1000.0, 1.0)):
        loss, gradient = jax.value_and_grad(
            lambda x, a=advantage: core.ppo_policy_loss(x, one(-500.0), one(a), one(1), **CLIP, clip_dual=0.0)[0]
        )(one(log_prob))
        assert np.isfinite(loss)
        assert np.isfinite(gradient).all()


@pytest.mark.parametrize("broken", [np.nan, -np.inf])
def test_what_stands_at_masked_tokens_reaches_neither_loss_nor_gradient(broken):
    log_probs, old, advantages = (np.array([[x, broken]], np.float32) for x in (-1.0, -1.2, 0.5))
    mask = np.array([[True, False]])

    def policy(x):
        return core.ppo_policy_loss(x, old, advantages, mask, **CLIP)[0]

    def critic(x):
        return core.masked_mean(core.value_terms(x, old, advantages, mask, value_clip=0.5)[0], mask)

    for loss_of in (policy, critic):
        loss, gradient = jax.value_and_grad(loss_of)(log_probs)
        assert np.isfinite(loss)
        assert gradient[0, 0] != 0
        assert gradient[0, 1] == 0


def test_c04_very_large_log_ratio():
    def loss(x):
        return 0.001 * jnp.sum(core.kl(x, one(-1.0), estimator="k3"))

    value, gradient = jax.value_and_grad(loss)(one(-100.0))
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
    np.testing.assert_allclose(kl_one(-1.5, -1.0, "k3"), 0.1487, atol=1e-4)


@pytest.mark.parametrize(
    ("log_prob", "ref", "expected"),
    [
        (-1.0, -2.0, {"k1": 1.0, "abs": 1.0, "k2": 0.5, "k3": 0.3679}),
        (-2.0, -1.0, {"k1": -1.0, "abs": 1.0, "k2": 0.5, "k3": 0.7183}),
        (-3.0, -3.0, {"k1": 0.0, "abs": 0.0, "k2": 0.0, "k3": 0.0}),
    ],
)
def test_c05_estimator_values(log_prob, ref, expected):
    for estimator, value in expected.items():
        np.testing.assert_allclose(kl_one(log_prob, ref, estimator), value, atol=1e-4)


@given(hnp.arrays(np.float32, (2, 3), elements=LOG_PROBS), hnp.arrays(np.float32, (2, 3), elements=LOG_PROBS))
def test_c05_abs_k2_and_k3_are_never_negative(log_probs, ref):
    for estimator in ("abs", "k2", "k3"):
        assert np.asarray(core.kl(log_probs, ref, estimator=estimator)).min() >= 0


LOGITS = np.array([0.3, -1.0, 0.6, 0.1], np.float32)
REF = np.asarray(jax.nn.log_softmax(jnp.array([-0.5, 0.2, 0.4, 0.6])))


def kl_forward(x):
    return jnp.sum(jax.nn.softmax(x) * (jax.nn.log_softmax(x) - REF))


def kl_backward(x):
    return jnp.sum(jnp.exp(REF) * (REF - jax.nn.log_softmax(x)))


def total_variation(x):
    return jnp.sum(jnp.abs(jax.nn.softmax(x) - jnp.exp(REF)))


def expectation(x, estimator):
    return jnp.sum(jax.nn.softmax(x) * core.kl(jax.nn.log_softmax(x)[None], REF[None], estimator=estimator)[0])


def loss_gradient(estimator):
    """Expected gradient of the estimator as a loss: all actions, weighted by the policy that sampled."""
    weights = jax.nn.softmax(LOGITS)
    return jax.grad(
        lambda x: jnp.sum(weights * core.kl(jax.nn.log_softmax(x)[None], REF[None], estimator=estimator)[0])
    )(LOGITS)


def reward_gradient(estimator):
    """Expected gradient of the PPO loss where minus the estimator is the advantage, at ratio 1."""
    weights, now = jax.nn.softmax(LOGITS), jax.nn.log_softmax(LOGITS)[None]
    advantages = -core.kl(now, REF[None], estimator=estimator)

    def surrogate(x):
        loss, _, _ = core.ppo_terms(
            jax.nn.log_softmax(x)[None], now, advantages, np.ones((1, 4), bool), **CLIP, clip_dual=3.0
        )
        return jnp.sum(weights * loss[0])

    return jax.grad(surrogate)(LOGITS)


@pytest.mark.parametrize(
    ("estimator", "target"),
    [("k1", lambda x: 0.0 * x.sum()), ("abs", total_variation), ("k2", kl_forward), ("k3", kl_backward)],
)
def test_expected_gradient_of_each_estimator_as_a_loss(estimator, target):
    np.testing.assert_allclose(loss_gradient(estimator), jax.grad(target)(LOGITS), atol=1e-6)


@pytest.mark.parametrize(
    ("estimator", "target"),
    [
        ("k1", kl_forward),
        ("abs", lambda x: expectation(x, "abs") - total_variation(x)),
        ("k2", lambda x: expectation(x, "k2") - kl_forward(x)),
        ("k3", lambda x: kl_forward(x) - kl_backward(x)),
    ],
)
def test_expected_gradient_of_each_estimator_in_the_reward(estimator, target):
    actual = reward_gradient(estimator)
    np.testing.assert_allclose(actual, jax.grad(target)(LOGITS), atol=1e-6)
    if estimator != "k1":  # only k1 there pulls like the KL itself
        assert np.abs(np.asarray(actual - jax.grad(kl_forward)(LOGITS))).max() > 0.01


@pytest.mark.parametrize("estimator", ["k1", "abs", "k2", "k3"])
def test_loss_and_reward_form_add_up_to_the_gradient_of_the_mean(estimator):
    total = jax.grad(expectation)(LOGITS, estimator)
    np.testing.assert_allclose(loss_gradient(estimator) + reward_gradient(estimator), total, atol=1e-6)
    value = float(expectation(LOGITS, estimator))
    if estimator in ("k1", "k3"):
        np.testing.assert_allclose(value, float(kl_forward(LOGITS)), rtol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_c06_masked_rows_add_nothing(mode):
    rng = np.random.default_rng(1)
    log_probs, old, ref, advantages = rng.normal(size=(4, 2, 5)).astype(np.float32)
    mask = np.ones((2, 5), bool)
    mask[0, 3:] = False

    def objective(x, old, ref, advantages, mask):
        rows = jnp.ones(x.shape[0])
        length = 5.0 if mode == "seq-mean-token-sum-norm" else None
        denominator = core.aggregation_denominator(mask, rows, mode=mode, constant_length=length)
        task, _, _ = core.ppo_terms(x, old, advantages, mask, **CLIP, clip_dual=3.0)
        values = jnp.stack([task, 0.01 * core.kl(x, ref, estimator="k3"), -0.02 * jnp.square(x)])
        terms = [core.aggregate(v, mask, rows, mode=mode, denominator=denominator) for v in values]
        return jnp.sum(jnp.stack(terms)), (terms, jnp.sum(mask))

    (loss, (terms, tokens)), gradient = jax.value_and_grad(objective, has_aux=True)(
        log_probs, old, ref, advantages, mask
    )

    def more(x, fill):
        return np.concatenate([x, np.full((2, 5), fill, x.dtype)])

    (loss_more, (terms_more, tokens_more)), gradient_more = jax.value_and_grad(objective, has_aux=True)(
        more(log_probs, 0), more(old, -50), more(ref, -50), more(advantages, 1), more(mask, False)
    )
    np.testing.assert_allclose(loss_more, loss, rtol=1e-6)
    np.testing.assert_allclose(terms_more, terms, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(gradient_more)[:2], gradient, rtol=1e-6)
    assert not np.asarray(gradient_more)[2:].any()
    assert int(tokens_more) == int(tokens)


@pytest.mark.parametrize("mode", MODES)
def test_c08_an_empty_mask_gives_zero_loss_and_gradient(mode):
    length = 5.0 if mode == "seq-mean-token-sum-norm" else None
    x = np.full((2, 3), -80.0, np.float32)
    mask = np.zeros((2, 3), bool)
    (loss, metrics), gradient = jax.value_and_grad(
        lambda y: core.ppo_policy_loss(y, 0 * x, x, mask, **CLIP, aggregation=mode, constant_length=length),
        has_aux=True,
    )(x)
    assert float(loss) == 0.0
    assert not np.asarray(gradient).any()
    assert {float(m) for m in metrics.values()} == {0.0}


def test_the_norm_of_a_whole_batch_is_its_padded_length_unless_given():
    arrays = np.random.default_rng(2).normal(size=(3, 2, 4)).astype(np.float32)
    mask = np.array([[True, True, False, False], [True, True, True, False]])
    mode = "seq-mean-token-sum-norm"
    loss, _ = core.ppo_policy_loss(*arrays, mask, **CLIP, aggregation=mode)
    total, _ = core.ppo_policy_loss(*arrays, mask, **CLIP, aggregation="seq-mean-token-sum")
    np.testing.assert_allclose(loss, total / 4, rtol=1e-6)
    loss, _ = core.ppo_policy_loss(*arrays, mask, **CLIP, aggregation=mode, constant_length=10.0)
    np.testing.assert_allclose(loss, total / 10, rtol=1e-6)
    with pytest.raises(ValueError, match=r"'token-mean' with constant_length=10.0"):
        core.ppo_policy_loss(*arrays, mask, **CLIP, constant_length=10.0)


def test_value_clip_takes_the_larger_error():
    values, old, returns, mask = one(2.0), one(0.0), one(3.0), one(1)
    loss, clipped = core.value_terms(values, old, returns, mask, value_clip=0.5)
    assert (loss.tolist(), clipped.tolist()) == ([[0.5 * 2.5**2]], [[True]])
    loss, clipped = core.value_terms(values, old, returns, mask, value_clip=0.0)
    assert (loss.tolist(), clipped.tolist()) == ([[0.5]], [[False]])
    loss, _ = core.value_terms(one(np.nan), old, returns, one(0), value_clip=0.5)
    assert loss.tolist() == [[0.0]]


def test_refusals_name_the_value():
    x = one(0.0)
    with pytest.raises(ValueError, match="clip_low=1"):
        core.ppo_terms(x, x, x, x, clip_low=1, clip_high=0.2, clip_dual=3.0)
    with pytest.raises(ValueError, match=r"clip_high=-0.1"):
        core.ppo_terms(x, x, x, x, clip_low=0.2, clip_high=-0.1, clip_dual=3.0)
    with pytest.raises(ValueError, match=r"clip_dual=0.5"):
        core.ppo_terms(x, x, x, x, **CLIP, clip_dual=0.5)
    with pytest.raises(ValueError, match="'k4'"):
        core.kl(x, x, estimator="k4")
    with pytest.raises(ValueError, match="value_clip=-1"):
        core.value_terms(x, x, x, x, value_clip=-1)


def test_golden_policy_losses(golden_dir):
    golden = json.loads((golden_dir / "ppo_losses.json").read_text())
    log_probs, old, advantages, mask = (
        np.array(golden[name], np.float32) for name in ("log_prob", "old_log_prob", "advantages", "mask")
    )
    for case in golden["policy"]:
        mode = case["loss_agg_mode"]
        # The released code divides the sum of this mode by the padded length only, not by the rows.
        factor = mask.shape[0] if mode == "seq-mean-token-sum-norm" else 1

        def loss_of(x, case=case, mode=mode, factor=factor):
            loss, metrics = core.ppo_policy_loss(
                x,
                old,
                advantages,
                mask,
                clip_low=case["clip_low"],
                clip_high=case["clip_high"],
                clip_dual=case["clip_ratio_c"],
                aggregation=mode,
            )
            return loss * factor, metrics

        (loss, metrics), gradient = jax.value_and_grad(loss_of, has_aux=True)(log_probs)
        np.testing.assert_allclose(loss, case["pg_loss"], rtol=1e-5)
        np.testing.assert_allclose(gradient, case["grad_wrt_log_prob"], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(metrics["clip_fraction"], case["clipfrac"], rtol=1e-5)
        np.testing.assert_allclose(metrics["clip_fraction_lower"], case["clipfrac_lower"], rtol=1e-5)
        np.testing.assert_allclose(metrics["kl_old_k1"], case["ppo_kl"], rtol=1e-5)


def test_golden_kl_value_and_aggregation(golden_dir):
    golden = json.loads((golden_dir / "ppo_losses.json").read_text())
    mask = np.array(golden["mask"], bool)
    log_probs, ref = (np.array(golden[name], np.float32) for name in ("log_prob", "ref_log_prob"))
    names = {"kl": "k1", "k1": "k1", "abs": "abs", "mse": "k2", "k2": "k2", "low_var_kl": "k3", "k3": "k3"}
    compared = 0
    for case in golden["kl"]:
        if case["error"]:  # spellings that raise there
            continue
        estimator = names[case["form"]]
        np.testing.assert_allclose(
            core.kl(log_probs, ref, estimator=estimator), case["per_token"], rtol=1e-5, atol=1e-6
        )
        gradient = jax.grad(lambda x, e=estimator: core.masked_mean(core.kl(x, ref, estimator=e), mask))(log_probs)
        np.testing.assert_allclose(gradient, case["grad_wrt_log_prob"], rtol=1e-5, atol=1e-6)
        compared += 1
    assert compared >= 5
    critic = golden["value"]
    values, old, returns = (np.array(critic[name], np.float32) for name in ("vpreds", "old_values", "returns"))
    for case in critic["cases"]:
        loss, clipped = core.value_terms(values, old, returns, mask, value_clip=case["cliprange_value"])
        np.testing.assert_allclose(core.masked_mean(loss, mask), case["vf_loss"], rtol=1e-5)
        np.testing.assert_allclose(core.masked_mean(clipped, mask), case["clipfrac"], rtol=1e-5)
    loss = np.array(golden["agg"]["loss_mat"], np.float32)
    rows = np.ones(len(loss), np.float32)
    for mode, expected in golden["agg"]["result"].items():
        norm = mode == "seq-mean-token-sum-norm"
        denominator = core.aggregation_denominator(
            mask, rows, mode=mode, constant_length=mask.shape[1] if norm else None
        )
        actual = core.aggregate(loss, mask, rows, mode=mode, denominator=denominator)
        np.testing.assert_allclose(actual * (len(loss) if norm else 1), expected, rtol=1e-5)
