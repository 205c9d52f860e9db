"""What the invented world consists of: kinds of things, what is said about each, and how it is asked.

In every template ``{x}`` is the thing and ``{y}`` the value. Persons, towns, rivers and mountains can stand in the
middle of two hops; novels, guilds, moths, mills and chapels are only ever the beginning, so that no first hop of one
question is the second hop of another.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Relation:
    """Something that is said about every thing of a kind.

    Attributes:
      name: unique within the kind.
      sentences: ways to say it; a passage takes one.
      words: what a solver adds to the name of the thing when it searches for the value.
      target: kind of the value; "" for a number.
      span: smallest and largest number.
      units: ways to write the unit behind a number.
      phrase: names the value by the thing, for a first hop; "" when it is never one.
      question: asks for the value, for a second hop; "" when it is never one.
    """

    name: str
    sentences: tuple[str, ...]
    words: str
    target: str = ""
    span: tuple[int, int] = (0, 0)
    units: tuple[str, ...] = ()
    phrase: str = ""
    question: str = ""


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of thing.

    Attributes:
      count: how many there are.
      title: turns the drawn name into the title of the passage.
      intro: first sentence of a passage.
      relations: what is said.
      comparison: question about the ``size`` of the older of two things ``{a}`` and ``{b}``; "" for none. The kind then
        has the relations ``year`` and ``size``, both numbers.
    """

    count: int
    title: str
    intro: str
    relations: tuple[Relation, ...]
    comparison: str = ""


_YEARS = (1300, 1899)


def _year(sentences: tuple[str, ...], *, words: str, question: str = "") -> Relation:
    return Relation("year", sentences, words, span=_YEARS, question=question)


