"""Which task instance a seed stands for: random streams, the content split and the search for distinct instances.

Three streams leave one seed. The layout stream draws the instance and is shared by a group; the dynamics stream draws
the noise of one member, the replay stream that of the replays of its plan. All come from ``SeedSequence``, so they are
independent and the same in every process.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from ragen_jax.envs.base import TextEnv

Instance = TypeVar("Instance")

_LAYOUT, _DYNAMICS, _REPLAY = 0, 1, 2  # stream tags

logger = logging.getLogger(__name__)


def content_hash(text: str) -> int:
    """SHA-256 of a text as an integer; unlike ``hash`` it is the same in every process."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest(), "big")


def in_split(text: str, *, split: str, validation_percent: int) -> bool:
    """True when the instance with this canonical text belongs to the split.

    An instance is a validation instance when ``content_hash(text) mod 100 < validation_percent``, so the training and
    the validation instances are disjoint by content, whatever seeds draw them.

    Args:
      text: canonical text of the instance.
      split: "train", "validation" or "all".
      validation_percent: share of validation instances, 0 to 100.

    Raises:
      ValueError: for another split name.
    """
    if split == "all":
        return True
    if split not in ("train", "validation"):
        raise ValueError(f"split={split!r}: use 'train', 'validation' or 'all'")
    return (content_hash(text) % 100 < validation_percent) == (split == "validation")


def layout_rng(seed: int, attempt: int = 0) -> np.random.Generator:
    """Generator of the instance that ``seed`` stands for; ``attempt`` counts re-draws of the same seed."""
    return _stream(seed, _LAYOUT, attempt)


def dynamics_rng(seed: int, member: int) -> np.random.Generator:
    """Generator of the noise that member ``member`` (0 or more) of the group of ``seed`` meets."""
    return _stream(seed, _DYNAMICS, member)


def replay_rng(seed: int, member: int) -> np.random.Generator:
    """Generator of the noise in replays of the plan of member ``member``; no episode ever meets it."""
    return _stream(seed, _REPLAY, member)


def draw_instance(
    make: Callable[[np.random.Generator], Instance | None],
    canonical: Callable[[Instance], str],
    *,
    seed: int,
    split: str,
    validation_percent: int,
    attempts: int = 10_000,
    rows: int | None = None,
) -> Instance:
    """Draw the instance of a seed that lies in a split.

    Attempt 0, 1, 2, ... each has its own layout stream; the first instance inside the split wins.

    Args:
      make: draws one instance, or returns None when the draw is unusable.
      canonical: text by which the split is decided.
      seed: any integer.
      split: "train", "validation" or "all".
      validation_percent: share of validation instances, 0 to 100.
      attempts: draws before giving up.
      rows: how many rows of data the instances are, for the message; None where they are generated.

    Raises:
      ValueError: when no attempt gave an instance inside the split.
    """
    empty = {"validation": validation_percent <= 0, "train": validation_percent >= 100}.get(split, False)
    if empty:
        raise ValueError(f"split={split!r} is empty with validation_percent={validation_percent}: change one of them")
    for attempt in range(attempts):
        instance = make(layout_rng(seed, attempt))
        if instance is not None and in_split(canonical(instance), split=split, validation_percent=validation_percent):
            return instance
    if rows is not None:
        raise ValueError(
            f"seed {seed}: no instance of split {split!r} in {attempts} draws from {rows} rows of data; the hash of "
            f"its content says where a row belongs, with validation_percent={validation_percent}: use more rows, "
            "another validation_percent, or split='all'"
        )
    raise ValueError(
        f"seed {seed}: no instance of split {split!r} in {attempts} attempts; "
        "the options ask for instances that are too rare or impossible, loosen them"
    )


@dataclasses.dataclass(frozen=True)
class DistinctSeeds:
    """Seeds of a fixed prompt set.

    Attributes:
      seeds: all different, in the order of the walk; seeds of repeated instances stand at the end.
      distinct: number of different instances among them.
      repeated: ``len(seeds) - distinct``; above 0 when the environment has too few instances. A repeated instance
        comes with another seed, so with other dynamics noise.
    """

    seeds: tuple[int, ...]
    distinct: int
    repeated: int


def distinct_seeds(make: Callable[[], TextEnv], *, first_seed: int, count: int, walk: int = 20) -> DistinctSeeds:
    """Walk ``first_seed, first_seed + 1, ...`` and keep the seeds whose instance is new.

    Args:
      make: makes the environment, for example ``lambda: make_env("bandit", split="validation")``.
      first_seed: where the walk begins.
      count: seeds wanted, 1 or more.
      walk: the walk visits at most ``walk * count`` seeds; what is then missing is filled with the first visited seeds
        of repeated instances, and a warning is logged.

    Raises:
      ValueError: when ``count`` or ``walk`` is below 1.
    """
    if count < 1 or walk < 1:
        raise ValueError(f"count={count}, walk={walk}: use 1 or more for both")
    fresh: list[int] = []
    repeats: list[int] = []
    seen: set[str] = set()
    env = make()
    for seed in range(first_seed, first_seed + walk * count):
        env.reset(seed)
        text = env.canonical()
        (repeats if text in seen else fresh).append(seed)
        seen.add(text)
        if len(fresh) == count:
            break
    env.close()
    repeated = count - len(fresh)
    if repeated:
        logger.warning(
            "%s: only %d distinct instances in %d seeds from %d; %d of %d seeds repeat one",
            env.name, len(fresh), walk * count, first_seed, repeated, count,
        )  # fmt: skip
    return DistinctSeeds(seeds=tuple(fresh + repeats[:repeated]), distinct=len(fresh), repeated=repeated)


def _stream(seed: int, tag: int, index: int) -> np.random.Generator:
    # SeedSequence takes no negative numbers: 0, -1, 1, -2, ... become 0, 1, 2, 3, ...
    number = int(seed)
    entropy = 2 * number if number >= 0 else -2 * number - 1
    return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(tag, index)))
