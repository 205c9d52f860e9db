"""Sampling: exact log-probs, fresh randomness per row, stop tokens, truncation without sorting."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragen_jax.learner.score import ScoreConfig, score
from ragen_jax.models.sharding import make_mesh
from ragen_jax.sampling.logits import draw, truncate
from ragen_jax.sampling.sampler import Sampler, SamplerConfig
from tests.device_fixtures import MODEL, VOCAB, ragged_prompts, random_params
from tests.oracles import decoder as oracle

G = 4


def make_sampler(params: dict, **settings: object) -> Sampler:
    defaults = {"vocab_size": VOCAB, "stop_ids": (1,), "max_new_tokens": 8}
    return Sampler(params, MODEL, SamplerConfig(**(defaults | settings)), make_mesh(data=1))


def begin(sampler: Sampler, ragged, *, seed: tuple[int, ...] = (0,), turns: int = 1):
    return sampler.begin(ragged.tokens, ragged.mask, group_size=G, max_turns=turns, max_context=64, seed=seed)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_c11_recorded_log_probs_equal_a_full_pass_over_three_turns(temperature: float):
    params = random_params()
    ragged = ragged_prompts([3, 9, 5, 1, 7, 2, 6, 4], width=10)
    sampler = make_sampler(params, max_new_tokens=12, temperature=temperature, observation_room=2)
    session = begin(sampler, ragged, turns=3)
    rows = len(ragged.prompts) * G
    streams: list[list[int]] = [[] for _ in range(rows)]
    recorded: list[list[float]] = [[] for _ in range(rows)]
    rng = np.random.default_rng(0)
    active = np.ones(rows, bool)
    for turn in range(3):
        reply = session.respond(active)
        for row in range(rows):
            streams[row] += reply.tokens[row, : reply.lengths[row]].tolist()
            recorded[row] += reply.log_probs[row, : reply.lengths[row]].tolist()
        active[3] = False  # an episode that ended early
        if turn < 2:  # longer than the room set aside, so the cache must grow
            lengths = rng.integers(1, 6, rows) * active
            mask = np.arange(6) < lengths[:, None]
            tokens = (rng.integers(3, VOCAB, (rows, 6)) * mask).astype(np.int32)
            session.observe(tokens, mask)
            for row in range(rows):
                streams[row] += tokens[row, : lengths[row]].tolist()
                recorded[row] += [np.nan] * int(lengths[row])
    width = max(map(len, streams))
    padded = np.zeros((rows, width), np.int32)
    expected = np.full((rows, width), np.nan)
    for row, (stream, log_probs) in enumerate(zip(streams, recorded, strict=True)):
        padded[row, : len(stream)] = stream
        expected[row, : len(log_probs)] = log_probs
    scoring = ScoreConfig(vocab_size=VOCAB, temperature=temperature)
    got = score(params, MODEL, scoring, ragged.tokens, ragged.mask, padded.reshape(-1, G, width), 2)
    assert np.nanmax(np.abs(np.asarray(got).reshape(rows, width) - expected)) < 1e-4
    alone = oracle.continuation_log_probs(
        params, MODEL, ragged.prompts[1], streams[G], vocab_size=VOCAB, temperature=temperature
    )
    assert np.nanmax(np.abs(alone - expected[G, : len(streams[G])])) < 1e-4


def test_greedy_equals_the_oracle_token_for_token():
    params = random_params()
    ragged = ragged_prompts([3, 9, 5], width=9)
    reply = begin(make_sampler(params, temperature=0.0), ragged).respond(np.ones(3 * G, bool))
    for row in range(3 * G):
        stream = list(ragged.prompts[row // G])
        for token in reply.tokens[row, : reply.lengths[row]]:
            assert token == oracle.logits(params, MODEL, stream, vocab_size=VOCAB)[-1].argmax()
            stream.append(int(token))


def test_c39_rows_differ_calls_differ_and_the_same_seed_repeats():
    params = jax.tree.map(jnp.zeros_like, random_params())  # flat logits
    ragged = ragged_prompts([5], width=5)
    sampler = make_sampler(params, max_new_tokens=16, stop_ids=())
    active = np.ones(G, bool)
    first = begin(sampler, ragged, seed=(0, 1)).respond(active).tokens
    again = begin(sampler, ragged, seed=(0, 1)).respond(active).tokens
    other = begin(sampler, ragged, seed=(0, 2)).respond(active).tokens
    assert len({tuple(row) for row in first}) == G
    assert all(len(set(row)) > 1 for row in first.tolist())
    assert (first == again).all()
    assert not (first == other).all(axis=1).any()


def test_a_rows_samples_do_not_depend_on_the_other_rows():
    params = random_params()
    ragged = ragged_prompts([5, 3], width=6)
    everyone = begin(make_sampler(params), ragged).respond(np.ones(2 * G, bool))
    some = np.array([True, False] * G)
    half = begin(make_sampler(params), ragged).respond(some)
    assert (half.tokens[some] == everyone.tokens[some]).all()
    assert (half.lengths[~some] == 0).all() and (half.tokens[~some] == 0).all()


def test_stop_tokens_end_a_row_and_are_part_of_it():
    params = random_params()
    ragged = ragged_prompts([4], width=4)
    stops = tuple(range(3, 20))
    reply = begin(make_sampler(params, stop_ids=stops), ragged).respond(np.ones(G, bool))
    for row in range(G):
        stream = reply.tokens[row, : reply.lengths[row]].tolist()
        hits = [token in stops for token in stream]
        assert not any(hits[:-1])
        assert reply.ended[row] == hits[-1]
        if not reply.ended[row]:
            assert len(stream) == 8


@given(st.integers(0, 2**31 - 1), st.sampled_from([0.3, 0.9, 1.0]), st.sampled_from([0, 1, 5]))
def test_truncation_keeps_the_smallest_nucleus(seed: int, top_p: float, top_k: int):
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.full(50, 0.3), size=3).astype(np.float32)
    got = np.asarray(truncate(jnp.asarray(probabilities), top_p=top_p, top_k=top_k))
    for row, kept in zip(probabilities, got, strict=True):
        order = np.argsort(-row)
        size = len(row) if top_k == 0 else min(top_k, len(row))
        head = row[order[:size]].astype(np.float64)
        if top_p < 1:
            size = int(np.searchsorted(np.cumsum(head), top_p * head.sum() * (1 - 1e-6))) + 1
        expected = set(order[:size][row[order[:size]] > 1e-6])
        assert {i for i in np.flatnonzero(kept) if row[i] > 1e-6} == expected


def test_draws_follow_the_distribution_and_never_hit_a_zero():
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.full(70, 0.5)).astype(np.float32)
    weights[::3] = 0
    weights /= weights.sum()
    uniforms = rng.random(60_000).astype(np.float32)
    tokens = np.asarray(draw(jnp.broadcast_to(weights, (60_000, 70)), jnp.asarray(uniforms)))
    counts = np.bincount(tokens, minlength=70)
    assert (counts[weights == 0] == 0).all()
    alive = weights * 60_000 > 5
    chi = ((counts - weights * 60_000) ** 2 / np.maximum(weights * 60_000, 1e-9))[alive].sum()
    assert chi < alive.sum() + 4 * np.sqrt(2 * alive.sum())
    edge = np.asarray(draw(jnp.broadcast_to(weights, (2, 70)), jnp.array([0.0, np.float32(1) - 1e-7])))
    assert (weights[edge] > 0).all()


def test_c10_temperature_is_in_the_recorded_log_probs():
    params = random_params()
    ragged = ragged_prompts([4], width=4)
    reply = begin(make_sampler(params, temperature=0.5), ragged).respond(np.ones(G, bool))
    row = reply.tokens[0, : reply.lengths[0]].tolist()
    warm = oracle.continuation_log_probs(params, MODEL, ragged.prompts[0], row, vocab_size=VOCAB)
    cold = oracle.continuation_log_probs(params, MODEL, ragged.prompts[0], row, vocab_size=VOCAB, temperature=0.5)
    np.testing.assert_allclose(reply.log_probs[0, : len(row)], cold, atol=1e-4)
    assert np.abs(cold - warm).max() > 1e-2
