"""The embedded passages and questions: right, unambiguous, and split by what leaks."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from ragen_jax.envs.instances import in_split
from ragen_jax.envs.search_qa.scoring import normalise
from ragen_jax.envs.search_qa.world import World, make_world


@pytest.fixture(scope="module")
def world() -> World:
    return make_world()


def test_size_and_kinds(world: World) -> None:
    assert 2000 <= len(world.passages) <= 4000
    kinds = Counter(question.kind for question in world.questions)
    assert kinds["two_hop"] > 4000
    assert kinds["comparison"] > 500
    assert set(kinds) == {"two_hop", "comparison"}


def test_same_seed_same_world_and_other_seed_other_world(world: World) -> None:
    assert make_world() == world
    assert make_world(1).passages != world.passages


def test_nothing_stands_twice(world: World) -> None:
    for names in ([p.id for p in world.passages], [p.title for p in world.passages], [q.text for q in world.questions]):
        assert len(names) == len(set(names))


def test_the_evidence_holds_the_answer_and_the_question_does_not(world: World) -> None:
    passages = {passage.id: passage for passage in world.passages}
    for question in world.questions:
        first, second = (passages[name] for name in question.gold)
        answer = normalise(question.answers[0])
        assert f" {answer} " not in f" {normalise(question.text)} "
        assert first.title in question.text
        if question.kind == "two_hop":
            assert question.unit == second.title
            assert question.unit in first.text
            assert second.title not in question.text
            assert answer in normalise(second.text)
        else:
            assert second.title in question.text
            assert answer in normalise(first.text) or answer in normalise(second.text)


def test_comparisons_take_the_older_one(world: World) -> None:
    """Read from the text: the smaller of the two years, and the other number beside it."""
    passages = {passage.id: passage for passage in world.passages}
    novels = [q for q in world.questions if q.kind == "comparison" and q.gold[0].startswith("novel")]
    assert len(novels) > 200
    for question in novels:
        told = []
        for name in question.gold:
            text = passages[name].text
            year = re.search(r"(?:printed in|is from) (\d+)", text)
            pages = re.search(r"(\d+) pages", text)
            assert year and pages
            told.append((int(year[1]), pages[1]))
        assert min(told)[1] == question.answers[0]


@pytest.mark.parametrize("percent", [10, 50])
def test_no_fact_that_validation_asks_for_is_asked_for_in_training(world: World, percent: int) -> None:
    """Both facts of two hops are in the split of the middle only, those of a comparison in that of the pair."""
    facts: dict[str, set[str]] = {"train": set(), "validation": set()}
    middles: dict[str, set[str]] = {"train": set(), "validation": set()}
    for question in world.questions:
        split = "validation" if in_split(question.unit, split="validation", validation_percent=percent) else "train"
        facts[split] |= {hop.fact for hop in question.plan}
        if question.kind == "two_hop":
            middles[split].add(question.gold[1])
    assert facts["train"].isdisjoint(facts["validation"])
    assert middles["train"].isdisjoint(middles["validation"])
    assert min(len(found) for found in facts.values()) > 300
    starts = {question.gold[0] for question in world.questions if question.kind == "two_hop"}
    assert starts.isdisjoint(middles["train"] | middles["validation"])


def test_answers_cannot_be_guessed_from_their_frequency(world: World) -> None:
    counts = Counter(normalise(question.answers[0]) for question in world.questions)
    assert counts.most_common(1)[0][1] / len(world.questions) < 0.01