SCHEMA: dict[str, Kind] = {
    "person": Kind(
        count=500,
        title="{x}",
        intro="{x} is remembered for a long working life.",
        relations=(
            Relation(
                "birthplace",
                ("The birthplace of {x} is {y}.", "{x} was born in {y}.", "{x} was born and raised in {y}."),
                words="birthplace born",
                target="town",
                question="In which town was {x} born?",
            ),
            Relation(
                "teacher",
                ("The teacher of {x} was {y}.", "{y} taught {x}.", "As a pupil {x} was taught by {y}."),
                words="teacher taught",
                target="person",
                question="Who taught {x}?",
            ),
            _year(
                ("The year of birth of {x} is {y}.", "The register gives {y} as the year of birth of {x}."),
                words="year of birth",
                question="In which year was {x} born?",
            ),
        ),
    ),
    "town": Kind(
        count=250,
        title="{x}",
        intro="{x} is a market town.",
        relations=(
            Relation(
                "river",
                ("The river of {x} is the {y}.", "The {y} flows through {x}.", "{x} lies on both banks of the {y}."),
                words="river flows banks",
                target="river",
                question="Which river flows through {x}?",
            ),
            Relation(
                "mayor",
                ("The first mayor of {x} was {y}.", "{y} became the first mayor of {x}."),
                words="first mayor",
                target="person",
                question="Who was the first mayor of {x}?",
            ),
            _year(
                ("{x} was founded in {y}.", "The charter of {x} dates from {y}, when the town was founded."),
                words="founded year",
                question="In which year was {x} founded?",
            ),
        ),
    ),
    "river": Kind(
        count=150,
        title="River {x}",
        intro="The {x} is a slow river.",
        relations=(
            Relation(
                "source",
                ("The {x} rises on {y}.", "The springs of the {x} lie on {y}.", "{y} is where the {x} rises."),
                words="source rises springs",
                target="mountain",
                question="On which mountain does {x} rise?",
            ),
            Relation(
                "length",
                ("The {x} is {y} long.", "From source to mouth the {x} measures {y}."),
                words="length long",
                span=(40, 980),
                units=("km", "kilometres"),
                question="How many kilometres long is {x}?",
            ),
        ),
    ),
    "mountain": Kind(
        count=150,
        title="Mount {x}",
        intro="{x} can be seen from far away.",
        relations=(
            Relation(
                "height",
                ("{x} is {y} high.", "The summit of {x} stands at {y}."),
                words="height high summit",
                span=(900, 6900),
                units=("m", "metres"),
                question="How many metres high is {x}?",
            ),
            Relation(
                "climber",
                ("The first to climb {x} was {y}.", "{y} was the first to climb {x}."),
                words="first climb",
                target="person",
                question="Who was the first to climb {x}?",
            ),
        ),
    ),
    "novel": Kind(
        count=500,
        title="The {x}",
        intro="{x} is a novel.",
        relations=(
            Relation(
                "author",
                ("The writer of {x} is {y}.", "{x} was written by {y}.", "{y} wrote {x} in one winter."),
                words="novel writer written",
                target="person",
                phrase="the writer of the novel {x}",
            ),
            _year(("{x} was printed in {y}.", "The first printing of {x} is from {y}."), words="printed pages"),
            Relation("size", ("{x} has {y} pages.", "It takes {y} pages to tell {x}."), words="pages", span=(90, 960)),
        ),
        comparison="How many pages has the older of the two novels {a} and {b}?",
    ),
    "guild": Kind(
        count=400,
        title="{x} Guild",
        intro="The {x} is a guild with its own coat of arms.",
        relations=(
            Relation(
                "founder",
                ("The founder of the {x} is {y}.", "The {x} was the idea of its founder, {y}."),
                words="founder",
                target="person",
                phrase="the founder of the {x}",
            ),
            Relation(
                "seat",
                ("The seat of the {x} is in {y}.", "The {x} has its seat in {y}."),
                words="seat",
                target="town",
                phrase="the town where the {x} has its seat",
            ),
            _year(("The {x} was set up in {y}.", "The oldest book of the {x} is from {y}."), words="set up members"),
            Relation(
                "size",
                ("The {x} counts {y} members.", "There are {y} members in it."),
                words="members",
                span=(20, 900),
            ),
        ),
        comparison="How many members has the older of the two guilds {a} and {b}?",
    ),
    "moth": Kind(
        count=350,
        title="{x} Moth",
        intro="The {x} flies at dusk.",
        relations=(
            Relation(
                "discoverer",
                ("The first to describe the {x} was {y}.", "{y} was the first to describe the {x}."),
                words="first describe",
                target="person",
                phrase="the person who first described the {x}",
            ),
            _year(("The {x} was described in {y}.", "Collectors know the {x} since {y}."), words="described wingspan"),
            Relation(
                "size",
                ("The wingspan of the {x} is {y}.", "With open wings the {x} has a wingspan of {y}."),
                words="wingspan",
                span=(15, 240),
                units=("mm", "millimetres"),
            ),
        ),
        comparison="How many millimetres is the wingspan of the moth that was described earlier, {a} or {b}?",
    ),
    "mill": Kind(
        count=250,
        title="{x} Mill",
        intro="{x} still grinds rye.",
        relations=(
            Relation(
                "river",
                ("The river that drives {x} is the {y}.", "{x} is driven by the {y}.", "The {y} drives {x}."),
                words="river drives",
                target="river",
                phrase="the river that drives {x}",
            ),
            _year(("{x} was built in {y}.", "The beams of {x} were cut and put up in {y}."), words="built sacks"),
            Relation(
                "size", ("{x} fills {y} sacks a week.", "In a week {x} fills {y} sacks."), words="sacks", span=(40, 900)
            ),
        ),
        comparison="How many sacks a week does the older of the two mills {a} and {b} fill?",
    ),
    "chapel": Kind(
        count=250,
        title="{x} Chapel",
        intro="{x} has a roof of slate.",
        relations=(
            Relation(
                "mountain",
                ("The mountain on which {x} stands is {y}.", "{x} stands on {y}.", "{x} was put on the side of {y}."),
                words="mountain stands",
                target="mountain",
                phrase="the mountain on which {x} stands",
            ),
            _year(("{x} was built in {y}.", "A stone above the door of {x} says {y}."), words="built seats"),
            Relation("size", ("{x} has {y} seats.", "There are {y} seats in {x}."), words="seats", span=(30, 700)),
        ),
        comparison="How many seats has the older of the two chapels {a} and {b}?",
    ),
}

FILLERS = (
    "Little else is known about {x}.",
    "A drawing of {x} hangs in the county archive.",
    "Old songs speak of {x} now and then.",
    "Travellers have told many stories about {x}.",
    "The name {x} has been spelt in more than one way.",
    "A small coin was once struck in honour of {x}.",
    "Schoolchildren of the valley learn about {x}.",
    "{x} is often confused with {z}.",
    "Older records name {x} and {z} on the same page.",
    "An exhibition about {x} and {z} was shown twice.",
)
"""Sentences without evidence; ``{z}`` is another thing of the same kind."""
