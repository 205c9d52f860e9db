"""WebShop: buy a product that fits a request, in a shop of text pages."""

from __future__ import annotations

from ragen_jax.envs.webshop.catalogue import make_catalogue
from ragen_jax.envs.webshop.config import WebShopConfig
from ragen_jax.envs.webshop.env import WebShop
from ragen_jax.envs.webshop.goals import Goal
from ragen_jax.envs.webshop.products import Product
from ragen_jax.envs.webshop.shop import Shop, open_shop

__all__ = ["Goal", "Product", "Shop", "WebShop", "WebShopConfig", "make_catalogue", "open_shop"]
