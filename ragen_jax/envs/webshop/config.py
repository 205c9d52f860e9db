"""Options of the WebShop environment."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from ragen_jax.envs.base import ONE_ACTION, EnvConfig
from ragen_jax.envs.options import refuse_changed

_CHOICES = {"dataset": ("small", "full"), "goals": ("synthetic", "human"), "reward": ("match", "score")}


@dataclasses.dataclass(frozen=True, kw_only=True)
class WebShopConfig(EnvConfig):
    """Options of WebShop. An answer is one action, whatever stands in it.

    The split is by family, see ``families.families``: no product that is wanted in training meets a validation request
    in full. In a catalogue of more than 5,000 products it is by product.

    Attributes:
      folder: folder with the WebShop files, or such a folder below the one that the environment variable RAGEN_DATA_DIR
        names, or below the cache; "" takes ``webshop`` in one of these two where it exists, else our own catalogue.
      dataset: which files of the folder: "small" (``items_shuffle_1000.json``, ``items_ins_v2_1000.json``) or "full"
        (the same names without ``_1000``).
      goals: "synthetic" (the product's instruction and any combination of its options) or "human" (requests that people
        wrote, ``items_human_ins.json``).
      skip_malformed: leave malformed records out and count them, instead of refusing the file.
      reward: reward of a purchase: "match" (1 for a full match, else 0) or "score" (the score itself).
      show_attributes: product pages have a sub-page with the attributes that the score compares.
      hints: give advice on how to shop, once, in the instructions.
    """

    fixed: ClassVar[Mapping[str, str]] = ONE_ACTION

    max_turns: int = 9
    max_actions_per_turn: int = 1
    max_actions: int = 9
    folder: str = ""
    dataset: str = "small"
    goals: str = "synthetic"
    skip_malformed: bool = False
    reward: str = "match"
    show_attributes: bool = False
    hints: bool = False

    def __post_init__(self) -> None:
        """Refuse values outside their range and options without effect."""
        super().__post_init__()
        for field, choices in _CHOICES.items():
            if getattr(self, field) not in choices:
                raise ValueError(f"{field}={getattr(self, field)!r}: use {' or '.join(map(repr, choices))}")
        if self.max_actions > self.max_turns:
            refuse_changed(self, ("max_actions",), because=f"max_turns={self.max_turns} replies hold one action each")
        if self.hints and self.instructions == "terse":
            raise ValueError("hints=True has no effect because instructions='terse' says nothing: use 'full'")
