"""Scripted shoppers: one who knows the wanted product, one who clicks anything, and three who buy the first result.

The careful one writes demonstrations and shows that every goal can be met. The careless ones show what a shop pays to
whoever does not read it.
"""

from __future__ import annotations

import numpy as np

from ragen_jax.envs.demonstrations import with_fillers
from ragen_jax.envs.webshop.goals import Goal
from ragen_jax.envs.webshop.matching import words
from ragen_jax.envs.webshop.pages import (
    BACK,
    BUY,
    NEXT,
    PAGE_SIZE,
    PREVIOUS,
    DetailPage,
    DonePage,
    ItemPage,
    Page,
    ResultsPage,
    SearchPage,
)
from ragen_jax.envs.webshop.shop import Shop

_PAGES = 2  # pages of results that a demonstration is willing to read


def next_action(shop: Shop, goal: Goal, page: Page) -> tuple[str, str]:
    """Why, and what, a shopper who knows the wanted product does next.

    Searches with the words of the request; where they do not bring the product to the first pages, with its title.

    Raises:
      ValueError: something was bought already.
    """
    product = goal.wanted.product
    match page:
        case SearchPage():
            return "first search", f"search[{_query(shop, goal)}]"
        case ResultsPage():
            if product in page.shown:
                return f"fits on page {page.number}", _click(product.asin)
            if product in page.hits[page.number * PAGE_SIZE :]:
                return "not here", _click(NEXT)
            if product in page.hits:
                return "was before", _click(PREVIOUS)
            return "none fits", _click(BACK)
        case ItemPage() if page.product == product:
            chosen, labels = dict(page.chosen), {option: label for label, option in page.labels().items()}
            for name, value in goal.wanted.options:
                if chosen.get(name) != value:
                    return f"choose {name}", _click(labels[name, value])
            return "all chosen", _click(BUY)
        case ItemPage():
            return "this is another one", _click(PREVIOUS)
        case DetailPage():
            return "enough read", _click(PREVIOUS)
        case DonePage():
            raise ValueError("the purchase is made: reset the environment")


def any_action(goal: Goal, page: Page, rng: np.random.Generator) -> str:
    """Any action of the page, all equally likely; a search takes two words of the request."""
    if isinstance(page, SearchPage):
        return f"search[{' '.join(rng.choice(words(goal.text), size=2).tolist())}]"
    labels = list(page.clicks())
    return _click(labels[rng.integers(len(labels))])


def first_result(goal: Goal, page: Page) -> str:
    """Search for the whole request, open the first product and buy it as it is."""
    match page:
        case SearchPage():
            return f"search[{goal.text}]"
        case ResultsPage(hits=hits) if hits:
            return _click(hits[0].asin)
        case ItemPage():
            return _click(BUY)
    return _click(BACK)


def first_values(goal: Goal, page: Page) -> str:
    """As ``first_result``, but choose the first value of every option before buying."""
    if isinstance(page, ItemPage):
        chosen = dict(page.chosen)
        for label, (name, _) in page.labels().items():
            if name not in chosen:
                return _click(label)
    return first_result(goal, page)


def fitting_values(goal: Goal, page: Page) -> str:
    """As ``first_result``, but choose the option values that the request names before buying."""
    if isinstance(page, ItemPage):
        chosen = dict(page.chosen)
        request = f" {' '.join(words(goal.text))} "
        for label, (name, value) in page.labels().items():
            if name not in chosen and f" {' '.join(words(f'{name} {value}'))} " in request:
                return _click(label)
    return first_result(goal, page)


def reasoning(goal: Goal, reason: str, action: str, rng: np.random.Generator) -> str:
    """A short thought about the request and the action."""
    wanted = goal.wanted
    kind = wanted.product.query or "this"
    parts = (
        f"need {' and '.join(wanted.attributes)} {kind}",
        *(f"{name} {value}" for name, value in wanted.options),
        f"under {wanted.ceiling:g}",
        reason,
        f"so {action.partition('[')[0]}",
    )
    return with_fillers(parts, rng)


def _click(label: str) -> str:
    return f"click[{label.lower()}]"


def _query(shop: Shop, goal: Goal) -> str:
    """Words that bring the wanted product to the first pages: what the request asks for, its text, or the title."""
    wanted = goal.wanted
    product = wanted.product
    queries = (" ".join((*wanted.attributes, product.query)).strip(), goal.text)
    reach = _PAGES * PAGE_SIZE
    return next((query for query in queries if query and product in shop.search(query)[:reach]), product.title)
