"""Sampling: exact log-probs, fresh randomness per row, stop tokens, memory and compiled programs."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ragen_jax.learner.score import ScoreConfig, score
from ragen_jax.models.sharding import make_mesh, shardings
from ragen_jax.models.transformer import init_params
from ragen_jax.sampling.sampler import (
    LEAST_TEMPERATURE,
    Sampler,
    SamplerConfig,
    decode,
    extend,
    prefill,
    row_capacity,
)
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


def test_a_session_meets_few_programs_whatever_the_lengths() -> None:
    params = random_params()
    sampler = make_sampler(params, stop_ids=tuple(range(12)), observation_room=1)
    rng = np.random.default_rng(0)

    def play(batch: int) -> None:
        session = begin(sampler, ragged_prompts([5, 3], width=6), seed=(batch,), turns=4)
        for turn in range(4):
            session.respond(np.ones(2 * G, bool))
            if turn < 3:
                session.observe(rng.integers(3, VOCAB, (2 * G, 16)).astype(np.int32), np.ones((2 * G, 16), bool))

    before = decode._cache_size(), extend._cache_size()
    for batch in range(5):
        play(batch)
    # 35 slots at first; the longest session has 4 * 8 + 3 * 16 = 80: 35, 70 and 140 are the sizes
    assert decode._cache_size() - before[0] <= 3 and extend._cache_size() - before[1] <= 3


def test_a_session_begins_with_the_slots_it_can_fill_but_no_more_than_a_row_may_hold() -> None:
    sizes = {"max_turns": 3, "max_new_tokens": 12, "observation_room": 2}
    assert row_capacity(**sizes, max_context=64) == 3 * 12 + 2 * 2
    assert row_capacity(**sizes, max_context=30) == 30
    sampler = make_sampler(random_params(), max_new_tokens=12, observation_room=2)
    ragged = ragged_prompts([4], width=4)
    session = sampler.begin(ragged.tokens, ragged.mask, group_size=G, max_turns=3, max_context=30, seed=(0,))
    assert session._rows.capacity == 30


@pytest.mark.slow
@pytest.mark.parametrize("shape", [{"data": 4}, {"data": 1, "fsdp": 2, "tensor": 2}])
def test_devices_hold_a_part_of_the_rows_from_the_first_turn_on(shape: dict[str, int]) -> None:
    mesh, params = make_mesh(**shape), random_params()
    sampler = Sampler(
        jax.device_put(params, shardings(params, mesh)),
        MODEL,
        SamplerConfig(vocab_size=VOCAB, stop_ids=(), max_new_tokens=3),
        mesh,
    )
    before = decode._cache_size()
    session = begin(sampler, ragged_prompts([3, 5, 4, 2], width=5), turns=3)

    def parts() -> set[float]:
        kept = [*session._rows.keys, *session._rows.values]
        return {leaf.addressable_shards[0].data.size / leaf.size for leaf in kept}

    assert parts() == {1 / 4}
    for _ in range(2):
        session.respond(np.ones(4 * G, bool))
        session.observe(np.ones((4 * G, 2), np.int32), np.ones((4 * G, 2), bool))
        assert parts() == {1 / 4}
    assert decode._cache_size() == before + 1
    session.observe(np.ones((4 * G, 40), np.int32), np.ones((4 * G, 40), bool))  # the cache grows
    assert parts() == {1 / 4}


@pytest.mark.parametrize(
    "shape",
    [{"layers": 6, "mlp_width": 512}, {"vocab_rows": 8192}, {"vocab_rows": 8192, "tied": False}],
    ids=["layers", "embedding", "head"],
)
def test_decoding_keeps_no_second_copy_of_the_parameters(shape: dict[str, int]) -> None:
    config = dataclasses.replace(MODEL, width=128, **shape)
    params = jax.eval_shape(lambda: init_params(config, jax.random.key(0)))
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(params))
    prompt = jax.ShapeDtypeStruct((1, 4), jnp.int32), jax.ShapeDtypeStruct((1, 4), bool)
    prompts, rows = jax.eval_shape(lambda p, t, m: prefill(p, config, t, m, "float32", 2, 4), params, *prompt)
    settings = SamplerConfig(vocab_size=config.vocab_rows - 3, stop_ids=(), max_new_tokens=4)
    active, seed = jax.ShapeDtypeStruct((2,), bool), jax.ShapeDtypeStruct((1,), jnp.uint32)
    program = decode.lower(params, config, settings, prompts, rows, active, seed).compile()
    assert program.memory_analysis().temp_size_in_bytes < 0.3 * size
    tokens = jax.ShapeDtypeStruct((2, 3), jnp.int32), jax.ShapeDtypeStruct((2, 3), bool)
    program = extend.lower(params, config, prompts, rows, *tokens).compile()
    assert program.memory_analysis().temp_size_in_bytes < 0.3 * size


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens=0 is too small; use 1 or more"),
        ({"vocab_size": 0}, "vocab_size=0 is too small"),
        ({"top_k": -1}, "top_k=-1 is too small; use 0 or more"),
        ({"observation_room": -1}, "observation_room=-1 is too small"),
        ({"top_p": 0.0}, r"top_p=0\.0 must be above 0"),
        ({"top_p": 1.1}, r"top_p=1\.1 must be above 0 and at most 1"),
        ({"top_p": float("nan")}, "top_p=nan"),
        ({"temperature": -1.0}, r"temperature=-1\.0 must be a number from 0\.001 on"),
        ({"temperature": 1e-30}, "temperature=1e-30 must be"),
        ({"temperature": float("nan")}, "temperature=nan must be"),
        ({"temperature": float("inf")}, "temperature=inf must be"),
    ],
)
def test_settings_that_cannot_work_are_refused(setting: dict[str, float], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        SamplerConfig(**({"vocab_size": VOCAB, "stop_ids": (), "max_new_tokens": 8} | setting))


def test_a_row_that_holds_no_reply_is_refused() -> None:
    ragged = ragged_prompts([4], width=4)
    with pytest.raises(ValueError, match=r"max_new_tokens=8 does not fit in rollout\.max_context=7"):
        make_sampler({}).begin(ragged.tokens, ragged.mask, group_size=G, max_turns=1, max_context=7, seed=(0,))


def test_the_least_temperature_takes_the_likeliest_token() -> None:
    params, ragged = random_params(), ragged_prompts([5, 3], width=6)
    active = np.ones(2 * G, bool)
    greedy = begin(make_sampler(params, temperature=0.0), ragged).respond(active)
    cold = begin(make_sampler(params, temperature=LEAST_TEMPERATURE), ragged).respond(active)
    np.testing.assert_array_equal(cold.tokens, greedy.tokens)
    assert np.isfinite(cold.log_probs).all()


def test_c10_temperature_is_in_the_recorded_log_probs():
    params = random_params()
    ragged = ragged_prompts([4], width=4)
    reply = begin(make_sampler(params, temperature=0.5), ragged).respond(np.ones(G, bool))
    row = reply.tokens[0, : reply.lengths[0]].tolist()
    warm = oracle.continuation_log_probs(params, MODEL, ragged.prompts[0], row, vocab_size=VOCAB)
    cold = oracle.continuation_log_probs(params, MODEL, ragged.prompts[0], row, vocab_size=VOCAB, temperature=0.5)
    np.testing.assert_allclose(reply.log_probs[0, : len(row)], cold, atol=1e-4)
    assert np.abs(cold - warm).max() > 1e-2
