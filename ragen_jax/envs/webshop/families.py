"""Which products may not be wanted in different splits: those that meet each other's requests.

A policy that has learned to buy product B for one request has learned the answer to every other request that B meets in
full. So the unit of the split is a family: a connected component of "a request of A is met in full by B".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ragen_jax.envs.webshop.goals import Request, price_bound
from ragen_jax.envs.webshop.matching import token_set_ratio, words
from ragen_jax.envs.webshop.products import Product
from ragen_jax.envs.webshop.score import FUZZY_HIT, same_option, type_factor

MOST_PRODUCTS = 5_000
"""In a larger catalogue every product is a family of its own: comparing them all would take minutes to hours."""


def families(products: Sequence[Product], requests: Sequence[Request]) -> dict[str, str]:
    """Family of each product: asin -> largest asin of the family; the asin itself beyond ``MOST_PRODUCTS``.

    Products that meet a request of each other in full, directly or over others, share a family. The price is compared
    with the highest ceiling that a request can have, so a family may be larger than it must be, never smaller.
    """
    root = {product.asin: product.asin for product in products}
    if len(products) > MOST_PRODUCTS:
        return root
    holders = _holders(products, {phrase for request in requests for phrase in request.attributes})
    for request in requests:
        meeting = set.intersection(*(holders[phrase] for phrase in request.attributes)) if request.attributes else None
        for position in range(len(products)) if meeting is None else meeting:
            if may_meet_in_full(request, products[position]):
                ends = sorted((_find(root, request.product.asin), _find(root, products[position].asin)))
                root[ends[0]] = ends[1]
    return {asin: _find(root, asin) for asin in root}


def may_meet_in_full(request: Request, product: Product) -> bool:
    """True when kind, options and price of a product can meet a request; its attributes are not looked at."""
    if product.price > price_bound(request.product.price) or type_factor(request.product, product) != 1:
        return False
    if request.options is None:
        wanted = request.product.options
    else:
        wanted = tuple((name, (value,)) for name, value in request.options)
    offered = dict(product.options)
    return all(
        any(same_option(name, wanted=value, chosen=own) for value in values for own in offered.get(name, ()))
        for name, values in wanted
    )


def _holders(products: Sequence[Product], phrases: Iterable[str]) -> dict[str, set[int]]:
    """Phrase -> positions of the products of which it holds, as ``score.attribute_holds`` says."""
    owners: dict[str, set[int]] = defaultdict(set)
    for position, product in enumerate(products):
        for own in product.attributes:
            owners[own].add(position)
    texts = ["\n".join(product.texts).lower() for product in products]  # a phrase is one line, so it never spans two
    candidates = _alike_candidates(tuple(owners))
    holders = {}
    for phrase in phrases:
        found = {position for position, text in enumerate(texts) if phrase.lower() in text}
        for own in candidates(phrase):
            if token_set_ratio(phrase, own) > FUZZY_HIT:
                found |= owners[own]
        holders[phrase] = found
    return holders


def _alike_candidates(texts: tuple[str, ...]) -> Callable[[str], list[str]]:
    """A function that gives the texts whose token-set ratio with a phrase may be a hit.

    They share a word with the phrase, or so many letters that a common subsequence can be long enough: without a common
    word the ratio is ``100 * 2 lcs / (length + length)``, and a subsequence has no letter that one of the two lacks.
    """
    plain = [" ".join(sorted(set(words(text)))) for text in texts]
    letters = {letter: column for column, letter in enumerate(sorted(set("".join(plain))))}
    having: dict[str, set[int]] = defaultdict(set)
    for at, text in enumerate(plain):
        for word in text.split():
            having[word].add(at)

    def count(text: str) -> np.ndarray:
        row = np.zeros(len(letters), dtype=np.int16)
        for letter in text:
            if letter in letters:
                row[letters[letter]] += 1
        return row

    counts = np.array([count(text) for text in plain]).reshape(len(plain), len(letters))
    lengths = np.array([len(text) for text in plain])

    def candidates(phrase: str) -> list[str]:
        own = " ".join(sorted(set(words(phrase))))
        common = np.minimum(counts, count(own)).sum(axis=1)
        near = set(np.flatnonzero(200 * common > FUZZY_HIT * (lengths + len(own))).tolist())
        return [texts[at] for at in sorted(near.union(*(having.get(word, set()) for word in own.split())))]

    return candidates


def _find(root: dict[str, str], asin: str) -> str:
    while root[asin] != asin:
        root[asin] = root[root[asin]]  # shortens the path for the next look
        asin = root[asin]
    return asin
