"""The decoder against a float64 oracle, padded, shared and cached."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ragen_jax.learner.score import ScoreConfig, response_log_probs
from ragen_jax.models.cache import empty_rows
from ragen_jax.models.head import token_log_probs
from ragen_jax.models.transformer import cached_pass, continuation_pass, init_params, prompt_pass, reads
from tests.device_fixtures import MODEL, VOCAB, ragged_prompts, random_params
from tests.oracles import decoder as oracle

SCORING = ScoreConfig(vocab_size=VOCAB)


def test_parameter_count_is_that_of_the_parameters():
    params = init_params(MODEL, jax.random.key(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == MODEL.parameter_count()


def test_c22_left_padding_changes_nothing():
    params = random_params()
    ragged = ragged_prompts([3, 9], width=12)
    batch = prompt_pass(params, MODEL, ragged.tokens, ragged.mask, dtype="float32")
    assert batch.lengths.tolist() == [3, 9]
    for row, prompt in enumerate(ragged.prompts):
        expected = oracle.hidden_states(params, MODEL, prompt)[-1]
        np.testing.assert_allclose(batch.last_hidden[row], expected, atol=2e-5)
        alone = prompt_pass(params, MODEL, np.array([prompt]), np.ones((1, len(prompt)), bool), dtype="float32")
        np.testing.assert_allclose(batch.last_hidden[row], alone.last_hidden[0], atol=1e-5)


def test_a_common_beginning_gives_the_same_cache():
    params = random_params()
    ragged = ragged_prompts([3, 9], width=9)
    beginning = np.array([[4, 5, 6, 7]], np.int32)
    first = prompt_pass(params, MODEL, beginning, np.ones((1, 4), bool), dtype="float32")
    batch = prompt_pass(params, MODEL, ragged.tokens, ragged.mask, dtype="float32", beginning=first)
    assert batch.lengths.tolist() == [7, 13] and batch.mask.sum(1).tolist() == [7, 13]
    for row, prompt in enumerate(ragged.prompts):
        whole = np.array([[*beginning[0], *prompt]])
        alone = prompt_pass(params, MODEL, whole, np.ones_like(whole, bool), dtype="float32")
        real = np.asarray(batch.mask[row])
        np.testing.assert_allclose(batch.last_hidden[row], alone.last_hidden[0], atol=1e-5)
        np.testing.assert_allclose(batch.keys[:, row][..., real], alone.keys[:, 0], atol=1e-5)
        np.testing.assert_allclose(batch.values[:, row][..., real, :], alone.values[:, 0], atol=1e-5)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_group_log_probs_equal_the_oracle(temperature: float):
    params = random_params()
    ragged = ragged_prompts([3, 9], width=10)
    rng = np.random.default_rng(1)
    tokens = rng.integers(3, VOCAB, (2, 3, 6)).astype(np.int32)
    scoring = ScoreConfig(vocab_size=VOCAB, temperature=temperature)
    got, entropy = response_log_probs(params, MODEL, scoring, ragged.tokens, ragged.mask, tokens)
    for i, k in np.ndindex(2, 3):
        expected = oracle.continuation_log_probs(
            params, MODEL, ragged.prompts[i], tokens[i, k].tolist(), vocab_size=VOCAB, temperature=temperature
        )
        np.testing.assert_allclose(got[i, k], expected, atol=5e-5)
    assert entropy.shape == tokens.shape and float(entropy.min()) >= 0


@pytest.mark.parametrize(
    "change", [{"rope_theta": 1e6}, {"norm_eps": 1e-1}, {"kv_heads": 1}], ids=["theta", "eps", "heads"]
)
def test_the_oracle_tells_wrong_networks_apart(change: dict[str, float]):
    params = random_params()
    ragged = ragged_prompts([9], width=9)
    tokens = np.arange(3, 27, dtype=np.int32)[None, None]
    wrong = dataclasses.replace(MODEL, **change)
    wrong_params = params
    if "kv_heads" in change:
        layers = {n: leaf[:, :, :1] if n in ("key", "value") else leaf for n, leaf in params["layers"].items()}
        layers |= {n: leaf[:, :1] for n, leaf in layers.items() if n in ("key_bias", "value_bias")}
        wrong_params = params | {"layers": layers}
    got, _ = response_log_probs(wrong_params, wrong, SCORING, ragged.tokens, ragged.mask, tokens)
    expected = oracle.continuation_log_probs(params, MODEL, ragged.prompts[0], tokens[0, 0].tolist(), vocab_size=VOCAB)
    assert np.abs(np.asarray(got)[0, 0] - expected).max() > 1e-2


def test_padding_behind_a_row_changes_nothing():
    params = random_params()
    ragged = ragged_prompts([4], width=4)
    tokens = np.array([[[5, 6, 7, 8]]], np.int32)
    padded = np.pad(tokens, ((0, 0), (0, 0), (0, 3)), constant_values=9)
    short, _ = response_log_probs(params, MODEL, SCORING, ragged.tokens, ragged.mask, tokens)
    long, _ = response_log_probs(params, MODEL, SCORING, ragged.tokens, ragged.mask, padded)
    np.testing.assert_allclose(long[..., :4], short, atol=1e-6)


def test_cached_pass_equals_the_whole_pass_with_holes_between_turns():
    params = random_params()
    ragged = ragged_prompts([3, 6], width=7)
    prompts = prompt_pass(params, MODEL, ragged.tokens, ragged.mask, dtype="float32")
    rows = empty_rows(MODEL, prompts, group_size=2, capacity=12)
    run = jax.jit(cached_pass, static_argnums=1)
    rng = np.random.default_rng(2)
    streams: list[list[int]] = [[] for _ in range(4)]
    for width in (1, 4, 1, 5):  # single tokens as in decoding, blocks as observations
        lengths = rng.integers(0, width + 1, 4)
        mask = np.arange(width) < lengths[:, None]
        tokens = (rng.integers(3, VOCAB, (4, width)) * mask).astype(np.int32)
        rows = run(params, MODEL, prompts, rows, jnp.asarray(tokens), jnp.asarray(mask))
        for row in range(4):
            streams[row] += tokens[row, : lengths[row]].tolist()
        for row in range(4):
            whole = [*ragged.prompts[row // 2], *streams[row]]
            expected = oracle.hidden_states(params, MODEL, whole)[-1]
            np.testing.assert_allclose(rows.last_hidden[row], expected, atol=3e-5)
    assert rows.lengths.tolist() == [len(stream) for stream in streams]


def test_a_row_may_hold_trees_of_tokens():
    params = random_params()
    ragged = ragged_prompts([5], width=6)
    prompts = prompt_pass(params, MODEL, ragged.tokens, ragged.mask, dtype="float32")
    #      4 -> 5 -> 6, 4 -> 7, and 8 -> 9 apart; the last place is padding
    packed = continuation_pass(
        params,
        MODEL,
        prompts,
        np.array([[[4, 5, 6, 7, 8, 9, 0]]], np.int32),
        ends=np.array([[[3, 2, 2, 3, 5, 5, -1]]]),
        offsets=np.array([[[0, 1, 2, 1, 0, 1, 0]]]),
    )[0, 0]
    for tokens, places in (([4, 5, 6], [0, 1, 2]), ([4, 7], [0, 3]), ([8, 9], [4, 5])):
        expected = oracle.hidden_states(params, MODEL, [*ragged.prompts[0], *tokens])[len(ragged.prompts[0]) :]
        np.testing.assert_allclose(packed[np.array(places)], expected, atol=3e-5)


def test_reads_is_the_way_back_to_the_root():
    ends = np.array([[3, 2, 2, 3, -1], [4, 4, 4, 4, 4]])
    tree, chain = np.asarray(reads(ends))
    assert [np.flatnonzero(row).tolist() for row in tree] == [[0], [0, 1], [0, 1, 2], [0, 3], []]
    assert (chain == np.tril(np.ones((5, 5), bool))).all()


def test_chunked_head_equals_whole_head_and_masks_unused_rows():
    params = random_params()
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(11, MODEL.width)).astype(np.float32)
    targets = rng.integers(0, VOCAB, 11).astype(np.int32)
    whole = token_log_probs(params, MODEL, hidden, targets, vocab_size=VOCAB, temperature=1.0)
    pieces = token_log_probs(params, MODEL, hidden, targets, vocab_size=VOCAB, temperature=1.0, chunk=4)
    np.testing.assert_allclose(pieces[0], whole[0], atol=1e-6)
    np.testing.assert_allclose(pieces[1], whole[1], atol=1e-6)
    scores = hidden.astype(np.float64) @ np.asarray(params["embedding"], np.float64)[:VOCAB].T
    log_z = np.log(np.exp(scores).sum(1))
    np.testing.assert_allclose(whole[0], scores[np.arange(11), targets] - log_z, atol=2e-5)


def test_remat_does_not_change_gradients():
    params = random_params()
    ragged = ragged_prompts([3, 5], width=5)
    tokens = np.random.default_rng(0).integers(3, VOCAB, (2, 2, 4)).astype(np.int32)

    @functools.partial(jax.jit, static_argnums=1)
    def loss(params: dict, remat: bool) -> jax.Array:
        log_probs, _ = response_log_probs(params, MODEL, SCORING, ragged.tokens, ragged.mask, tokens, remat=remat)
        return log_probs.sum()

    plain, remat = jax.grad(loss)(params, False), jax.grad(loss)(params, True)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5, rtol=1e-5), plain, remat)
