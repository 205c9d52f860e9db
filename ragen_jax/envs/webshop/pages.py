"""The pages of the shop as values: what each shows, what can be clicked on it, and where a click leads.

A page is immutable and knows the page behind it, so an episode holds one page and nothing else. Pieces of a page are
joined by " [SEP] ".
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import Literal

from ragen_jax.envs.webshop.products import Product

SEPARATOR = " [SEP] "
PAGE_SIZE = 10  # products on a page of results
BACK, PREVIOUS, NEXT, BUY = "Back to Search", "< Prev", "Next >", "Buy Now"
DetailName = Literal["Description", "Features", "Reviews", "Attributes"]


@dataclasses.dataclass(frozen=True)
class SearchPage:
    """The entry of the shop.

    Attributes:
      request: what the customer asks for.
      show_attributes: product pages of this visit have a page of attributes.
    """

    request: str
    show_attributes: bool = False

    def pieces(self) -> tuple[str, ...]:
        """Visible texts, in order."""
        return ("Instruction:", self.request, "Search")

    def clicks(self) -> Mapping[str, Page]:
        """Nothing can be clicked."""
        return {}


@dataclasses.dataclass(frozen=True)
class ResultsPage:
    """Ten of the products that a search found.

    Attributes:
      home: the search page it came from.
      hits: all products found, best first.
      number: of this page, from 1; never beyond the last.
    """

    home: SearchPage
    hits: tuple[Product, ...]
    number: int = 1

    @property
    def shown(self) -> tuple[Product, ...]:
        """Products on this page."""
        return self.hits[(self.number - 1) * PAGE_SIZE : self.number * PAGE_SIZE]

    @property
    def last(self) -> int:
        """Number of the last page, at least 1."""
        return max(-(-len(self.hits) // PAGE_SIZE), 1)

    def pieces(self) -> tuple[str, ...]:
        """Visible texts, in order."""
        buttons = [PREVIOUS] * (self.number > 1) + [NEXT] * (self.number < self.last)
        products = [text for item in self.shown for text in (item.asin.upper(), item.title, item.listed)]
        return (BACK, f"Page {self.number} (Total results: {len(self.hits)})", *buttons, *products)

    def clicks(self) -> Mapping[str, Page]:
        """Label in lower case -> the page that the click leads to."""
        targets: dict[str, Page] = {BACK.lower(): self.home}
        if self.number > 1:
            targets[PREVIOUS.lower()] = dataclasses.replace(self, number=self.number - 1)
        if self.number < self.last:
            targets[NEXT.lower()] = dataclasses.replace(self, number=self.number + 1)
        for item in self.shown:
            targets.setdefault(item.asin, ItemPage(self, item))
        return targets


@dataclasses.dataclass(frozen=True)
class ItemPage:
    """One product, with the options chosen so far.

    Attributes:
      results: the page of results it was opened from.
      product: what is shown.
      chosen: (option name, value) in the order of the product's options, at most one value a name.
    """

    results: ResultsPage
    product: Product
    chosen: tuple[tuple[str, str], ...] = ()

    def labels(self) -> dict[str, tuple[str, str]]:
        """Label of each option value -> (option name, value).

        A value is its own label; where several options have it, or a button reads like it, the label is "name: value".
        """
        product = self.product
        count = Counter(value for _, values in product.options for value in values)
        buttons = {label.lower() for label in (BACK, PREVIOUS, BUY, *self._details())}
        return {
            value if count[value] == 1 and value not in buttons else f"{name}: {value}": (name, value)
            for name, values in product.options
            for value in values
        }

    def pieces(self) -> tuple[str, ...]:
        """Visible texts, in order."""
        product, chosen = self.product, dict(self.chosen)
        texts = [BACK, PREVIOUS]
        labels = self.labels()
        for name, _ in product.options:
            texts.append(f"{name} (chosen: {chosen[name]})" if name in chosen else name)
            texts += [label for label, (option, _) in labels.items() if option == name]
        rating = product.rating or "N.A."
        return (*texts, product.title, f"Price: ${product.price:.2f}", f"Rating: {rating}", *self._details(), BUY)

    def clicks(self) -> Mapping[str, Page]:
        """Label in lower case -> the page that the click leads to."""
        targets: dict[str, Page] = {
            BACK.lower(): self.results.home,
            PREVIOUS.lower(): self.results,
        }
        for label, (name, value) in self.labels().items():
            targets[label] = self.choose(name, value)
        for detail in self._details():
            targets[detail.lower()] = DetailPage(self, detail)
        targets[BUY.lower()] = DonePage(self.product, self.chosen)
        return targets

    def choose(self, name: str, value: str) -> ItemPage:
        """The page with one option chosen; the last choice of a name counts."""
        chosen = {**dict(self.chosen), name: value}
        ordered = tuple((option, chosen[option]) for option, _ in self.product.options if option in chosen)
        return dataclasses.replace(self, chosen=ordered)

    def _details(self) -> tuple[DetailName, ...]:
        return ("Description", "Features", "Reviews", *(("Attributes",) if self.results.home.show_attributes else ()))


@dataclasses.dataclass(frozen=True)
class DetailPage:
    """More about a product.

    Attributes:
      item: page of the product, with its choices.
      name: which of the sub-pages.
    """

    item: ItemPage
    name: DetailName

    def pieces(self) -> tuple[str, ...]:
        """Visible texts, in order."""
        product = self.item.product
        texts: tuple[str, ...]
        match self.name:
            case "Description":
                texts = (product.description,) if product.description else ("No description.",)
            case "Features":
                texts = product.bullets or ("No features.",)
            case "Attributes":
                texts = product.attributes or ("No attributes.",)
            case "Reviews":  # catalogues hold the average alone
                texts = (f"Average rating: {product.rating}" if product.rating else "No reviews.",)
        return (BACK, PREVIOUS, *texts)

    def clicks(self) -> Mapping[str, Page]:
        """Label in lower case -> the page that the click leads to."""
        return {BACK.lower(): self.item.results.home, PREVIOUS.lower(): self.item}


@dataclasses.dataclass(frozen=True)
class DonePage:
    """The end: something was bought.

    Attributes:
      product: what was bought.
      chosen: (option name, value) chosen.
    """

    product: Product
    chosen: tuple[tuple[str, str], ...]

    def pieces(self) -> tuple[str, ...]:
        """Visible texts, in order."""
        options = (f"{name}: {value}" for name, value in self.chosen)
        return ("You bought", self.product.title, *options, f"${self.product.price:.2f}")

    def clicks(self) -> Mapping[str, Page]:
        """Nothing can be clicked."""
        return {}


Page = SearchPage | ResultsPage | ItemPage | DetailPage | DonePage


def text_of(page: Page) -> str:
    """What a page shows."""
    return SEPARATOR.join(page.pieces())


def at_dead_end(page: Page) -> bool:
    """True when nothing but the way back can be clicked: details, and results without a product."""
    return bool(page.clicks()) and set(page.clicks()) <= {BACK.lower(), PREVIOUS.lower()}
