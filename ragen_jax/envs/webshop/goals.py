"""What customers ask for: instruction files, and the goals made of them.

A synthetic goal is the instruction of a product, one value of each of its options, and a ceiling on the price. A human
goal is a text that a person wrote for a product and its options, and such a ceiling.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ragen_jax.envs.data_source import read_json
from ragen_jax.envs.instances import content_hash
from ragen_jax.envs.webshop.products import Product, one_line
from ragen_jax.envs.webshop.score import Wanted, score

Options = tuple[tuple[str, str], ...]

_CEILINGS = 4  # multiples of 10 dollars above a price that its ceiling may be


@dataclasses.dataclass(frozen=True)
class Entry:
    """What an instruction file says about one product.

    Attributes:
      asin: of the product, lower case.
      attributes: all that hold for the product.
      instruction: request without options and price; "" when there is none.
      wanted: attributes that the instruction asks for.
    """

    asin: str
    attributes: tuple[str, ...]
    instruction: str
    wanted: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class HumanRequest:
    """One request that a person wrote.

    Attributes:
      asin: of the product, lower case.
      text: the request, options included.
      wanted: attributes that it asks for.
      options: name -> value; the name is "" where the file gives the value alone.
    """

    asin: str
    text: str
    wanted: tuple[str, ...]
    options: Options


@dataclasses.dataclass(frozen=True)
class Goal:
    """One task of the shop.

    Attributes:
      wanted: what the score compares a purchase with.
      text: what the customer says.
    """

    wanted: Wanted
    text: str

    def canonical(self) -> str:
        """Product and text."""
        return f"{self.wanted.product.asin}: {self.text}"


@dataclasses.dataclass(frozen=True)
class Request:
    """Goals that differ in the options only.

    Attributes:
      product: what it was written for.
      text: without option and price clause.
      attributes: that it asks for.
      options: the options it asks for; None = one value of every option of the product, any of them, said in a clause.
    """

    product: Product
    text: str
    attributes: tuple[str, ...]
    options: Options | None = None

    def draw(self, rng: np.random.Generator) -> Goal:
        """One goal; each combination of options is as likely as another."""
        if self.options is not None:
            return self.goal(self.options)
        return self.goal(tuple((name, values[rng.integers(len(values))]) for name, values in self.product.options))

    @property
    def actions_needed(self) -> int:
        """Fewest actions that meet it: a search, the product, each option, the purchase."""
        return 3 + len(self.product.options if self.options is None else self.options)

    def goals(self) -> Iterator[Goal]:
        """Every goal."""
        if self.options is not None:
            yield self.goal(self.options)
            return
        names = [name for name, _ in self.product.options]
        for values in itertools.product(*(values for _, values in self.product.options)):
            yield self.goal(tuple(zip(names, values, strict=True)))

    def goal(self, options: Options) -> Goal:
        """The goal with these options; its ceiling depends on product, text and options alone."""
        clause = ""
        if self.options is None and options:
            clause = " with " + ", and ".join(f"{name}: {value}" for name, value in options)
        text = f"{self.text}{clause}"
        highest = price_ceiling(self.product.price, key=f"{self.product.asin} {text}")
        wanted = Wanted(self.product, self.attributes, options, highest)
        return Goal(wanted, f"{text}, for at most ${highest:.2f}")

    def reachable(self) -> bool:
        """True when its own product is a full match; options always match themselves, so one goal stands for all."""
        goal = next(self.goals())
        return score(goal.wanted, self.product, dict(goal.wanted.options)).full


def price_ceiling(price: float, *, key: str) -> float:
    """The larger of two different ones of the next four multiples of 10 dollars above a price.

    Args:
      price: dollars.
      key: what the draw depends on; the same in every process.
    """
    rng = np.random.default_rng(np.random.SeedSequence(content_hash(f"ceiling {key}")))
    return 10.0 * (math.floor(price / 10) + 1 + int(rng.choice(_CEILINGS, size=2, replace=False).max()))


def price_bound(price: float) -> float:
    """The highest ceiling that ``price_ceiling`` can draw for a price."""
    return 10.0 * (math.floor(price / 10) + _CEILINGS)


def synthetic_requests(products: Sequence[Product], entries: Mapping[str, Entry]) -> list[Request]:
    """Requests of the products that have an instruction and attributes it asks for."""
    found = ((product, entries.get(product.asin)) for product in products)
    return [
        Request(product, entry.instruction, entry.wanted)
        for product, entry in found
        if entry is not None and entry.instruction and entry.wanted
    ]


def human_requests(products: Sequence[Product], written: Sequence[HumanRequest]) -> tuple[list[Request], int]:
    """Requests of people for the given products, and how many were left out.

    Left out are requests for an option value that the product does not have, or that several of its options have
    without the request saying which. Requests for other products do not count.
    """
    by_asin = {product.asin: product for product in products}
    kept, left_out = [], 0
    for request in written:
        product = by_asin.get(request.asin)
        if product is None:
            continue
        options = [_resolve(product, name, value) for name, value in request.options]
        if None in options:
            left_out += 1
        else:
            kept.append(Request(product, request.text, request.wanted, tuple(filter(None, options))))
    return kept, left_out


def read_json_object(path: Path) -> Iterator[tuple[int, Any]]:
    """(asin, value) pairs of a file that is one JSON object, numbered from 1; a repeated asin is a malformed pair.

    Raises:
      ValueError: the file is not JSON, or not an object.
    """
    records = read_json(path)
    if not isinstance(records, dict):
        raise ValueError(f"{path} holds {type(records).__name__}, not an object with one entry per product")
    first: dict[str, str] = {}
    for number, (key, value) in enumerate(records.items(), start=1):
        asin = one_line(key).lower()
        if first.setdefault(asin, key) != key:
            yield number, ValueError(f"asin {key!r} is the same as {first[asin]!r}, which stands before it")
        else:
            yield number, (key, value)


def entry_of(record: tuple[str, Any]) -> Entry:
    """Entry of an instruction file, from (asin, object).

    Raises:
      ValueError: a field has the wrong type.
    """
    asin, fields = record
    if not isinstance(fields, dict):
        raise ValueError(f"the entry of {asin!r} is {type(fields).__name__}, not an object")
    return Entry(
        asin=one_line(asin).lower(),
        attributes=_phrases(fields, "attributes"),
        instruction=_sentence(fields.get("instruction") or ""),
        wanted=_phrases(fields, "instruction_attributes"),
    )


def human_requests_of(record: tuple[str, Any]) -> tuple[HumanRequest, ...]:
    """Requests of people for one product, from (asin, list of objects).

    Raises:
      ValueError: a field is missing or has the wrong type.
    """
    asin, written = record
    if not isinstance(written, list) or not all(isinstance(fields, dict) for fields in written):
        raise ValueError(f"the entry of {asin!r} is no list of objects")
    return tuple(
        HumanRequest(
            asin=one_line(asin).lower(),
            text=_sentence(fields["instruction"]),
            wanted=_phrases(fields, "instruction_attributes"),
            options=_human_options(fields.get("instruction_options")),
        )
        for fields in written
    )


def _resolve(product: Product, name: str, value: str) -> tuple[str, str] | None:
    """(name, value) of the only option of a product that fits; None when none or several do."""
    fitting = [option for option, values in product.options if name in ("", option) and value in values]
    return (fitting[0], value) if len(fitting) == 1 else None


def _human_options(value: Any) -> Options:
    """Options of a human request: an object name -> value, or a list of values."""
    pairs = list(value.items()) if isinstance(value, dict) else [("", choice) for choice in value or ()]
    if not all(isinstance(choice, str) for _, choice in pairs):
        raise ValueError("'instruction_options' holds something else than text")
    return tuple((one_line(name).lower(), one_line(choice).lower()) for name, choice in pairs)


def _phrases(fields: Mapping[str, Any], field: str) -> tuple[str, ...]:
    value = fields.get(field)
    phrases = [] if value is None else value
    if not isinstance(phrases, list) or not all(isinstance(phrase, str) for phrase in phrases):
        raise ValueError(f"{field!r} is no list of texts")
    return tuple(dict.fromkeys(filter(None, (one_line(phrase).lower() for phrase in phrases))))


def _sentence(value: Any) -> str:
    """A text of one line without its full stop, since clauses follow."""
    if not isinstance(value, str):
        raise ValueError(f"'instruction' is {type(value).__name__}, not text")
    return one_line(value).rstrip(" .,")
