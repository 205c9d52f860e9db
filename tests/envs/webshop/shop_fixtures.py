"""Products and WebShop files for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ragen_jax.envs.webshop.products import Product


def product(asin: str = "b0test0001", **changes: Any) -> Product:
    """A cotton t-shirt with two options."""
    fields: dict[str, Any] = {
        "asin": asin,
        "title": "Norvale cotton t-shirt",
        "description": "A plain thing.",
        "bullets": ("slim fit",),
        "listed": "$15.00",
        "price": 15.0,
        "categories": ("clothing", "tops", "t-shirt"),
        "query": "t-shirt",
        "options": (("size", ("large", "x-large")), ("color", ("red", "blue"))),
        "rating": "4.5",
        "attributes": ("cotton", "machine washable"),
    }
    return Product(**(fields | changes))


def record(asin: str = "B0TEST0001", **changes: Any) -> dict[str, Any]:
    """A record of a product file, with more fields than are read."""
    fields: dict[str, Any] = {
        "asin": asin,
        "name": "Norvale cotton t-shirt",
        "full_description": "A plain thing.",
        "small_description": ["slim fit", "ships soon"],
        "pricing": "$15.00",
        "images": ["https://example.invalid/a.jpg"],
        "product_category": "Clothing › Tops › T-Shirt",
        "category": "fashion",
        "query": "t-shirt",
        "customization_options": {"Size": [{"value": "Large", "image": None}, {"value": "X-Large"}], "Color": None},
        "average_rating": 4.5,
        "seller": "unknown",
    }
    return fields | changes


def entry(**changes: Any) -> dict[str, Any]:
    """An entry of an instruction file."""
    fields: dict[str, Any] = {
        "attributes": ["cotton", "machine washable"],
        "instruction": "I need a cotton t-shirt.",
        "instruction_attributes": ["cotton"],
    }
    return fields | changes


def write_shop(folder: Path, products: Any, entries: Any, human: Any = None, *, suffix: str = "_1000") -> Path:
    """The WebShop files in a folder, as JSON; a text is written as it is."""
    files = {f"items_shuffle{suffix}.json": products, f"items_ins_v2{suffix}.json": entries}
    if human is not None:
        files["items_human_ins.json"] = human
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name).write_text(text, encoding="utf-8")
    return folder
