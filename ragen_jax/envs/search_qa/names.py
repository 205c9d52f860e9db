"""Invented names: words that no text outside this project holds, drawn without repetition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_ONSETS = (
    "b",
    "br",
    "d",
    "dr",
    "f",
    "g",
    "gr",
    "h",
    "k",
    "kl",
    "l",
    "m",
    "n",
    "p",
    "r",
    "s",
    "t",
    "th",
    "v",
    "z",
)
_VOWELS = ("a", "e", "i", "o", "u", "ae", "ei", "ou")
_CODAS = ("", "l", "n", "r", "s", "k", "m", "th", "sh", "nd")
_ENDS = ("ak", "el", "im", "on", "ur", "esk", "ath", "orn", "ilde", "ova")

ADJECTIVES = (
    "Amber", "Ashen", "Broken", "Copper", "Crooked", "Distant", "Dusty", "Early", "Empty", "Faded", "Fallen", "Frozen",
    "Gilded", "Hidden", "Hollow", "Idle", "Ivory", "Last", "Lonely", "Lost", "Narrow", "Northern", "Pale", "Painted",
    "Quiet", "Red", "Restless", "Salted", "Second", "Silent", "Silver", "Sleeping", "Sunken", "Tall", "Unlit", "Velvet",
    "Wandering", "Western", "White", "Winter",
)  # fmt: skip
NOUNS = (
    "Anchor", "Archive", "Bell", "Bridge", "Candle", "Compass", "Cellar", "Dancer", "Door", "Ferry", "Field", "Garden",
    "Gate", "Harbour", "Heron", "Hour", "Island", "Kettle", "Ladder", "Lantern", "Letter", "Lighthouse", "Map", "Moon",
    "Mirror", "Orchard", "Oar", "Postman", "Quarry", "Road", "Saddle", "Sail", "Shore", "Stair", "Tailor", "Thread",
    "Tower", "Violin", "Well", "Window",
)  # fmt: skip


def invented_words(rng: np.random.Generator, count: int) -> list[str]:
    """``count`` different capitalised words of two or three syllables."""
    words: dict[str, None] = {}
    while len(words) < count:
        parts = [_pick(rng, _ONSETS), _pick(rng, _VOWELS), _pick(rng, _CODAS), _pick(rng, _ONSETS)]
        if rng.random() < 0.2:
            parts += [_pick(rng, _VOWELS), _pick(rng, _ONSETS)]
        words["".join([*parts, _pick(rng, _ENDS)]).capitalize()] = None
    return list(words)


def pairs(rng: np.random.Generator, first: Sequence[str], second: Sequence[str], count: int) -> list[tuple[str, str]]:
    """``count`` different pairs of a word of ``first`` and one of ``second``."""
    chosen = rng.choice(len(first) * len(second), size=count, replace=False).tolist()
    return [(first[index // len(second)], second[index % len(second)]) for index in chosen]


def _pick(rng: np.random.Generator, choices: Sequence[str]) -> str:
    return choices[int(rng.integers(len(choices)))]
