"""Cross-scores against the float64 decoder, and the packing of reasonings."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragen_jax.learner import cross_score as cross_score_module
from ragen_jax.learner.cross_score import contexts_together, cross_score, pieces, plan_work, split_beginning
from ragen_jax.learner.packing import PackedReasonings, pack
from ragen_jax.learner.score import ScoreConfig
from ragen_jax.models.sharding import make_mesh, shardings
from ragen_jax.models.transformer import reads
from ragen_jax.types import CrossScores, ReasoningPairs
from tests.device_fixtures import MODEL, VOCAB, ragged_prompts, random_params
from tests.oracles import decoder as oracle

SCORING = ScoreConfig(vocab_size=VOCAB, temperature=0.8)
MESH = make_mesh(data=1)
WIDTH = 5


def make_pairs(lengths: list[list[int]], *, prompt_width: int = 7, seed: int = 0) -> ReasoningPairs:
    """Contexts of different lengths; ``lengths[i][k]`` tokens in reasoning k of context i."""
    rng = np.random.default_rng(seed)
    columns, group = np.shape(lengths)
    ragged = ragged_prompts([2 + i % 4 for i in range(columns)], width=prompt_width, seed=seed)
    mask = np.arange(WIDTH) < np.asarray(lengths)[..., None]
    tokens = rng.integers(3, VOCAB, (columns, group, WIDTH)).astype(np.int32)
    return ReasoningPairs(
        prompt_tokens=ragged.tokens,
        prompt_mask=ragged.mask,
        reasoning_tokens=tokens,
        reasoning_mask=mask,
        column_class=np.arange(columns, dtype=np.int32),
    )


def padded(words: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Tokens and mask [M, longest], right padded."""
    width = max(1, *map(len, words)) if words else 1
    mask = np.arange(width) < np.array([len(word) for word in words])[:, None]
    tokens = np.zeros(mask.shape, np.int32)
    tokens[mask] = [token for word in words for token in word]
    return tokens, mask


def naive(pairs: ReasoningPairs) -> np.ndarray:
    """Every pair on its own, [C, G, C]."""
    columns, group, _ = pairs.reasoning_tokens.shape
    out = np.zeros((columns, group, columns))
    for i, k, j in np.ndindex(columns, group, columns):
        reasoning = pairs.reasoning_tokens[i, k][pairs.reasoning_mask[i, k]].tolist()
        context = pairs.prompt_tokens[j][pairs.prompt_mask[j]].tolist()
        out[i, k, j] = oracle.continuation_log_probs(
            random_params(), MODEL, context, reasoning, vocab_size=VOCAB, temperature=0.8
        ).sum()
    return out


def scored(pairs: ReasoningPairs, *, chunk: int = 64) -> CrossScores:
    return cross_score(random_params(), MODEL, SCORING, pairs, mesh=MESH, chunk=chunk)


LENGTHS = [[5, 1, 3], [0, 2, 4], [1, 5, 0]]


def test_every_entry_equals_the_naive_matrix():
    pairs = make_pairs(LENGTHS)
    scores = scored(pairs)
    assert scores.lengths.tolist() == LENGTHS
    assert scores.valid.tolist() == [[n > 0 for n in row] for row in LENGTHS]
    error = np.abs(scores.log_probs - naive(pairs)) / np.maximum(scores.lengths, 1)[..., None]
    assert error.max() < 1e-5
    assert not scores.log_probs[~scores.valid].any()


@pytest.mark.parametrize("chunk", [1, 2, 4])
def test_chunks_agree(chunk: int):
    pairs = make_pairs(LENGTHS)
    np.testing.assert_allclose(scored(pairs, chunk=chunk).log_probs, scored(pairs).log_probs, atol=1e-5)


