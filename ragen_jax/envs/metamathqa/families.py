"""Our own word problems in the record format of MetaMathQA: families of templates, numbers from one seed.

Each original question comes in four forms: as it is; rephrased; self-verifying (the claim stands in the text, a number
is hidden as x); and backward (the original with x, and its answer). Every answer is a whole number above zero.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from operator import add, floordiv, mul, sub
from typing import Any

import numpy as np

from ragen_jax.envs.metamathqa.problem import PHRASE

SEED = 20_260_711
ORIGINALS = 100
"""Original questions of each family."""

_NAMES = (
    *("Ada", "Ben", "Chidi", "Dora", "Emil", "Farah", "Goran", "Hana", "Ilya", "Jun", "Kofi", "Lena", "Mara"),
    *("Nils", "Omar", "Pia", "Quinn", "Rosa", "Samir", "Tove", "Uma", "Viktor", "Wanda", "Xenia", "Yusuf", "Zora"),
)
_OPERATIONS = {"+": add, "-": sub, "*": mul, "/": floordiv}


@dataclasses.dataclass(frozen=True)
class Family:
    """Templates of one kind of story.

    Attributes:
      story: what is given; ``{name}`` and the numbers by their names.
      question: asks for the answer.
      claim: the same as a statement with ``{answer}``.
      retold: story and question in other words.
      ranges: name of each number -> (smallest, largest).
      steps: (result, operand, operator, operand), where an operand is a name or a whole number. The last result is the
        answer. Each is strictly monotonic in every number, so a hidden number can be found.
    """

    story: str
    question: str
    claim: str
    retold: str
    ranges: dict[str, tuple[int, int]]
    steps: tuple[tuple[str, str | int, str, str | int], ...]


FAMILIES = (
    Family(
        "{name} buys {a} boxes with {b} pencils each and gives {c} pencils to a neighbour.",
        "How many pencils does {name} keep?",
        "{name} keeps {answer} pencils.",
        "There are {b} pencils in a box. {name} comes home with {a} boxes, and a neighbour gets {c} of the pencils. "
        "What number of pencils is left for {name}?",
        {"a": (3, 12), "b": (6, 24), "c": (4, 17)},
        (("all", "a", "*", "b"), ("left", "all", "-", "c")),
    ),
    Family(
        "A bus leaves the depot with {a} people. At the market {b} get off and {c} get on.",
        "How many people are then on the bus?",
        "Then {answer} people are on the bus.",
        "At the market {b} passengers leave a bus and {c} new ones enter it; it had come with {a}. How many does it "
        "carry on from there?",
        {"a": (25, 60), "b": (3, 20), "c": (2, 19)},
        (("stay", "a", "-", "b"), ("now", "stay", "+", "c")),
    ),
    Family(
        "{name} reads {a} pages on each of {b} evenings. The book has {c} pages more than that.",
        "How many pages does the book have?",
        "The book has {answer} pages.",
        "After {b} evenings with {a} pages each, {name} still has {c} pages of a book to read. How long is the book, "
        "in pages?",
        {"a": (12, 35), "b": (4, 11), "c": (15, 90)},
        (("read", "a", "*", "b"), ("book", "read", "+", "c")),
    ),
    Family(
        "A baker shares {a} rolls evenly among {b} baskets and then takes {c} rolls out of every basket.",
        "How many rolls does each basket hold in the end?",
        "In the end each basket holds {answer} rolls.",
        "Out of each of {b} baskets {c} rolls are sold. The baskets had held {a} rolls together, all of them equally "
        "many. What is left in one basket?",
        {"a": (60, 240), "b": (4, 9), "c": (2, 8)},
        (("each", "a", "/", "b"), ("left", "each", "-", "c")),
    ),
    Family(
        "A ticket for the ferry costs {a} dollars and taking a bicycle costs {b} dollars. {c} friends cross, each "
        "with a bicycle.",
        "How many dollars do they pay together?",
        "Together they pay {answer} dollars.",
        "{c} cyclists take the ferry. Each pays {a} dollars to cross and {b} dollars more for the bicycle. What is the "
        "sum in dollars?",
        {"a": (4, 15), "b": (2, 9), "c": (3, 12)},
        (("one", "a", "+", "b"), ("all", "one", "*", "c")),
    ),
    Family(
        "{name} has {a} dollars and earns {b} dollars a week for {c} weeks.",
        "How many dollars does {name} have after that?",
        "After that {name} has {answer} dollars.",
        "For {c} weeks {name} is paid {b} dollars weekly and spends nothing. With {a} dollars to begin with, how much "
        "money is that in the end, in dollars?",
        {"a": (15, 120), "b": (11, 45), "c": (3, 14)},
        (("earned", "b", "*", "c"), ("all", "a", "+", "earned")),
    ),
    Family(
        "An orchard has {a} rows of {b} apple trees and {c} rows of {d} pear trees.",
        "How many trees stand in the orchard?",
        "In the orchard stand {answer} trees.",
        "Pear trees stand in {c} rows of {d}, apple trees in {a} rows of {b}. Count all the trees.",
        {"a": (4, 12), "b": (8, 20), "c": (3, 9), "d": (5, 15)},
        (("apples", "a", "*", "b"), ("pears", "c", "*", "d"), ("all", "apples", "+", "pears")),
    ),
    Family(
        "A tank holds {a} litres. A pump fills in {b} litres a minute for {c} minutes while nothing flows out, and "
        "then {d} litres are drawn.",
        "How many litres are in the tank now?",
        "The tank now has {answer} litres in it.",
        "Someone draws {d} litres from a tank that had {a} litres in it before a pump ran for {c} minutes and added "
        "{b} litres in each. What is in the tank, in litres?",
        {"a": (30, 150), "b": (5, 18), "c": (4, 15), "d": (20, 60)},
        (("pumped", "b", "*", "c"), ("full", "a", "+", "pumped"), ("left", "full", "-", "d")),
    ),
    Family(
        "{name} is {a} years old. A cousin is {b} years younger, and the grandmother is {c} times as old as the "
        "cousin.",
        "How old is the grandmother?",
        "The grandmother is {answer} years old.",
        "The age of a grandmother is {c} times that of {name}'s cousin, who was born {b} years after {name}. {name} is "
        "{a}. What is the grandmother's age?",
        {"a": (18, 27), "b": (2, 7), "c": (3, 4)},
        (("cousin", "a", "-", "b"), ("grandmother", "cousin", "*", "c")),
    ),
    Family(
        "A farmer fills {a} crates with {b} eggs each and has {c} eggs left over, then sells {d} crates.",
        "How many eggs has the farmer after the sale?",
        "After the sale the farmer has {answer} eggs.",
        "Of {a} crates of eggs, {b} eggs in each, {d} crates are sold. {c} eggs did not fit into the crates. How many "
        "eggs remain on the farm?",
        {"a": (9, 20), "b": (12, 30), "c": (1, 11), "d": (2, 8)},
        (("kept", "a", "-", "d"), ("eggs", "kept", "*", "b"), ("all", "eggs", "+", "c")),
    ),
    Family(
        "A train travels {a} kilometres in the first hour and {b} kilometres in each of the next {c} hours. The whole "
        "way is {d} kilometres longer.",
        "How long is the whole way, in kilometres?",
        "The whole way is {answer} kilometres long.",
        "A train still has {d} kilometres to go. It has been under way for one hour with {a} kilometres and for {c} "
        "more with {b} kilometres each. Give the length of its way in kilometres.",
        {"a": (45, 80), "b": (60, 110), "c": (2, 6), "d": (10, 95)},
        (("later", "b", "*", "c"), ("so_far", "a", "+", "later"), ("way", "so_far", "+", "d")),
    ),
    Family(
        "{name} cuts {a} metres of ribbon into pieces of {b} metres and ties {c} bows out of each piece.",
        "How many bows does {name} tie?",
        "{name} ties {answer} bows.",
        "From every piece of ribbon, {b} metres long, {c} bows can be made. {name} has {a} metres of it. How many bows "
        "is that?",
        {"a": (24, 160), "b": (2, 8), "c": (2, 6)},
        (("pieces", "a", "/", "b"), ("bows", "pieces", "*", "c")),
    ),
    Family(
        "A hall has {a} chairs. {b} school classes of {c} pupils each come to a concert, and each pupil takes a chair.",
        "How many chairs stay empty?",
        "{answer} chairs stay empty.",
        "{c} pupils belong to each of the {b} classes that sit down in a hall with {a} chairs. How many more pupils "
        "could sit there?",
        {"a": (150, 320), "b": (3, 7), "c": (18, 30)},
        (("pupils", "b", "*", "c"), ("empty", "a", "-", "pupils")),
    ),
    Family(
        "{name} sells {a} jars of honey for {b} dollars each and pays {c} dollars for the stall and {d} dollars for "
        "the jars.",
        "How many dollars does {name} gain?",
        "{name} gains {answer} dollars.",
        "A stall costs {name} {c} dollars and the jars cost {d} dollars. {a} jars of honey go for {b} dollars apiece. "
        "What is the gain in dollars?",
        {"a": (10, 40), "b": (5, 13), "c": (8, 25), "d": (4, 19)},
        (("income", "a", "*", "b"), ("less", "income", "-", "c"), ("gain", "less", "-", "d")),
    ),
    Family(
        "Two gardens have the same number of roses. Together they have {a} roses. {b} more roses are planted in the "
        "first one, and {c} of all its roses are then cut.",
        "How many roses stand in the first garden?",
        "In the first garden stand {answer} roses.",
        "Somebody plants {b} roses in the first of two gardens, which had {a} roses between them and equally many "
        "each, and cuts {c} there. How many roses are in that garden now?",
        {"a": (40, 140), "b": (5, 25), "c": (3, 18)},
        (("half", "a", "/", 2), ("more", "half", "+", "b"), ("left", "more", "-", "c")),
    ),
    Family(
        "A machine makes {a} bolts an hour, a newer one {b} bolts an hour more. Both run for {c} hours.",
        "How many bolts do the two make together?",
        "Together the two make {answer} bolts.",
        "In {c} hours, how many bolts come from two machines if the old one gives {a} an hour and the new one exceeds "
        "it by {b} an hour?",
        {"a": (20, 70), "b": (3, 25), "c": (2, 9)},
        (("new", "a", "+", "b"), ("hourly", "new", "+", "a"), ("bolts", "hourly", "*", "c")),
    ),
)


def embedded_records() -> list[dict[str, Any]]:
    """Records of all families, the same in every process: the four forms of each original question together."""
    records: list[dict[str, Any]] = []
    for number, family in enumerate(FAMILIES):
        rng = np.random.default_rng(np.random.SeedSequence(SEED, spawn_key=(number,)))
        seen: set[str] = set()
        while len(seen) < ORIGINALS:
            values = {name: int(rng.integers(low, high + 1)) for name, (low, high) in family.ranges.items()}
            person = _NAMES[int(rng.integers(len(_NAMES)))]
            hidden = list(values)[int(rng.integers(len(values)))]
            work = work_out(family, values)
            if work is None or str(sorted(values.items())) in seen:
                continue
            seen.add(str(sorted(values.items())))
            records += _forms(family, values, person, hidden, *work)
    return records


def work_out(family: Family, values: dict[str, int]) -> tuple[list[str], int] | None:
    """The calculations as text, and the answer; None when a division leaves a rest or a result is below 1."""
    known = dict(values)
    lines = []
    for result, left, operator, right in family.steps:
        first, second = (known[operand] if isinstance(operand, str) else operand for operand in (left, right))
        if operator == "/" and first % second:
            return None
        known[result] = _OPERATIONS[operator](first, second)
        if known[result] < 1:
            return None
        lines.append(f"{first} {operator} {second} = {known[result]}")
    return lines, known[result]


def _forms(
    family: Family, values: dict[str, int], person: str, hidden: str, lines: list[str], answer: int
) -> Iterator[dict[str, Any]]:
    shown = {"name": person} | values
    masked = shown | {hidden: "x"}
    original = f"{family.story} {family.question}".format(**shown)
    forward = f"{'. '.join(lines)}. {PHRASE} {answer}"
    backward = f"Try x = {values[hidden]}: {'. '.join(lines)}, as it should be. {PHRASE} {values[hidden]}"
    forms = (
        ("GSM_AnsAug", original, forward),
        ("GSM_Rephrased", family.retold.format(**shown), forward),
        ("GSM_SV", f"{family.story} {family.claim} Find x.".format(**masked, answer=answer), backward),
        (
            "GSM_FOBAR",
            f"{family.story} {family.question} The answer to this is {{answer}}. Which number is x?".format(
                **masked, answer=answer
            ),
            backward,
        ),
    )
    for kind, query, response in forms:
        yield {"type": kind, "query": query, "original_question": original, "response": response}
