"""A shop: products, their search index and the requests of its customers, loaded once per process."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from collections.abc import Mapping
from functools import cache, cached_property, lru_cache
from pathlib import Path

from ragen_jax.envs.data_source import DataSource, load_rows, locate
from ragen_jax.envs.webshop.catalogue import Catalogue, make_catalogue
from ragen_jax.envs.webshop.config import WebShopConfig
from ragen_jax.envs.webshop.families import families
from ragen_jax.envs.webshop.goals import (
    Entry,
    HumanRequest,
    Request,
    entry_of,
    human_requests,
    human_requests_of,
    read_json_object,
    synthetic_requests,
)
from ragen_jax.envs.webshop.index import SearchIndex
from ragen_jax.envs.webshop.products import Product, product_of, read_product_file

RESULTS = 50  # products that a search shows at most, over all pages
_EMBEDDED_SEED, _EMBEDDED_PRODUCTS = 0, 1000
_PRODUCT_FILES = {"small": "items_shuffle_1000.json", "full": "items_shuffle.json"}
_ENTRY_FILES = {"small": "items_ins_v2_1000.json", "full": "items_ins_v2.json"}
_HUMAN_FILE = "items_human_ins.json"

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, eq=False)
class Shop:
    """Shared read-only by all environments of a process.

    Attributes:
      products: in catalogue order.
      requests: what customers ask for; each is met in full by its own product.
      source: where products and requests come from.
      left_out: requests that their own product does not meet, or that name options it does not have.
      families: asin -> family, the unit of the split; see ``families.families``.
      index: search index over the products.
    """

    products: tuple[Product, ...]
    requests: tuple[Request, ...]
    source: DataSource
    left_out: int
    families: Mapping[str, str]
    index: SearchIndex

    @cached_property
    def longest(self) -> Request:
        """The request that takes the most actions."""
        return max(self.requests, key=lambda request: request.actions_needed)

    def search(self, query: str) -> tuple[Product, ...]:
        """Products that a query finds, best first, at most ``RESULTS``."""
        return tuple(self.products[position] for position in self.index.search(query, limit=RESULTS))


def open_shop(config: WebShopConfig) -> Shop:
    """The shop that a config names, loaded once per process.

    Raises:
      ValueError: files are missing, malformed or hold no goal; or the options ask for files and no folder is there.
    """
    found = locate(config.folder, option="folder", below="webshop", folder=True)
    if found is None and (config.dataset != "small" or config.goals != "synthetic"):
        raise ValueError(
            f"dataset={config.dataset!r}, goals={config.goals!r} need the WebShop files: name their folder with "
            "folder=..., or leave both at their defaults for the built-in catalogue"
        )
    return _open(found, config.dataset, config.goals, config.skip_malformed)


@lru_cache(maxsize=8)
def _open(found: tuple[str, Path] | None, dataset: str, goals: str, skip_malformed: bool) -> Shop:
    product_file, entry_file = _PRODUCT_FILES[dataset], _ENTRY_FILES[dataset]
    rows = load_rows(
        "webshop products",
        _below(found, product_file),
        read=read_product_file,
        convert=product_of,
        embedded=_embedded_products,
        skip_malformed=skip_malformed,
    )
    texts = load_rows(
        "webshop instructions",
        _below(found, entry_file),
        read=read_json_object,
        convert=entry_of,
        embedded=_embedded_entries,
        skip_malformed=skip_malformed,
    )
    sources = [rows.source, texts.source]
    entries = {entry.asin: entry for entry in texts.rows}
    products = tuple(
        dataclasses.replace(product, attributes=entries[product.asin].attributes)
        if product.asin in entries
        else product
        for product in rows.rows
    )
    left_out = 0
    if goals == "human":
        written = load_rows(
            "webshop human requests",
            _below(found, _HUMAN_FILE),
            read=read_json_object,
            convert=human_requests_of,
            embedded=_no_requests,
            skip_malformed=skip_malformed,
        )
        sources.append(written.source)
        requests, left_out = human_requests(products, [request for row in written.rows for request in row])
    else:
        requests = synthetic_requests(products, entries)
    reachable = tuple(request for request in requests if request.reachable())
    left_out += len(requests) - len(reachable)
    if left_out:
        total = left_out + len(reachable)
        logger.warning("webshop: %d of %d requests left out, their own product does not meet them", left_out, total)
    if not reachable:
        raise ValueError(
            f"webshop: none of {len(products)} products has a request that it meets ({left_out} left out): an entry "
            "of the instruction file needs 'instruction' and 'instruction_attributes'"
        )
    index = SearchIndex([product.index_text() for product in products])
    return Shop(products, reachable, _joined(sources), left_out, families(products, reachable), index)


def _below(found: tuple[str, Path] | None, name: str) -> tuple[str, Path] | None:
    """The file of a folder that was found; None stays None.

    Raises:
      ValueError: the folder does not have it.
    """
    if found is None:
        return None
    kind, folder = found
    if not (folder / name).is_file():
        raise ValueError(f"folder {str(folder)!r} has no file {name!r}: add it, or choose another folder or dataset")
    return kind, folder / name


def _joined(sources: list[DataSource]) -> DataSource:
    """One record for several files: rows are those of the first, the hash covers all."""
    first = sources[0]
    return dataclasses.replace(
        first,
        name="webshop",
        file=" + ".join(filter(None, (source.file for source in sources))),
        sha256=hashlib.sha256("".join(source.sha256 for source in sources).encode()).hexdigest(),
        skipped=sum(source.skipped for source in sources),
    )


def _no_requests() -> tuple[tuple[HumanRequest, ...], ...]:
    return ()  # of people there are none for our own catalogue, ``open_shop`` refuses to ask for them


@cache
def _embedded() -> Catalogue:
    return make_catalogue(_EMBEDDED_SEED, products=_EMBEDDED_PRODUCTS)


def _embedded_products() -> tuple[Product, ...]:
    return tuple(map(product_of, _embedded().products))


def _embedded_entries() -> tuple[Entry, ...]:
    return tuple(map(entry_of, _embedded().entries.items()))