def test_equal_columns_are_scored_once_and_expanded():
    pairs = make_pairs(LENGTHS)
    tokens, mask = np.array(pairs.prompt_tokens), np.array(pairs.prompt_mask)
    tokens[2], mask[2] = tokens[0], mask[0]
    twins = dataclasses.replace(
        pairs, prompt_tokens=tokens, prompt_mask=mask, column_class=np.array([4, 9, 4], np.int32)
    )
    scores = scored(twins)
    assert (scores.log_probs[..., 2] == scores.log_probs[..., 0]).all()
    assert np.abs(scores.log_probs - naive(twins)).max() < 5e-5
    assert scores.column_class.tolist() == [4, 9, 4]
    # Only the first of a class is read: what stands in the other column does not matter.
    tokens = np.array(tokens)
    tokens[2] = 3
    assert (scored(dataclasses.replace(twins, prompt_tokens=tokens)).log_probs == scores.log_probs).all()


def test_padding_changes_nothing():
    pairs = make_pairs(LENGTHS)
    garbage = dataclasses.replace(
        pairs,
        prompt_tokens=np.where(pairs.prompt_mask, pairs.prompt_tokens, 11).astype(np.int32),
        reasoning_tokens=np.where(pairs.reasoning_mask, pairs.reasoning_tokens, 13).astype(np.int32),
    )
    assert (scored(garbage).log_probs == scored(pairs).log_probs).all()
    wide = dataclasses.replace(
        pairs,
        prompt_tokens=np.pad(pairs.prompt_tokens, ((0, 0), (5, 0))),
        prompt_mask=np.pad(pairs.prompt_mask, ((0, 0), (5, 0))),
        reasoning_tokens=np.pad(pairs.reasoning_tokens, ((0, 0), (0, 0), (0, 3))),
        reasoning_mask=np.pad(pairs.reasoning_mask, ((0, 0), (0, 0), (0, 3))),
    )
    np.testing.assert_allclose(scored(wide).log_probs, scored(pairs).log_probs, atol=1e-5)


def test_trajectory_form_has_one_reasoning_a_column():
    pairs = make_pairs([[3], [5], [0], [2]])
    scores = scored(pairs)
    assert scores.log_probs.shape == (4, 1, 4)
    assert np.abs(scores.log_probs - naive(pairs)).max() < 5e-5


