"""The score of a purchase."""

from __future__ import annotations

import itertools

import pytest

from ragen_jax.envs.webshop.score import Score, Wanted, attribute_holds, same_option, score, type_factor
from tests.envs.webshop.shop_fixtures import product

GOAL = Wanted(
    product=product(attributes=("cotton", "machine washable", "long sleeve")),
    attributes=("cotton", "machine washable", "long sleeve"),
    options=(("size", "large"), ("color", "red")),
    ceiling=30.0,
)


@pytest.mark.parametrize(
    ("price", "title", "query", "categories", "value"),
    [
        (15.0, "Norvale cotton t-shirt", "t-shirt", ("clothing",), 0.6667),
        (30.01, "Norvale cotton t-shirt", "t-shirt", ("clothing",), 0.5),
        # one of the six nouns of the wanted title, another query, one level of category: type factor 0.5
        (15.0, "Norvale lamp", "lamp", ("clothing",), 0.3333),
    ],
)
def test_c33_two_of_three_attributes_and_one_of_two_options(
    price: float, title: str, query: str, categories: tuple[str, ...], value: float
) -> None:
    goal = Wanted(
        product(title="Norvale cotton crew neck tee shirt", attributes=GOAL.attributes),
        GOAL.attributes,
        GOAL.options,
        GOAL.ceiling,
    )
    bought = product(title=title, price=price, query=query, categories=categories)
    result = score(goal, bought, {"size": "x-large", "color": "red"})
    assert (result.attribute_hits, result.option_hits, result.price_ok) == (2, 1, price <= 30)
    assert result.value == pytest.approx(value, abs=5e-5)
    assert not result.full


def test_c33_only_a_full_match_is_worth_one() -> None:
    """Every combination of parts, against the formula."""
    for factor, attributes, options, price_ok in itertools.product((0.0, 0.1, 0.5, 1.0), range(4), range(3), (0, 1)):
        result = Score(factor, attributes, 3, options, 2, bool(price_ok))
        assert result.value == pytest.approx(factor * (attributes + options + price_ok) / 6)
        assert result.full == (result.value == 1) == ((factor, attributes, options, price_ok) == (1, 3, 2, 1))


def test_the_wanted_product_with_the_wanted_options_is_a_full_match() -> None:
    assert score(GOAL, GOAL.product, {"size": "large", "color": "red"}).full
    assert score(GOAL, GOAL.product, dict(GOAL.options)).value == 1
    assert not score(GOAL, GOAL.product, {"color": "red"}).full
    assert not score(GOAL, GOAL.product, {}).full


def test_the_price_may_be_the_ceiling() -> None:
    assert score(GOAL, product(price=30.0), {}).price_ok
    assert not score(GOAL, product(price=30.01), {}).price_ok


@pytest.mark.parametrize("name", ["size", "Cup Size", "size name"])
@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [("large", "x-large"), ("x-large", "large"), ("x-large", "xx-large"), ("pack of 2", "pack of 12")],
)
def test_sizes_must_be_equal(name: str, wanted: str, chosen: str) -> None:
    assert not same_option(name, wanted=wanted, chosen=chosen)
    assert same_option(name, wanted=wanted, chosen=wanted)


@pytest.mark.parametrize(
    ("wanted", "chosen", "same"),
    [
        ("red", "dark red", True),
        ("navy blue", "navy-blue stripes", True),
        ("red", "blue", False),
        ("vanilla", "vanilla bean", True),
        ("vanilla", "hazelnut", False),
        ("★", "★", True),
        ("★", "☆", False),
    ],
)
def test_other_options_may_differ_in_wording(wanted: str, chosen: str, same: bool) -> None:
    assert same_option("color", wanted=wanted, chosen=chosen) is same


def test_a_value_matches_its_own_option_only() -> None:
    """The name of an option is no value, and a value of one option is none of another."""
    goal = Wanted(product(), (), (("color", "red"),), 30.0)
    assert score(goal, product(), {"size": "red"}).option_hits == 0
    assert score(goal, product(), {"color": "color"}).option_hits == 0


@pytest.mark.parametrize(
    ("attribute", "holds"),
    [
        ("cotton", True),  # an attribute
        ("washable machine", True),  # the same words
        ("Slim Fit", True),  # said in a bullet
        ("plain", True),  # said in the description
        ("t-shirt", True),  # said in the title
        ("linen", False),
        ("red", False),  # option values are no texts
    ],
)
def test_an_attribute_is_known_or_said(attribute: str, holds: bool) -> None:
    assert attribute_holds(attribute, product()) is holds


@pytest.mark.parametrize(
    ("wanted_title", "title", "query", "categories", "factor"),
    [
        ("alpha beta gamma", "alpha", "t-shirt", ("x",), 1.0),  # query
        ("alpha beta gamma", "alpha", "lamp", ("tops", "clothing", "x"), 1.0),  # two levels, in any order
        ("alpha beta gamma", "alpha", "lamp", ("tops",), 1.0),  # a third of the nouns
        ("alpha beta gamma delta kappa", "alpha", "lamp", ("tops",), 0.5),  # a fifth is not more than 0.2
        ("a1 alpha beta gamma delta kappa iota rho sigma tau phi chi psi", "alpha", "lamp", ("tops",), 0.1),
        ("alpha beta gamma delta kappa iota rho sigma tau phi chi psi", "alpha", "t-shirt", ("tops",), 0.1),
        ("alpha beta gamma", "omega", "lamp", ("tops",), 0.0),
        ("alpha beta gamma", "omega", "t-shirt", ("clothing", "tops"), 0.0),
        ("red 12", "omega", "t-shirt", ("x",), 1.0),  # no noun
        ("red 12", "omega", "lamp", ("x",), 0.5),
    ],
)
def test_type_factors(wanted_title: str, title: str, query: str, categories: tuple[str, ...], factor: float) -> None:
    assert type_factor(product(title=wanted_title), product(title=title, query=query, categories=categories)) == factor


def test_products_without_a_query_do_not_share_one() -> None:
    wanted = product(title="alpha beta gamma delta kappa", query="", categories=())
    assert type_factor(wanted, product(title="alpha", query="", categories=())) == 0.5
