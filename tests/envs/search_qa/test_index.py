"""BM25 against a float64 oracle, and what an index promises beside the scores."""

from __future__ import annotations

import importlib.util
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ragen_jax.envs.search_qa import index
from ragen_jax.envs.search_qa.config import SearchQAConfig
from ragen_jax.envs.search_qa.index import Bm25Index, require_packages
from ragen_jax.envs.search_qa.records import Passage
from ragen_jax.envs.search_qa.world import make_world
from tests.oracles.bm25 import bm25_scores

needs_search = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in index.PACKAGES), reason="needs the extra 'search'"
)


def _passages(*texts: str) -> list[Passage]:
    return [Passage(str(number), "", text) for number, text in enumerate(texts)]


@needs_search
def test_scores_are_those_of_the_formula() -> None:
    rng = np.random.default_rng(0)
    vocabulary = [f"kob{letter}t" for letter in "abcdefghijkl"]  # no stop words, no endings that a stemmer cuts
    documents = [rng.choice(vocabulary, size=rng.integers(1, 20)).tolist() for _ in range(40)]
    found = Bm25Index(_passages(*map(" ".join, documents)))
    for length in (1, 2, 5):
        query = rng.choice(vocabulary, size=length).tolist()
        wanted = bm25_scores(documents, query)
        hits = found.search(" ".join(query), 40)
        assert len(hits) == np.count_nonzero(wanted)
        np.testing.assert_allclose([hit.score for hit in hits], np.sort(wanted)[::-1][: len(hits)], rtol=1e-5)
        np.testing.assert_allclose([hit.score for hit in hits], [wanted[int(h.passage.id)] for h in hits], rtol=1e-5)


@needs_search
def test_words_are_stemmed_without_case_and_stop_words_and_the_title_counts_twice() -> None:
    found = Bm25Index(
        [Passage("a", "Ferry", "The boat sails"), Passage("b", "Boat", "the ferry sails"), Passage("c", "Oar", "none")]
    )
    assert [hit.passage.id for hit in found.search("FERRIES", 5)] == ["a", "b"]
    assert [hit.passage.id for hit in found.search("the boats", 5)] == ["b", "a"]
    assert found.search("the of and", 5) == []
    assert found.search("unheard", 5) == []
    assert found.search("", 5) == []
    assert found.search("\ud800 \x00 ?!", 5) == []


@needs_search
def test_equal_scores_keep_the_order_of_the_corpus() -> None:
    found = Bm25Index(_passages(*["heron tower"] * 30, "kettle"))
    assert [hit.passage.id for hit in found.search("heron", 4)] == ["0", "1", "2", "3"]


@needs_search
def test_oracle_queries_reach_a_recall_at_5_of_nine_tenths() -> None:
    world = make_world()
    found = Bm25Index(world.passages)
    hops = [(hop.query, gold) for q in world.questions[:600] for hop, gold in zip(q.plan, q.gold, strict=True)]
    recall = np.mean([gold in [hit.passage.id for hit in found.search(query, 5)] for query, gold in hops])
    assert recall >= 0.9
    second = [q for q in world.questions[:600] if q.kind == "two_hop"]
    at_once = np.mean([q.gold[1] in [hit.passage.id for hit in found.search(q.text, 5)] for q in second])
    assert at_once < 0.3, "one search with the question finds both passages: nothing is left to reason about"


@needs_search
def test_threads_share_an_index() -> None:
    world = make_world()
    found = Bm25Index(world.passages)
    queries = [question.text for question in world.questions[:200]]
    alone = [found.search(query, 5) for query in queries]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda query: found.search(query, 5), queries)) == alone


@needs_search
@pytest.mark.parametrize("passages", [[], [Passage("a", "", "?!")], [Passage("a", "The", "of")]])
def test_a_corpus_without_words_is_refused(passages: list[Passage]) -> None:
    with pytest.raises(ValueError, match="passages without a word"):
        Bm25Index(passages)


def test_a_missing_extra_is_named_when_the_config_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "PACKAGES", ("bm25s_not_there", "json"))
    with pytest.raises(ValueError, match=r"needs bm25s_not_there: pip install 'ragen_jax\[search\]'"):
        require_packages()
    with pytest.raises(ValueError, match=r"pip install 'ragen_jax\[search\]'"):
        SearchQAConfig()
    assert SearchQAConfig(retriever="server").retriever == "server"
