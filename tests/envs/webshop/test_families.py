"""Families of products: the unit that training and validation must not share."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragen_jax.envs.instances import in_split
from ragen_jax.envs.webshop import families as module
from ragen_jax.envs.webshop.config import WebShopConfig
from ragen_jax.envs.webshop.families import families, may_meet_in_full
from ragen_jax.envs.webshop.goals import Goal, Request
from ragen_jax.envs.webshop.products import Product
from ragen_jax.envs.webshop.score import attribute_holds, same_option, score
from ragen_jax.envs.webshop.shop import open_shop
from tests.envs.webshop.shop_fixtures import product

PHRASES = ("cotton", "cottons", "machine washable", "machine-washable", "wash", "slim fit", "fit slim", "deep pocket")


def _request(asin: str, **changes: object) -> Request:
    own = product(asin, **changes)
    return Request(own, "I need a t-shirt", ("cotton",))


def _bought_in_full(goal: Goal, other: Product) -> bool:
    """True when some choice of options makes the purchase a full match; by the score itself."""
    chosen = {}
    for name, wanted in goal.wanted.options:
        fitting = [own for own in dict(other.options).get(name, ()) if same_option(name, wanted=wanted, chosen=own)]
        chosen |= {name: fitting[0]} if fitting else {}
    return score(goal.wanted, other, chosen).full


def test_no_training_product_meets_a_validation_goal_in_full() -> None:
    """Every goal of the built-in shop against every product of the other side, by the score, without the index."""
    shop = open_shop(WebShopConfig())
    held_out = {
        asin for asin, family in shop.families.items() if in_split(family, split="validation", validation_percent=10)
    }
    training = [other for other in shop.products if other.asin not in held_out]
    asked = [request for request in shop.requests if request.product.asin in held_out]
    assert 50 <= len(held_out) <= 200
    assert sum(1 for request in asked for _ in request.goals()) >= 100
    compared = 0
    for request in asked:
        for other in training:
            if all(attribute_holds(attribute, other) for attribute in request.attributes):
                compared += 1
                assert not any(_bought_in_full(goal, other) for goal in request.goals()), (request.text, other.asin)
    assert compared > 0, "options, kind or price alone keep some apart"


def test_the_split_by_product_would_leak() -> None:
    """The test above can fail: with products as units many validation goals are met by training products."""
    shop = open_shop(WebShopConfig())
    apart = {
        asin for asin in shop.families if in_split(asin, split="validation", validation_percent=10)
    }  # fmt: skip
    sides: dict[str, set[bool]] = {}
    for asin, family in shop.families.items():
        sides.setdefault(family, set()).add(asin in apart)
    assert sum(len(side) == 2 for side in sides.values()) > 10


def test_families_are_connected_over_others() -> None:
    """Ceilings are at most 40 above: 15 meets 50's request, 50 meets that of 85, 85 meets none of 15's."""
    requests = [_request(f"b{price}", price=float(price)) for price in (15, 50, 85)]
    far = _request("b900", price=900.0, query="lamp", categories=("lights",), title="brass lamp")
    products = [request.product for request in (*requests, far)]
    assert not may_meet_in_full(requests[0], requests[2].product)
    assert families(products, [*requests, far]) == {"b15": "b85", "b50": "b85", "b85": "b85", "b900": "b900"}


@pytest.mark.parametrize(
    "changes",
    [
        {"attributes": ("wool",), "title": "Norvale wool t-shirt"},
        {"options": (("size", ("small",)), ("color", ("red",)))},
        {"options": (("size", ("large",)),)},
        {"query": "lamp", "categories": ("lights",), "title": "Brass lamp"},
        {"price": 55.0},
    ],
)
def test_a_product_that_misses_one_thing_is_another_family(changes: dict[str, object]) -> None:
    request, other = _request("b1"), product("b2", **changes)
    assert families([request.product, other], [request]) == {"b1": "b1", "b2": "b2"}
    assert families([request.product, product("b2")], [request]) == {"b1": "b2", "b2": "b2"}


def test_a_written_request_asks_for_its_own_options_only() -> None:
    request = Request(product("b1"), "a red one", ("cotton",), (("color", "red"),))
    blue, red = (product(asin, options=(("color", (asin,)),)) for asin in ("blue", "red"))
    assert families([request.product, blue, red], [request]) == {"b1": "red", "red": "red", "blue": "blue"}


@given(
    phrase=st.sampled_from(PHRASES),
    own=st.lists(st.lists(st.sampled_from(PHRASES), max_size=3), min_size=1, max_size=4),
)
@settings(max_examples=25, deadline=None)
def test_the_index_finds_what_the_score_finds(phrase: str, own: list[list[str]]) -> None:
    products = [product(f"b{at}", attributes=tuple(held)) for at, held in enumerate(own)]
    found = module._holders(products, [phrase])[phrase]
    assert found == {at for at, held in enumerate(products) if attribute_holds(phrase, held)}


def test_a_large_catalogue_is_split_by_product(monkeypatch: pytest.MonkeyPatch) -> None:
    request = _request("b1")
    monkeypatch.setattr(module, "MOST_PRODUCTS", 1)
    assert families([request.product, product("b2")], [request]) == {"b1": "b1", "b2": "b2"}
