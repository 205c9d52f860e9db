"""Requests, goals and their price ceilings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragen_jax.envs.webshop.goals import (
    Entry,
    HumanRequest,
    Request,
    entry_of,
    human_requests,
    human_requests_of,
    price_bound,
    price_ceiling,
    read_json_object,
    synthetic_requests,
)
from tests.envs.webshop.shop_fixtures import entry, product

REQUEST = Request(product(), "I need a cotton t-shirt", ("cotton",))


def test_a_synthetic_goal_names_every_option_and_a_price() -> None:
    goals = list(REQUEST.goals())
    assert [goal.wanted.options for goal in goals] == [
        (("size", size), ("color", color)) for size in ("large", "x-large") for color in ("red", "blue")
    ]
    ceiling = goals[1].wanted.ceiling
    assert goals[1].text == f"I need a cotton t-shirt with size: large, and color: blue, for at most ${ceiling:.2f}"
    assert len({goal.canonical() for goal in goals}) == 4


def test_drawn_goals_are_the_listed_ones_and_equally_likely() -> None:
    rng = np.random.default_rng(0)
    drawn = [REQUEST.draw(rng).canonical() for _ in range(400)]
    listed = [goal.canonical() for goal in REQUEST.goals()]
    counts = np.array([drawn.count(text) for text in listed])
    assert counts.sum() == 400
    assert np.all(np.abs(counts - 100) < 4 * np.sqrt(400 * 0.25 * 0.75))


def test_products_without_options_give_one_goal() -> None:
    request = Request(product(options=()), "I need a lamp", ("cotton",))
    (goal,) = request.goals()
    assert goal.text == f"I need a lamp, for at most ${goal.wanted.ceiling:.2f}"


@given(price=st.floats(0, 2000), key=st.text(max_size=5))
@settings(max_examples=25, deadline=None)
def test_a_ceiling_is_one_of_the_next_multiples_of_ten(price: float, key: str) -> None:
    ceiling = price_ceiling(price, key=key)
    first = 10 * (price // 10 + 1)
    assert ceiling in (first + 10, first + 20, first + 30)
    assert price_bound(price) == first + 30
    assert ceiling > price
    assert price_ceiling(price, key=key) == ceiling


def test_ceilings_are_the_larger_of_two_of_four() -> None:
    """Of the six pairs one has the second as its larger one, two the third, three the fourth."""
    drawn = np.array([price_ceiling(15.0, key=str(number)) for number in range(1200)])
    counts = [int(np.sum(drawn == ceiling)) for ceiling in (20, 30, 40, 50)]
    assert counts[0] == 0
    assert np.all(np.abs(np.array(counts[1:]) - [200, 400, 600]) < 75)


def test_only_products_with_instruction_and_attributes_are_asked_for() -> None:
    products = [product(f"b{number}") for number in range(4)]
    entries = {
        "b0": Entry("b0", ("cotton",), "Get me one", ("cotton",)),
        "b1": Entry("b1", ("cotton",), "", ("cotton",)),
        "b2": Entry("b2", ("cotton",), "Get me one", ()),
    }
    assert [request.product.asin for request in synthetic_requests(products, entries)] == ["b0"]


@pytest.mark.parametrize(("wanted", "reachable"), [(("cotton",), True), (("cotton", "silk"), False)])
def test_a_request_is_reachable_when_its_own_product_meets_it(wanted: tuple[str, ...], reachable: bool) -> None:
    assert Request(product(), "x", wanted).reachable() is reachable


def test_human_requests_keep_their_options() -> None:
    written = [
        HumanRequest("b1", "A red one please", ("cotton",), (("", "red"),)),
        HumanRequest("b1", "A large one please", ("cotton",), (("size", "large"),)),
        HumanRequest("b1", "Any", ("cotton",), ()),
    ]
    requests, left_out = human_requests([product("b1")], written)
    assert left_out == 0
    assert [request.options for request in requests] == [(("color", "red"),), (("size", "large"),), ()]
    (goal,) = requests[0].goals()
    assert goal.text == f"A red one please, for at most ${goal.wanted.ceiling:.2f}"
    assert requests[0].draw(np.random.default_rng(0)) == goal


@pytest.mark.parametrize("option", [("", "violet"), ("size", "red"), ("", "large")])
def test_human_requests_for_options_that_are_not_there_are_counted(option: tuple[str, str]) -> None:
    twice = product("b1", options=(("size", ("large",)), ("color", ("red",)), ("fit", ("large",))))
    requests, left_out = human_requests([twice], [HumanRequest("b1", "x", ("cotton",), (option,))])
    assert (requests, left_out) == ([], 1)


def test_human_requests_for_other_products_do_not_count() -> None:
    assert human_requests([product("b1")], [HumanRequest("b2", "x", ("cotton",), ())]) == ([], 0)


def test_entries_are_read() -> None:
    read = entry_of(("B1 ", entry(attributes=["Cotton", "cotton", ""])))
    assert read == Entry("b1", ("cotton",), "I need a cotton t-shirt", ("cotton",))
    assert entry_of(("B1", {"attributes": None})) == Entry("b1", (), "", ())


def test_human_entries_are_read() -> None:
    fields = {"instruction": "A red one.", "instruction_attributes": ["Cotton"]}
    read = human_requests_of(
        ("B1", [fields | {"instruction_options": ["Red"]}, fields | {"instruction_options": {"Size": "Large"}}, fields])
    )
    assert [request.options for request in read] == [(("", "red"),), (("size", "large"),), ()]
    assert read[0] == HumanRequest("b1", "A red one", ("cotton",), (("", "red"),))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("text", "the entry of 'B1' is str"),
        (entry(attributes="cotton"), "'attributes' is no list of texts"),
        (entry(instruction_attributes=[1]), "'instruction_attributes' is no list of texts"),
        (entry(instruction=5), "'instruction' is int"),
    ],
)
def test_malformed_entries_are_refused(fields: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        entry_of(("B1", fields))


@pytest.mark.parametrize("fields", ["text", ["text"], [{"instruction": "x", "instruction_options": [1]}]])
def test_malformed_human_entries_are_refused(fields: Any) -> None:
    with pytest.raises(ValueError, match=r"'B1'|'instruction_options'"):
        human_requests_of(("B1", fields))


def test_files_of_entries_are_objects(tmp_path: Path) -> None:
    path = tmp_path / "entries.json"
    path.write_text(json.dumps({"B1": 1, "B2": 2}), encoding="utf-8")
    assert list(read_json_object(path)) == [(1, ("B1", 1)), (2, ("B2", 2))]
    path.write_text("[]", encoding="utf-8")
    with pytest.raises(ValueError, match="holds list, not an object"):
        list(read_json_object(path))
    path.write_text('{"B1": 1}', encoding="utf-8-sig")
    assert list(read_json_object(path)) == [(1, ("B1", 1))]
    for content in (b"{", b'{"B\xe9": 1}', b'{"B1": ' + b"[" * 100_000, b'{"B1": ' + b"9" * 5000 + b"}"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"entries\.json is not JSON"):
            list(read_json_object(path))
