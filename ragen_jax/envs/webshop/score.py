"""How well a purchase meets a goal: the WebShop score.

``score = type_factor * (attribute hits + option hits + price hit) / (attributes + options + 1)``, 0 to 1. Only a full
match gives 1. (WebShop, Yao et al. 2022, section 3.1; exact rules in ``docs/environments.md``.)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ragen_jax.envs.webshop.matching import colour_of, contains, title_nouns, token_set_ratio, words
from ragen_jax.envs.webshop.products import Product

FUZZY_HIT = 85.0  # token-set ratio above which two phrases say the same


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What a customer asks for.

    Attributes:
      product: the product that the request was written for; its query, categories and title define the type.
      attributes: phrases that must hold.
      options: name -> value to choose.
      ceiling: highest acceptable price, dollars.
    """

    product: Product
    attributes: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    ceiling: float


@dataclasses.dataclass(frozen=True)
class Score:
    """A purchase in parts.

    Attributes:
      type_factor: 1, 0.5, 0.1 or 0; how much the product is of the wanted kind.
      attribute_hits: wanted attributes that hold, of ``attributes``.
      attributes: how many were wanted.
      option_hits: wanted options that were chosen, of ``options``.
      options: how many were wanted.
      price_ok: the price is within the ceiling.
    """

    type_factor: float
    attribute_hits: int
    attributes: int
    option_hits: int
    options: int
    price_ok: bool

    @property
    def value(self) -> float:
        """The score, 0 to 1."""
        hits = self.attribute_hits + self.option_hits + self.price_ok
        return self.type_factor * hits / (self.attributes + self.options + 1)

    @property
    def full(self) -> bool:
        """True when everything matches; decided on the parts, so rounding has no say."""
        complete = self.attribute_hits == self.attributes and self.option_hits == self.options
        return complete and self.price_ok and self.type_factor == 1.0


def score(wanted: Wanted, bought: Product, chosen: Mapping[str, str]) -> Score:
    """Score the purchase of ``bought`` with the options ``chosen`` (name -> value)."""
    return Score(
        type_factor=type_factor(wanted.product, bought),
        attribute_hits=sum(attribute_holds(attribute, bought) for attribute in wanted.attributes),
        attributes=len(wanted.attributes),
        option_hits=sum(
            name in chosen and same_option(name, wanted=value, chosen=chosen[name]) for name, value in wanted.options
        ),
        options=len(wanted.options),
        price_ok=bought.price <= wanted.ceiling,
    )


def attribute_holds(attribute: str, product: Product) -> bool:
    """True when some attribute of the product reads alike, or its title, bullets or description say it literally."""
    alike = any(token_set_ratio(attribute, own) > FUZZY_HIT for own in product.attributes)
    return alike or contains(product.texts, attribute)


def same_option(name: str, *, wanted: str, chosen: str) -> bool:
    """True when the chosen value of an option is the wanted one.

    Sizes must be equal: "large" is no "x-large". Other values may differ in wording, and of a value that names a
    colour only the colour counts.
    """
    if wanted == chosen:
        return True
    if "size" in words(name):
        return False
    return token_set_ratio(colour_of(wanted), colour_of(chosen)) > FUZZY_HIT


def type_factor(wanted: Product, bought: Product) -> float:
    """How much a product is of the kind of another one.

    1 when they share the query, two levels of category, or more than 0.2 of the nouns of the wanted title; else 0.5. A
    noun share below 0.1 makes it 0.1 and a share of 0 makes it 0, whatever else is shared. A wanted title without
    nouns says nothing about the share.
    """
    nouns = title_nouns(wanted.title)
    share = len(nouns & title_nouns(bought.title)) / len(nouns) if nouns else None
    if share == 0:
        return 0.0
    if share is not None and share < 0.1:
        return 0.1
    same_query = bool(wanted.query) and wanted.query == bought.query
    same_category = len(set(wanted.categories) & set(bought.categories)) >= 2
    return 1.0 if same_query or same_category or (share is not None and share > 0.2) else 0.5
