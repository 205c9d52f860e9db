"""Our own catalogue, drawn from the tables of ``ontology`` in exactly the WebShop schema.

Products come in families of eight that share brand and most attributes. Two of them differ in what a search sees: the
feature in the title, the material, or the option values on offer. Each of the two has three doubles, which differ from
it in one thing that a search does not see: one of the features that stand in the bullets only, or a price that is too
high.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ragen_jax.envs.webshop.ontology import BRANDS, DEPARTMENTS, KINDS, USES, Group, Kind

FAMILY = 8  # products: two that a search can tell apart, each with three doubles
_FEATURES = 3  # features of a product
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

_REQUESTS = (
    "I need {article} {phrase}",
    "please find {article} {phrase}",
    "I want to buy {article} {phrase} for {use}",
    "my sister asked me for {article} {phrase}",
    "we are looking for {article} {phrase} for {use}",
    "could you order {article} {phrase}",
)
_DESCRIPTIONS = (
    "{brand} made this {noun} for {use}. It keeps what it promises; the features say what that is.",
    "A {noun} that {brand} has sold for years, simple and honest.",
    "Chosen for {use}. Look at the features before you decide.",
)
_BULLETS = (
    "{feature} - checked by {brand}",
    "why people choose it: {feature}",
    "good to know: {feature}",
)
_FIRST_BULLETS = ("a gift idea for {use}", "ships in plain card", "a favourite of our team", "made for {use}")


@dataclasses.dataclass(frozen=True)
class Catalogue:
    """What the WebShop files hold.

    Attributes:
      products: records of the product file.
      entries: asin -> entry of the instruction file.
    """

    products: list[dict[str, Any]]
    entries: dict[str, dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class _Design:
    """A product before it is written down; its first feature stands in the title, the others in later bullets.

    A search sees the title and not the later bullets, so it takes reading to tell the members of a family apart.
    """

    kind: Kind
    brand: str
    use: str
    material: str
    features: tuple[str, ...]
    options: tuple[Group, ...]
    price: float


def make_catalogue(seed: int, *, products: int) -> Catalogue:
    """Draw a catalogue; the same seed and size give the same one in every process.

    Args:
      seed: zero or more.
      products: how many, spread evenly over the kinds.

    Raises:
      ValueError: for less than one product.
    """
    if products < 1:
        raise ValueError(f"products={products}: use 1 or more")
    catalogue = Catalogue([], {})
    for index, kind in enumerate(KINDS):
        count = products // len(KINDS) + (index < products % len(KINDS))
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(index,)))
        designs = (design for _ in range(-(-count // FAMILY)) for design in _family(kind, rng))
        for _, design in zip(range(count), designs, strict=False):
            asin = _asin(rng, catalogue.entries)
            catalogue.products.append(_record(asin, design, rng))
            catalogue.entries[asin] = _entry(design, rng)
    np.random.default_rng(np.random.SeedSequence(seed)).shuffle(catalogue.products)  # families do not stand together
    return catalogue


def _family(kind: Kind, rng: np.random.Generator) -> Iterator[_Design]:
    low, high = kind.prices
    first = _Design(
        kind=kind,
        brand=_pick(BRANDS, rng),
        use=_pick(USES[kind.department], rng),
        material=_pick(kind.materials, rng),
        features=tuple(_some(kind.features, _FEATURES, rng)),
        options=tuple((name, _offered(values, rng)) for name, values in kind.options),
        price=int(rng.integers(low, high)) + 0.99,
    )
    seen = (first, _VISIBLE[rng.integers(len(_VISIBLE))](first, rng))
    for design in seen:
        yield design
        for change in _HIDDEN:
            yield change(design, rng)


def _other_title(design: _Design, rng: np.random.Generator) -> _Design:
    """Another feature of it in the title, and another one among the bullets."""
    in_title, first, second = design.features
    return _other_feature(dataclasses.replace(design, features=(first, in_title, second)), 1, rng)


def _other_material(design: _Design, rng: np.random.Generator) -> _Design:
    others = [material for material in design.kind.materials if material != design.material]
    return dataclasses.replace(design, material=_pick(others, rng))


def _other_values(design: _Design, rng: np.random.Generator) -> _Design:
    """One of the options offers none of the values."""
    at = rng.integers(len(design.options))
    offered = dict(design.kind.options)
    options = [
        (name, _in_order(offered[name], [value for value in offered[name] if value not in values]))
        if place == at
        else (name, values)
        for place, (name, values) in enumerate(design.options)
    ]
    return dataclasses.replace(design, options=tuple(options))


def _other_feature(design: _Design, at: int, rng: np.random.Generator) -> _Design:
    others = [feature for feature in design.kind.features if feature not in design.features]
    features = [*design.features]
    features[at] = _pick(others, rng)
    return dataclasses.replace(design, features=tuple(features))


def _too_dear(design: _Design, rng: np.random.Generator) -> _Design:
    """A ceiling is at most 40 dollars above a price, and a range begins at most 4 below its end."""
    return dataclasses.replace(design, price=design.price + int(rng.integers(45, 90)))


_VISIBLE = (_other_title, _other_material, _other_values)
_HIDDEN = (
    lambda design, rng: _other_feature(design, 1, rng),
    lambda design, rng: _other_feature(design, 2, rng),
    _too_dear,
)


def _offered(values: tuple[str, ...], rng: np.random.Generator) -> tuple[str, ...]:
    """Two to four of the values, so that at least two are left for a product that offers the others."""
    return _in_order(values, _some(values, min(int(rng.integers(3, 5)), len(values) - 2), rng))


def _record(asin: str, design: _Design, rng: np.random.Generator) -> dict[str, Any]:
    kind = design.kind
    words = {"brand": design.brand, "noun": kind.noun, "use": design.use}
    in_title, *in_bullets = design.features
    return {
        "asin": asin,
        "name": _title(design, in_title, rng),
        "full_description": _pick(_DESCRIPTIONS, rng).format(**words),
        "small_description": [
            _pick(_FIRST_BULLETS, rng).format(**words),
            *(_pick(_BULLETS, rng).format(**words, feature=feature) for feature in in_bullets),
        ],
        "pricing": _pricing(design.price, rng),
        "images": [],
        "product_category": " › ".join((DEPARTMENTS[kind.department], kind.aisle, kind.noun.title())),
        "category": kind.department,
        "query": kind.noun,
        "customization_options": {
            name: [{"value": value, "image": None} for value in values] for name, values in design.options
        },
        "average_rating": None if rng.random() < 0.1 else round(float(rng.uniform(2.5, 5.0)), 1),
    }


def _title(design: _Design, feature: str, rng: np.random.Generator) -> str:
    thing = f"{design.material} {design.kind.noun}"
    titles = (
        f"{design.brand} {thing}, {feature}, for {design.use}",
        f"{thing} by {design.brand}, {feature}, for {design.use}",
        f"{design.brand} {feature} {thing} for {design.use}",
    )
    title = _pick(titles, rng)
    return title[0].upper() + title[1:]


def _entry(design: _Design, rng: np.random.Generator) -> dict[str, Any]:
    """The instruction asks for the features that stand in the bullets, and for the one in the title or the material."""
    features = design.features[int(rng.integers(2)) :]
    wanted = features if len(features) == _FEATURES else (*features, design.material)
    material = f"{design.material} " if design.material in wanted else ""
    phrase = f"{', '.join(features)} {material}{design.kind.noun}"
    article = "an" if phrase[0] in "aeiou" else "a"
    instruction = _pick(_REQUESTS, rng).format(article=article, phrase=phrase, use=design.use)
    return {
        "attributes": [design.material, *design.features],
        "instruction": instruction,
        "instruction_attributes": list(wanted),
    }


def _pricing(price: float, rng: np.random.Generator) -> str:
    """Price text: mostly one amount, sometimes a range that ends there."""
    if rng.random() < 0.15:
        return f"${max(price - int(rng.integers(1, 5)), 0.99):.2f} to ${price:.2f}"
    return f"${price:.2f}"


def _asin(rng: np.random.Generator, taken: dict[str, dict[str, Any]]) -> str:
    while True:
        asin = "B0" + "".join(_pick(_LETTERS, rng) for _ in range(8))
        if asin not in taken:
            return asin


def _pick(choices: Sequence[str], rng: np.random.Generator) -> str:
    return choices[int(rng.integers(len(choices)))]


def _some(choices: tuple[str, ...], count: int, rng: np.random.Generator) -> list[str]:
    """Different ones, in random order."""
    return [choices[index] for index in rng.permutation(len(choices))[:count]]


def _in_order(choices: tuple[str, ...], chosen: list[str]) -> tuple[str, ...]:
    return tuple(choice for choice in choices if choice in chosen)