def left_padded(words: list[list[int]], *, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens and mask [C, width]."""
    mask = np.arange(width) >= width - np.array([len(word) for word in words])[:, None]
    tokens = np.full(mask.shape, 11, np.int32)  # padding is no zero
    tokens[mask] = [token for word in words for token in word]
    return tokens, mask


@pytest.mark.parametrize(("common", "expected"), [(15, 0), (16, 16), (37, 32)])
def test_what_all_contexts_begin_with_is_run_once_and_changes_nothing(
    common: int, expected: int, monkeypatch: pytest.MonkeyPatch
):
    rng = np.random.default_rng(common)
    system = rng.integers(3, VOCAB, common).tolist()
    tokens, mask = left_padded([[*system, 5 + n, *[7] * n] for n in (1, 4, 2)], width=45)
    pairs = dataclasses.replace(make_pairs(LENGTHS), prompt_tokens=tokens, prompt_mask=mask)
    passes: list[tuple[int, ...]] = []
    real = cross_score_module.prompt_pass

    def spy(params, config, tokens, mask, **settings):
        passes.append(tokens.shape)
        return real(params, config, tokens, mask, **settings)

    monkeypatch.setattr(cross_score_module, "prompt_pass", spy)
    error = np.abs(scored(pairs).log_probs - naive(pairs)) / np.maximum(pairs.reasoning_mask.sum(2), 1)[..., None]
    assert error.max() < 1e-5
    assert passes == ([(1, expected)] if expected else []) + [(3, 45 - expected)]


@given(st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=9), min_size=1, max_size=4), st.integers(0, 40))
def test_beginnings_are_common_and_leave_every_context_a_token(ends: list[list[int]], common: int):
    words = [[2] * common + end for end in ends]
    tokens, mask = left_padded(words, width=50)
    beginning, rest, kept = split_beginning(tokens, mask)
    assert beginning.shape[1] % cross_score_module.BEGINNING == 0
    assert beginning.shape[1] + rest.shape[1] == 50 and kept.any(1).all() and not rest[~kept].any()
    assert [beginning[0].tolist() + row[keep].tolist() for row, keep in zip(rest, kept, strict=True)] == words
    if len(words) > 1:
        assert beginning.shape[1] + cross_score_module.BEGINNING > min(common, min(map(len, words)) - 1)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [{"data": 4}, {"data": 2, "tensor": 2}, {"fsdp": 2, "tensor": 2}])
def test_devices_share_the_rows_and_change_nothing(shape: dict[str, int]):
    mesh = make_mesh(**{"data": 1} | shape)
    pairs = make_pairs(LENGTHS)
    params = jax.device_put(random_params(), shardings(random_params(), mesh))
    scores = cross_score(params, MODEL, SCORING, pairs, mesh=mesh, chunk=2)
    np.testing.assert_allclose(scores.log_probs, scored(pairs).log_probs, atol=1e-5)
    columns = np.array([[0, 2], [1, 0], [2, 1]], np.int32)
    some = cross_score(params, MODEL, SCORING, pairs, mesh=mesh, columns=columns)
    whole = np.take_along_axis(scores.log_probs, columns[:, None, :], axis=2)
    np.testing.assert_allclose(some.log_probs, whole, atol=1e-5)


def test_four_devices_do_a_quarter_of_the_work_each():
    pairs = make_pairs([[5] * 16] * 4)

    def flops(devices: int, chunk: int) -> float:
        work = plan_work(pairs, chunk=chunk, shards=devices)
        assert work.at_once == work.contexts_at_once == 4
        lowered = cross_score_module._score_items.lower(
            random_params(),
            MODEL,
            SCORING,
            *work.arrays,
            work.at_once,
            work.contexts_at_once,
            mesh=make_mesh(data=devices),
        )
        return float(lowered.compile().cost_analysis()["flops"])

    # A loop's body counts once: all four contexts and four items of one row.
    assert flops(4, chunk=13) < 0.27 * flops(1, chunk=52)


def test_contexts_run_in_parts_that_the_chunk_bounds(monkeypatch: pytest.MonkeyPatch):
    pairs = make_pairs([[3], [5], [0], [2], [4]])
    shapes: list[tuple[int, ...]] = []
    real = cross_score_module.prompt_pass

    def spy(params, config, tokens, mask, **settings):
        shapes.append(tokens.shape)
        return real(params, config, tokens, mask, **settings)

    monkeypatch.setattr(cross_score_module, "prompt_pass", spy)
    scores = cross_score(random_params(), MODEL, SCORING, pairs, mesh=MESH, chunk=3)
    assert set(shapes) == {(2, 7)}  # 15 tokens at once, contexts of 7
    assert np.abs(scores.log_probs - naive(pairs)).max() < 5e-5
    assert contexts_together(64, length=4096, longest=400, chunk=64) == 6
    assert contexts_together(8, length=300, longest=128, chunk=64) == 8
    assert contexts_together(8, length=300, longest=10, chunk=1) == 1


def test_nothing_to_score():
    scores = scored(make_pairs([[0, 0, 0], [0, 0, 0], [0, 0, 0]]))
    assert not scores.valid.any() and not scores.log_probs.any()


def words_of(packed: PackedReasonings) -> list[list[int]]:
    """Every reasoning, read back from its last token to its first."""
    words = []
    for reasoning in packed.same:
        word: list[int] = []
        row, at = np.argwhere(packed.closes == reasoning)[0] if reasoning >= 0 else (0, -1)
        while at >= 0:
            word.append(int(packed.tokens[row, at]))
            at = int(packed.parents[row, at])
        words.append(word[::-1])
    return words


@given(st.lists(st.lists(st.integers(1, 3), max_size=6), min_size=1, max_size=12), st.integers(6, 14))
def test_packing_places_every_reasoning_and_its_beginnings_once(words: list[list[int]], width: int):
    tokens, mask = padded(words)
    packed = pack(tokens, mask, width=width, max_rows=len(words))
    assert words_of(packed) == words
    assert packed.tokens.shape == packed.parents.shape == packed.ends.shape == packed.offsets.shape
    assert packed.tokens.shape == (len(words), width)
    real = packed.ends >= 0
    assert not real[packed.used :].any() and real[: packed.used].any(1).all()
    assert real.sum() <= sum(map(len, words))
    for row in range(packed.used):
        filled = int(real[row].sum())
        assert real[row, :filled].all()
        beginnings = set()
        visible = np.asarray(reads(packed.ends[row : row + 1]))[0]
        for place in range(filled):
            way, at = [], place
            while at >= 0:
                way.append(at)
                at = int(packed.parents[row, at])
            assert np.flatnonzero(visible[place]).tolist() == way[::-1]
            assert packed.offsets[row, place] == len(way) - 1
            beginnings.add(tuple(packed.tokens[row, way[::-1]]))
        assert len(beginnings) == filled  # no beginning stands twice in a row


def test_equal_reasonings_stand_once_and_common_beginnings_too():
    tokens, mask = padded([[5, 6, 7, 8], [5, 6, 7, 8], [5, 6, 9], [], [5, 6]])
    packed = pack(tokens, mask, width=6, max_rows=5)
    assert packed.used == 1
    assert packed.tokens[0].tolist() == [5, 6, 7, 8, 9, 0]
    assert packed.parents[0].tolist() == [-1, 0, 1, 2, 1, -1]
    assert packed.ends[0].tolist() == [4, 4, 3, 3, 4, -1]
    assert packed.closes[0].tolist() == [-1, 4, -1, 0, 2, -1] and (packed.closes[1:] == -1).all()
    assert packed.same.tolist() == [0, 0, 2, -1, 4]
    assert packed.owners.tolist() == [0, -1, -1, -1, -1]


def test_a_row_without_room_is_passed_over():
    tokens, mask = padded([[1, 2, 3], [1, 2, 4], [5], [6, 7]])
    packed = pack(tokens, mask, width=4, max_rows=4)
    assert packed.used == 2 and words_of(packed) == [[1, 2, 3], [1, 2, 4], [5], [6, 7]]


def test_reasonings_that_begin_alike_are_scored_as_if_apart():
    pairs = make_pairs([[5, 5, 5], [5, 4, 5], [3, 5, 5]])
    tokens = np.array(pairs.reasoning_tokens)
    tokens[0, 1, :3] = tokens[1, 0, :3] = tokens[0, 0, :3]  # within a prompt and between prompts
    tokens[2] = tokens[2, 1]  # equal, and one of them shorter
    alike = dataclasses.replace(pairs, reasoning_tokens=np.where(pairs.reasoning_mask, tokens, 0).astype(np.int32))
    scores = scored(alike)
    assert (np.abs(scores.log_probs - naive(alike)) / scores.lengths[..., None]).max() < 1e-5
    assert (scores.log_probs[2, 1] == scores.log_probs[2, 2]).all()


@pytest.mark.parametrize(
    ("reasonings", "longest", "chunk", "sampled", "expected"),
    [
        (128, 32, 64, False, (64, 2, 4)),  # narrow reasonings share wide rows, about 32 pieces of 2
        (128, 128, 64, False, (128, 4, 4)),
        (128, 128, 7, False, (128, 4, 1)),  # the chunk bounds the tokens alive: items first
        (128, 128, 3, False, (128, 3, 1)),
        (1024, 300, 64, False, (300, 32, 2)),
        (4, 5, 1, False, (64, 1, 1)),
        (128, 32, 64, True, (32, 1, 8)),
        (128, 32, 5, True, (32, 1, 5)),
    ],
)
def test_pieces_are_small_beside_the_whole_and_keep_the_bound(reasonings, longest, chunk, sampled, expected):
    got = pieces(reasonings=reasonings, longest=longest, chunk=chunk, sampled=sampled)
    assert (got.width, got.rows, got.items) == expected
    assert got.rows * got.items * got.width <= max(chunk * longest, got.width)


def test_packing_says_what_does_not_fit():
    tokens, mask = np.arange(8, dtype=np.int32).reshape(2, 4), np.ones((2, 4), bool)
    with pytest.raises(ValueError, match=r"4 tokens does not fit .* width=3"):
        pack(tokens, mask, width=3, max_rows=2)
    with pytest.raises(ValueError, match=r"max_rows=1 .* 8 tokens"):
        pack(tokens, mask, width=5, max_rows=1)


@pytest.mark.parametrize("chunk", [1, 4, 64])
def test_sampled_columns_are_those_of_the_whole_matrix(chunk: int):
    pairs = make_pairs([[5, 1, 3], [0, 2, 4], [1, 5, 0], [2, 2, 2], [0, 0, 0]])
    columns = np.array([[0, 3, 1], [1, 0, 4], [2, 4, 3], [3, 1, 2], [4, 0, 1]], np.int32)
    some = cross_score(random_params(), MODEL, SCORING, pairs, mesh=MESH, chunk=chunk, columns=columns)
    whole = scored(pairs)
    np.testing.assert_allclose(
        some.log_probs, np.take_along_axis(whole.log_probs, columns[:, None, :], axis=2), atol=1e-5
    )
    assert (some.columns == columns).all()
    assert (some.valid == whole.valid).all() and (some.lengths == whole.lengths).all()


def test_sampled_columns_of_equal_contexts_are_scored_under_the_first_of_them():
    pairs = make_pairs([[3], [5], [2], [4]])
    tokens, mask = np.array(pairs.prompt_tokens), np.array(pairs.prompt_mask)
    tokens[2], mask[2] = tokens[0], mask[0]
    twins = dataclasses.replace(pairs, prompt_tokens=tokens, prompt_mask=mask, column_class=np.array([0, 1, 0, 3]))
    columns = np.array([[0, 2], [1, 2], [2, 3], [3, 0]], np.int32)
    some = cross_score(random_params(), MODEL, SCORING, twins, mesh=MESH, columns=columns)
    np.testing.assert_allclose(some.log_probs, np.take_along_axis(naive(twins), columns[:, None, :], axis=2), atol=5e-5)


def test_a_context_runs_only_the_rows_of_the_prompts_that_drew_it():
    pairs = make_pairs([[5, 5], [5, 5], [5, 5], [5, 5]])
    columns = np.array([[0, 1], [1, 0], [2, 3], [3, 1]], np.int32)
    work = plan_work(pairs, chunk=64, columns=columns)
    *_, packed, contexts, rows, count = work.arrays
    read: dict[int, set[int]] = {context: set() for context in range(4)}
    for context, row in zip(contexts[:count], rows[:count], strict=True):
        read[int(context)] |= set(np.argwhere((pairs.reasoning_tokens == packed[0][row[0]]).all(2))[:, 0].tolist())
    assert int(count) == 16  # two rows a prompt, two columns
    assert read == {0: {0, 1}, 1: {0, 1, 3}, 2: {2}, 3: {2, 3}}


def test_packing_by_owner_mixes_none():
    words = [[1, 2], [1], [4, 5, 6], [1, 2], [7], []]
    tokens, mask = padded(words)
    packed = pack(tokens, mask, width=5, max_rows=6, owners=np.array([0, 0, 0, 1, 1, 2]))
    assert words_of(packed) == words and packed.used == 2
    assert sorted(packed.owners.tolist()) == [-1, -1, -1, -1, 0, 1]
    assert packed.same.tolist() == [0, 1, 2, 3, 4, -1]  # equal ones of two owners stand apart


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ([[1, 0], [1, 0], [2, 0]], "own column must stand first"),
        ([[0, 1, 1], [1, 0, 2], [2, 0, 1]], "one column twice"),
        ([[0, 1], [1, 3], [2, 0]], "do not name 3 contexts"),
        ([[0, 1], [1, 2]], "do not name 3 contexts"),
    ],
)
def test_columns_that_cannot_be_are_refused(columns: list[list[int]], match: str):
    with pytest.raises(ValueError, match=match):
        cross_score(
            random_params(), MODEL, SCORING, make_pairs(LENGTHS), mesh=MESH, columns=np.array(columns, np.int32)
        )
