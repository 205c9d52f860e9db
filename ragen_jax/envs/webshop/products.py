"""Products, read from records of exactly the WebShop catalogue schema.

A record is one object of the list in a WebShop product file: ``asin``, ``name``, ``full_description``,
``small_description`` (list of bullets), ``pricing`` (text), ``product_category`` (levels with "›" between),
``category``, ``query``, ``customization_options`` (name -> list of ``{"value": ...}``), ``average_rating`` and others
that are not read. Texts of a catalogue are data: markers in them are made harmless before anybody sees them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ragen_jax.envs.data_source import read_json_list
from ragen_jax.envs.instances import content_hash
from ragen_jax.envs.text import neutralise

MAX_PRICE = 1e9  # dollars
MISSING_PRICE = 100.0  # dollars, for a product whose record has no price
_AMOUNT = r"\$?\s*(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)"
_PRICE = re.compile(rf"{_AMOUNT}(?:\s*(?:to|-|–)\s*{_AMOUNT})?", re.ASCII)
_SPACE = re.compile(r"\s+")


@dataclasses.dataclass(frozen=True)
class Product:
    """One product of a shop.

    Attributes:
      asin: identifier, lower case.
      title: one line.
      description: text, may be empty.
      bullets: short texts.
      listed: price as the list of results shows it, for example "$10.00 to $12.00".
      price: dollars to pay, within the listed range; the same in every process.
      categories: levels of the category path, lower case.
      query: search term that the catalogue files it under, lower case.
      options: name -> values, lower case, no name empty and no value twice.
      rating: average rating as text; "" when there is none.
      attributes: short phrases that hold for it, lower case.
    """

    asin: str
    title: str
    description: str
    bullets: tuple[str, ...]
    listed: str
    price: float
    categories: tuple[str, ...]
    query: str
    options: tuple[tuple[str, tuple[str, ...]], ...]
    rating: str
    attributes: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts in which an attribute may be said literally."""
        return (self.title, self.description, *self.bullets)

    def index_text(self) -> str:
        """Text that a search sees: title, description, first bullet and option values."""
        values = [value for _, group in self.options for value in group]
        return " ".join((self.title, self.description, *self.bullets[:1], *values))


def read_product_file(path: Path) -> Iterator[tuple[int, Any]]:
    """Records of a product file, numbered from 1; a repeated asin is a malformed record.

    Raises:
      ValueError: the file is not JSON, or not a list.
    """
    first: dict[str, int] = {}
    for number, record in read_json_list(path):
        asin = str(record.get("asin", "")).strip().lower() if isinstance(record, dict) else ""
        if asin and first.setdefault(asin, number) != number:
            yield number, ValueError(f"asin {asin!r} stands in record {first[asin]} already")
        else:
            yield number, record


def product_of(record: Any) -> Product:
    """The product of a decoded catalogue record; its attributes stand in another file, ``goals.Entry``.

    Raises:
      KeyError: a field is missing that every record must have (``asin``, ``name``).
      ValueError: a field has the wrong type, or a price that cannot be read.
    """
    if not isinstance(record, dict):
        raise ValueError(f"a record is {type(record).__name__}, not an object")
    asin = one_line(_text(record, "asin", required=True)).lower()
    title = one_line(_text(record, "name", required=True))
    if not asin or not title:
        raise ValueError("'asin' or 'name' is empty")
    low, high = price_range(_text(record, "pricing"))
    price = low if low == high else _draw_price(asin, low, high)
    rating = record.get("average_rating")
    return Product(
        asin=asin,
        title=title,
        description=one_line(_text(record, "full_description")),
        bullets=_bullets(record.get("small_description")),
        listed=f"${low:.2f}" if low == high else f"${low:.2f} to ${high:.2f}",
        price=price,
        categories=tuple(filter(None, (one_line(c).lower() for c in _text(record, "product_category").split("›")))),
        query=one_line(_text(record, "query")).lower(),
        options=_options(record.get("customization_options")),
        rating="" if rating is None else one_line(str(rating)),
    )


def price_range(text: str) -> tuple[float, float]:
    """Lowest and highest amount of a price text such as "$10.50" or "$10 to $12"; no text is ``MISSING_PRICE``.

    Raises:
      ValueError: there is text, but it is neither one amount nor two, or one is above ``MAX_PRICE``.
    """
    if not text.strip():
        return MISSING_PRICE, MISSING_PRICE
    match = _PRICE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"'pricing' is {text[:40]!r}: write one amount or a range, such as '$10.50' or '$10 to $12'")
    amounts = [float(amount.replace(",", "")) for amount in match.groups() if amount]
    if max(amounts) > MAX_PRICE:
        raise ValueError(f"'pricing' is {text[:40]!r}...: use at most {MAX_PRICE:,.0f} dollars")
    return min(amounts), max(amounts)


def one_line(text: str) -> str:
    """A text without markers, line breaks or runs of blanks."""
    return _SPACE.sub(" ", neutralise(text)).strip()


def _draw_price(asin: str, low: float, high: float) -> float:
    """Whole cents, uniform over the range, from the asin alone: every process draws the same."""
    rng = np.random.default_rng(np.random.SeedSequence(content_hash(f"price {asin}")))
    return round(float(rng.uniform(low, high)), 2)


def _text(record: Mapping[str, Any], field: str, *, required: bool = False) -> str:
    value = record[field] if required else record.get(field)
    if value is None and not required:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{field!r} is {type(value).__name__}, not text")
    return value


def _bullets(value: Any) -> tuple[str, ...]:
    """Bullets; a catalogue may have one text in place of the list, or nothing."""
    bullets = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(bullets, list) or not all(isinstance(bullet, str) for bullet in bullets):
        raise ValueError("'small_description' is no list of texts")
    return tuple(filter(None, map(one_line, bullets)))


def _options(value: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Option groups with at least one value; catalogues write an absent group as null and no groups as ""."""
    if not value:
        return ()
    if not isinstance(value, dict):
        raise ValueError(f"'customization_options' is {type(value).__name__}, not an object")
    groups: dict[str, tuple[str, ...]] = {}
    for name, choices in value.items():
        if choices is not None and not isinstance(choices, list):
            raise ValueError(f"option {name!r} is {type(choices).__name__}, not a list")
        values = tuple(dict.fromkeys(filter(None, (_choice(name, choice) for choice in choices or ()))))
        clean = one_line(name).lower()
        if clean and values:
            groups[clean] = values
    return tuple(groups.items())


def _choice(name: str, choice: Any) -> str:
    if not isinstance(choice, dict) or not isinstance(choice.get("value"), str):
        raise ValueError(f"a value of option {name!r} is no object with a text 'value'")
    return one_line(choice["value"]).lower()
