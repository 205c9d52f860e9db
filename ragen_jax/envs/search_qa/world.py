"""The embedded corpus and its questions: an invented world, drawn from one seed, that no model can have read about."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from ragen_jax.envs.search_qa.names import ADJECTIVES, NOUNS, invented_words, pairs
from ragen_jax.envs.search_qa.records import Hop, Passage, Question
from ragen_jax.envs.search_qa.schema import FILLERS, SCHEMA, Relation

SEED = 74_113
_GIVEN_NAMES, _FAMILY_NAMES = 60, 120


@dataclasses.dataclass(frozen=True)
class Thing:
    """An entity: its passage's id, its kind and its title."""

    id: str
    kind: str
    title: str


Value = Thing | int


@dataclasses.dataclass(frozen=True)
class World:
    """Passages, and questions that they answer."""

    passages: tuple[Passage, ...]
    questions: tuple[Question, ...]


def make_world(seed: int = SEED) -> World:
    """Draw a world.

    There is one passage for each thing. Questions are all two-hop questions (a thing leads to a second thing, and a
    property of that one is the answer) and comparisons of disjoint pairs, in a random order.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    things = _draw_things(rng)
    values = {kind: _draw_values(kind, things, rng) for kind in SCHEMA}
    passages = tuple(
        _passage(thing, values[kind][thing], things[kind], rng) for kind in SCHEMA for thing in things[kind]
    )
    questions = [*_two_hop_questions(values), *_comparisons(things, values, rng)]
    return World(passages, tuple(questions[index] for index in rng.permutation(len(questions)).tolist()))


def _draw_things(rng: np.random.Generator) -> dict[str, list[Thing]]:
    invented = [kind for kind in SCHEMA if kind not in ("person", "novel", "guild")]
    words = iter(invented_words(rng, _GIVEN_NAMES + _FAMILY_NAMES + sum(SCHEMA[kind].count for kind in invented)))
    given = [next(words) for _ in range(_GIVEN_NAMES)]
    family = [next(words) for _ in range(_FAMILY_NAMES)]
    things = {}
    for kind, about in SCHEMA.items():
        if kind == "person":
            names = [" ".join(pair) for pair in pairs(rng, given, family, about.count)]
        elif kind in ("novel", "guild"):
            names = [" ".join(pair) for pair in pairs(rng, ADJECTIVES, NOUNS, about.count)]
        else:
            names = [next(words) for _ in range(about.count)]
        things[kind] = [
            Thing(f"{kind}-{number:03d}", kind, about.title.format(x=name)) for number, name in enumerate(names)
        ]
    return things


def _draw_values(
    kind: str, things: dict[str, list[Thing]], rng: np.random.Generator
) -> dict[Thing, dict[Relation, Value]]:
    """A value for every relation of every thing of a kind; no thing is its own value."""
    drawn: dict[Thing, dict[Relation, Value]] = {}
    for thing in things[kind]:
        facts: dict[Relation, Value] = {}
        for relation in SCHEMA[kind].relations:
            if not relation.target:
                facts[relation] = int(rng.integers(relation.span[0], relation.span[1] + 1))
                continue
            choices = things[relation.target]
            at = int(rng.integers(len(choices)))
            facts[relation] = choices[at] if choices[at] != thing else choices[at - 1]
        drawn[thing] = facts
    return drawn


def _passage(thing: Thing, facts: dict[Relation, Value], kin: list[Thing], rng: np.random.Generator) -> Passage:
    """Introduction, then one sentence per relation and one or two without evidence, in a random order."""
    sentences = [
        _say(relation.sentences[int(rng.integers(len(relation.sentences)))], thing, relation, value)
        for relation, value in facts.items()
    ]
    for at in rng.choice(len(FILLERS), size=int(rng.integers(1, 3)), replace=False).tolist():
        sentences.append(FILLERS[at].format(x=thing.title, z=kin[int(rng.integers(len(kin)))].title))
    order = rng.permutation(len(sentences)).tolist()
    intro = SCHEMA[thing.kind].intro.format(x=thing.title)
    return Passage(thing.id, thing.title, " ".join([intro, *(sentences[at] for at in order)]))


def _two_hop_questions(values: dict[str, dict[Thing, dict[Relation, Value]]]) -> Iterator[Question]:
    for by_thing in values.values():
        for start, facts in by_thing.items():
            for first, middle in facts.items():
                if not (first.phrase and isinstance(middle, Thing)):
                    continue
                for second, value in values[middle.kind][middle].items():
                    yield Question(
                        text=second.question.format(x=first.phrase.format(x=start.title)),
                        answers=_answers(second, value),
                        unit=middle.title,
                        kind="two_hop",
                        gold=(start.id, middle.id),
                        plan=(
                            Hop(f"{start.title} {first.words}", _fact(start, first, middle), start.id),
                            Hop(f"{middle.title} {second.words}", _fact(middle, second, value), middle.id),
                        ),
                    )


def _comparisons(
    things: dict[str, list[Thing]],
    values: dict[str, dict[Thing, dict[Relation, Value]]],
    rng: np.random.Generator,
) -> Iterator[Question]:
    """Every thing is compared once at most, so pairs share nothing; pairs with a tie are left out."""
    for kind, about in SCHEMA.items():
        if not about.comparison:
            continue
        year, size = (next(r for r in about.relations if r.name == name) for name in ("year", "size"))
        order = rng.permutation(about.count).tolist()
        for a, b in zip(order[::2], order[1::2], strict=True):
            pair = (things[kind][a], things[kind][b])
            facts = [values[kind][thing] for thing in pair]
            if facts[0][year] == facts[1][year] or facts[0][size] == facts[1][size]:
                continue
            older = min(facts, key=lambda of: of[year])  # type: ignore[arg-type,return-value]  # both are numbers
            yield Question(
                text=about.comparison.format(a=pair[0].title, b=pair[1].title),
                answers=_answers(size, older[size]),
                unit=" / ".join(sorted(thing.title for thing in pair)),
                kind="comparison",
                gold=tuple(thing.id for thing in pair),
                plan=tuple(
                    Hop(
                        f"{thing.title} {year.words}",
                        f"{_fact(thing, year, of[year])}, {_fact(thing, size, of[size])}",
                        thing.id,
                    )
                    for thing, of in zip(pair, facts, strict=True)
                ),
            )


def _answers(relation: Relation, value: Value) -> tuple[str, ...]:
    """The value as it is written, and shorter or longer forms that mean the same."""
    if isinstance(value, int):
        return (str(value), *(f"{value} {unit}" for unit in relation.units))
    bare = value.title.removeprefix("River ").removeprefix("Mount ")
    return (value.title,) if bare == value.title else (value.title, bare)


def _say(sentence: str, thing: Thing, relation: Relation, value: Value) -> str:
    shown = value.title if isinstance(value, Thing) else " ".join((str(value), *relation.units[:1]))
    return sentence.format(x=thing.title, y=shown)


def _fact(thing: Thing, relation: Relation, value: Value) -> str:
    return _say(relation.sentences[0], thing, relation, value).removesuffix(".")
