"""Our own catalogue: its schema, and that its products can be told apart by reading."""

from __future__ import annotations

import hashlib
import itertools
import os
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from ragen_jax.envs.webshop.catalogue import make_catalogue
from ragen_jax.envs.webshop.config import WebShopConfig
from ragen_jax.envs.webshop.ontology import BRANDS, DEPARTMENTS, KINDS, USES
from ragen_jax.envs.webshop.products import Product
from ragen_jax.envs.webshop.score import attribute_holds, same_option, score
from ragen_jax.envs.webshop.shop import Shop, open_shop

PRICES_OF_THE_SHOP = """
from ragen_jax.envs.webshop import WebShopConfig, open_shop
shop = open_shop(WebShopConfig())
print([(p.asin, p.title, p.price) for p in shop.products])
print([next(request.goals()).text for request in shop.requests])
print(shop.source.sha256)
"""


@pytest.fixture(scope="module")
def shop() -> Shop:
    return open_shop(WebShopConfig())


def test_records_have_the_fields_of_the_schema() -> None:
    catalogue = make_catalogue(1, products=130)
    assert len(catalogue.products) == len(catalogue.entries) == 130
    assert Counter(record["query"] for record in catalogue.products) == {
        kind.noun: 2 + (index < 10) for index, kind in enumerate(KINDS)
    }
    for record in catalogue.products:
        assert set(record) == {
            "asin", "name", "full_description", "small_description", "pricing", "images", "product_category",
            "category", "query", "customization_options", "average_rating",
        }  # fmt: skip
        assert set(catalogue.entries[record["asin"]]) == {"attributes", "instruction", "instruction_attributes"}


def test_seeds_and_sizes() -> None:
    assert make_catalogue(3, products=61) == make_catalogue(3, products=61)
    assert make_catalogue(3, products=61) != make_catalogue(4, products=61)
    with pytest.raises(ValueError, match="products=0"):
        make_catalogue(0, products=0)


def test_the_shop_has_a_thousand_products_of_sixty_kinds(shop: Shop) -> None:
    assert len(shop.products) == len(shop.requests) == 1000
    assert len({product.asin for product in shop.products}) == 1000
    assert len({product.query for product in shop.products}) == len(KINDS) == 60
    assert len({product.categories[0] for product in shop.products}) == len(DEPARTMENTS) == len(USES) == 5
    assert len(set(BRANDS)) == 30
    assert shop.left_out == 0
    assert shop.source.kind == "embedded"
    assert sum(1 for request in shop.requests for _ in request.goals()) > 10_000


def test_attributes_of_a_kind_exclude_each_other() -> None:
    for kind in KINDS:
        for first, second in itertools.permutations((*kind.materials, *kind.features), 2):
            alike = Product("b", kind.noun, "", (), "", 1.0, (), "", (), "", (second,))
            assert not attribute_holds(first, alike), (kind.noun, first, second)


def test_products_say_their_attributes_and_no_others(shop: Shop) -> None:
    kinds = {kind.noun: kind for kind in KINDS}
    for product in shop.products:
        kind = kinds[product.query]
        text = " ".join(product.texts).lower()
        assert all(attribute in text for attribute in product.attributes)
        held = [attribute for attribute in (*kind.materials, *kind.features) if attribute_holds(attribute, product)]
        assert sorted(held) == sorted(product.attributes)
        assert len(held) == 4


def test_option_values_of_a_product_can_be_told_apart(shop: Shop) -> None:
    for product in shop.products:
        assert len(product.options) >= 2
        for name, values in product.options:
            assert len(values) >= 2
            for wanted, chosen in itertools.permutations(values, 2):
                assert not same_option(name, wanted=wanted, chosen=chosen), (product.asin, wanted, chosen)


def test_few_purchases_meet_a_request(shop: Shop) -> None:
    """Its own product does, and most relatives of it do not."""
    rng = np.random.default_rng(0)
    meeting, relatives = [], []
    for index in rng.choice(len(shop.requests), size=100, replace=False):
        goal = shop.requests[index].draw(rng)
        own = goal.wanted.product
        kin = [product for product in shop.products if product.query == own.query]
        full = [product for product in kin if score(goal.wanted, product, dict(goal.wanted.options)).full]
        # The shopper can choose the wanted options only where they are offered.
        offered = [
            product
            for product in full
            if all(value in dict(product.options)[name] for name, value in goal.wanted.options)
        ]
        assert own in offered
        meeting.append(len(offered))
        relatives.append(len(kin))
    assert 16 <= np.mean(relatives) <= 17
    assert np.mean(meeting) < 2.5


def test_c24_prices_and_requests_do_not_depend_on_the_process() -> None:
    digests = set()
    for hash_seed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-c", PRICES_OF_THE_SHOP],
            env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr.decode()
        assert len(run.stdout) > 100_000
        digests.add(hashlib.sha256(run.stdout).hexdigest())
    assert len(digests) == 1
