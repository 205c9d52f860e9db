"""Pages: texts, labels and where clicks lead."""

from __future__ import annotations

import pytest

from ragen_jax.envs.webshop.pages import (
    DetailPage,
    DonePage,
    ItemPage,
    ResultsPage,
    SearchPage,
    at_dead_end,
    text_of,
)
from tests.envs.webshop.shop_fixtures import product

HOME = SearchPage("I need a t-shirt")
MANY = tuple(product(f"b0test{number:04}", title=f"Thing {number}") for number in range(25))
RESULTS = ResultsPage(HOME, MANY)
ITEM = ItemPage(RESULTS, MANY[0])


def test_the_search_page_is_the_request() -> None:
    assert text_of(HOME) == "Instruction: [SEP] I need a t-shirt [SEP] Search"
    assert not HOME.clicks()
    assert not at_dead_end(HOME)


def test_results_come_ten_a_page() -> None:
    text = text_of(RESULTS)
    assert text.startswith(
        "Back to Search [SEP] Page 1 (Total results: 25) [SEP] Next > [SEP] B0TEST0000 [SEP] Thing 0"
    )
    assert "[SEP] B0TEST0009 [SEP] Thing 9 [SEP] $15.00" in text
    assert "B0TEST0010" not in text
    assert list(RESULTS.clicks()) == ["back to search", "next >", *(f"b0test{number:04}" for number in range(10))]


def test_pages_of_results_are_bounded() -> None:
    second = RESULTS.clicks()["next >"]
    assert isinstance(second, ResultsPage)
    assert list(second.clicks())[:3] == ["back to search", "< prev", "next >"]
    third = second.clicks()["next >"]
    assert isinstance(third, ResultsPage)
    assert third.shown == MANY[20:]
    assert "next >" not in third.clicks()
    assert "Next >" not in text_of(third)
    assert third.clicks()["< prev"] == second
    assert "< prev" not in RESULTS.clicks()


@pytest.mark.parametrize(("found", "last"), [(0, 1), (1, 1), (10, 1), (11, 2), (20, 2)])
def test_the_last_page_holds_the_rest(found: int, last: int) -> None:
    results = ResultsPage(HOME, MANY[:found])
    assert results.last == last
    assert ("next >" in results.clicks()) is (last > 1)
    assert at_dead_end(results) is (found == 0)


def test_an_item_shows_options_price_and_buttons() -> None:
    assert text_of(ITEM) == (
        "Back to Search [SEP] < Prev [SEP] size [SEP] large [SEP] x-large [SEP] color [SEP] red [SEP] blue [SEP] "
        "Thing 0 [SEP] Price: $15.00 [SEP] Rating: 4.5 [SEP] Description [SEP] Features [SEP] Reviews [SEP] Buy Now"
    )
    assert ITEM.clicks()["< prev"] is RESULTS
    assert ITEM.clicks()["back to search"] is HOME


def test_the_item_page_says_what_is_paid_and_the_results_what_is_listed() -> None:
    ranged = product(listed="$10.00 to $20.00", price=13.37)
    results = ResultsPage(HOME, (ranged,))
    assert "$10.00 to $20.00" in text_of(results)
    assert "Price: $13.37" in text_of(ItemPage(results, ranged))


def test_the_last_choice_of_an_option_counts() -> None:
    page = ITEM
    for label in ("blue", "x-large", "large"):
        page = page.clicks()[label]  # type: ignore[assignment]
    assert page.chosen == (("size", "large"), ("color", "blue"))
    assert "size (chosen: large) [SEP] large [SEP] x-large [SEP] color (chosen: blue)" in text_of(page)
    assert page.clicks()["large"] == page
    assert page.clicks()["buy now"] == DonePage(MANY[0], page.chosen)
    assert ITEM.chosen == (), "pages do not change"


def test_details_keep_the_choices_and_searching_again_forgets_them() -> None:
    page = ITEM.choose("size", "large")
    detail = page.clicks()["features"]
    assert isinstance(detail, DetailPage)
    assert text_of(detail) == "Back to Search [SEP] < Prev [SEP] slim fit"
    assert detail.clicks()["< prev"] == page
    assert detail.clicks()["back to search"] == HOME
    assert at_dead_end(detail)
    assert RESULTS.clicks()["b0test0000"] == ITEM


@pytest.mark.parametrize(
    ("label", "text"), [("description", "A plain thing."), ("features", "slim fit"), ("reviews", "Average rating: 4.5")]
)
def test_details(label: str, text: str) -> None:
    assert text_of(ITEM.clicks()[label]).endswith(text)
    bare = ItemPage(RESULTS, product(description="", bullets=(), rating="", attributes=()))
    assert text_of(bare.clicks()[label]).endswith(f"No {label}.")


def test_attributes_are_a_page_only_where_they_are_shown() -> None:
    assert "attributes" not in ITEM.clicks()
    page = ItemPage(ResultsPage(SearchPage("x", show_attributes=True), MANY), MANY[0])
    assert text_of(page.clicks()["attributes"]).endswith("cotton [SEP] machine washable")


def test_equal_values_of_two_options_are_told_apart() -> None:
    options = (("frame", ("black", "gold")), ("lens", ("black", "buy now")))
    page = ItemPage(RESULTS, product(options=options))
    assert page.labels() == {
        "frame: black": ("frame", "black"),
        "gold": ("frame", "gold"),
        "lens: black": ("lens", "black"),
        "lens: buy now": ("lens", "buy now"),
    }
    assert page.clicks()["lens: black"] == page.choose("lens", "black")
    assert isinstance(page.clicks()["buy now"], DonePage)


def test_the_last_page_says_what_was_bought() -> None:
    done = DonePage(MANY[0], (("size", "large"),))
    assert text_of(done) == "You bought [SEP] Thing 0 [SEP] size: large [SEP] $15.00"
    assert not done.clicks()
    assert not at_dead_end(done)
