"""A shop from files: where they are looked for, and what is refused, left out or counted."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from ragen_jax.envs.webshop.catalogue import make_catalogue
from ragen_jax.envs.webshop.config import WebShopConfig
from ragen_jax.envs.webshop.shop import RESULTS, open_shop
from tests.envs.webshop.shop_fixtures import entry, record, write_shop


def _open(folder: Path, **options: Any) -> Any:
    return open_shop(WebShopConfig(folder=str(folder), **options))


def test_without_files_the_shop_is_our_own_and_says_so() -> None:
    shop = open_shop(WebShopConfig())
    assert (shop.source.name, shop.source.kind, shop.source.rows) == ("webshop", "embedded", 1000)
    assert shop.source.file == ""


def test_our_own_catalogue_comes_through_the_same_loader(tmp_path: Path) -> None:
    catalogue = make_catalogue(0, products=1000)
    shop = _open(write_shop(tmp_path / "webshop", catalogue.products, catalogue.entries))
    own = open_shop(WebShopConfig())
    assert shop.products == own.products
    assert shop.requests == own.requests
    assert (shop.source.kind, shop.source.file) == ("path", "items_shuffle_1000.json + items_ins_v2_1000.json")
    assert shop.source.sha256 != own.source.sha256


def test_a_folder_below_the_data_folder_is_found_by_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_shop(tmp_path / "webshop", [record("B1")], {"B1": entry()})
    monkeypatch.setenv("RAGEN_DATA_DIR", str(tmp_path))
    shop = open_shop(WebShopConfig())
    assert (shop.source.kind, shop.source.rows) == ("data_dir", 1)
    assert shop.products[0].attributes == ("cotton", "machine washable")


def test_a_shop_is_loaded_once(tmp_path: Path) -> None:
    folder = write_shop(tmp_path, [record("B1")], {"B1": entry()})
    assert _open(folder) is _open(folder, reward="score", split="validation", max_turns=3)
    assert _open(folder) is not open_shop(WebShopConfig())


def test_the_full_files_have_other_names(tmp_path: Path) -> None:
    folder = write_shop(tmp_path, [record("B1"), record("B2")], {"B2": entry()}, suffix="")
    shop = _open(folder, dataset="full")
    assert len(shop.products) == 2
    assert [request.product.asin for request in shop.requests] == ["b2"]
    with pytest.raises(ValueError, match=r"has no file 'items_shuffle_1000\.json'"):
        _open(folder)


def test_a_named_folder_is_never_replaced(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"folder='.*missing': no such file"):
        _open(tmp_path / "missing")


@pytest.mark.parametrize("options", [{"dataset": "full"}, {"goals": "human"}])
def test_options_that_need_files_are_refused_without_them(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="need the WebShop files"):
        open_shop(WebShopConfig(**options))


def test_human_goals(tmp_path: Path) -> None:
    human = {
        "B1": [
            {"instruction": "A large tee.", "instruction_attributes": ["cotton"], "instruction_options": ["large"]},
            {"instruction": "A silk tee.", "instruction_attributes": ["silk"], "instruction_options": []},
            {"instruction": "A tiny tee.", "instruction_attributes": ["cotton"], "instruction_options": ["tiny"]},
        ],
        "B9": [{"instruction": "Not sold here.", "instruction_attributes": ["cotton"]}],
    }
    folder = write_shop(tmp_path, [record("B1")], {"B1": entry()}, human)
    shop = _open(folder, goals="human")
    assert [request.text for request in shop.requests] == ["A large tee"]
    assert shop.left_out == 2
    assert shop.source.file.endswith("items_human_ins.json")
    with pytest.raises(ValueError, match=r"has no file 'items_human_ins\.json'"):
        _open(write_shop(tmp_path / "without", [record("B1")], {"B1": entry()}), goals="human")


def test_requests_that_nothing_meets_are_left_out_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    entries = {"B1": entry(), "B2": entry(instruction_attributes=["cotton", "made of moonlight"])}
    folder = write_shop(tmp_path, [record("B1"), record("B2")], entries)
    with caplog.at_level(logging.WARNING):
        shop = _open(folder)
    assert [request.product.asin for request in shop.requests] == ["b1"]
    assert shop.left_out == 1
    assert "1 of 2 requests left out" in caplog.text


@pytest.mark.parametrize(
    ("products", "entries", "message"),
    [
        ([], {"B1": entry()}, "holds no usable row"),
        ([record("B1")], {}, "holds no usable row"),
        ([record("B1")], {"B2": entry()}, "none of 1 products has a request"),
        ([record("B1")], {"B1": entry(instruction=None)}, "none of 1 products has a request"),
        ({"B1": record("B1")}, {"B1": entry()}, "holds dict, not a list"),
        ([record("B1")], [entry()], "holds list, not an object"),
        ("[{", {"B1": entry()}, "is not JSON"),
    ],
)
def test_files_without_a_goal_are_refused(tmp_path: Path, products: Any, entries: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _open(write_shop(tmp_path, products, entries))


@pytest.mark.parametrize(
    ("second", "fault"),
    [
        (record("B1"), "asin 'b1' stands in record 1 already"),
        (record("B2", pricing="cheap"), "'pricing' is 'cheap'"),
        ({"asin": "B2"}, "no field 'name'"),
        (["B2"], "a record is list"),
    ],
)
def test_malformed_records_are_named_by_number_or_skipped(tmp_path: Path, second: Any, fault: str) -> None:
    folder = write_shop(tmp_path, [record("B1"), second, record("B3")], {"B1": entry()})
    with pytest.raises(ValueError, match=f"webshop products: line 2 of .* is malformed: {fault}"):
        _open(folder)
    shop = _open(folder, skip_malformed=True)
    assert [product.asin for product in shop.products] == ["b1", "b3"]
    assert shop.source.skipped == 1


def test_malformed_entries_are_named_by_number_or_skipped(tmp_path: Path) -> None:
    folder = write_shop(tmp_path, [record("B1")], {"B0": "text", "B1": entry()})
    with pytest.raises(ValueError, match=r"webshop instructions: line 1 of .* is malformed: the entry of 'B0' is str"):
        _open(folder)
    assert _open(folder, skip_malformed=True).source.skipped == 1


def test_an_entry_that_stands_twice_is_malformed(tmp_path: Path) -> None:
    folder = write_shop(tmp_path, [record("B1")], {"B1": entry(), "b1": entry(instruction="Another.")})
    with pytest.raises(ValueError, match=r"line 2 of .* is malformed: asin 'b1' is the same as 'B1'"):
        _open(folder)
    shop = _open(folder, skip_malformed=True)
    assert [request.text for request in shop.requests] == ["I need a cotton t-shirt"]


def test_a_search_shows_at_most_fifty_products() -> None:
    shop = open_shop(WebShopConfig())
    assert len(shop.search("cotton")) == RESULTS == 50
    assert shop.search("winter coat")[0].query == "winter coat"
