"""Reasonings packed into rows as trees of tokens: what two of them begin with alike stands, and is run, once."""

from __future__ import annotations

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class PackedReasonings:
    """Rows that hold trees of tokens in depth-first order.

    Attributes:
      tokens: [R, W] int32.
      parents: [R, W] int32, place of the token before; -1 at the first one of a reasoning.
      ends: [R, W] int32, place of the last token that follows from this one; -1 on padding.
      offsets: [R, W] int32, position of a token within its reasonings.
      closes: [R, W] int32, the first of the equal reasonings that end with this token; -1 where none does.
      owners: [R] int32, whose reasonings a row holds; -1 for a row that holds none.
      same: [M] int32, the first of the reasonings that equal this one in its row; -1 for an empty one.
      used: rows in use, in front of those that are not.
    """

    tokens: np.ndarray
    parents: np.ndarray
    ends: np.ndarray
    offsets: np.ndarray
    closes: np.ndarray
    owners: np.ndarray
    same: np.ndarray
    used: int


@dataclasses.dataclass
class _OpenRow:
    """A row that is being filled: its slots in use, and the places of the reasoning that came last."""

    owner: int
    used: int
    path: list[int]
    alike: int  # first tokens that the last reasoning shares with the one that is to be placed


def pack(
    tokens: np.ndarray, mask: np.ndarray, *, width: int, max_rows: int, owners: np.ndarray | None = None
) -> PackedReasonings:
    """Pack [M, Lz] reasonings into at most ``max_rows`` rows of ``width`` tokens.

    They are taken in the order of their tokens. Each goes to the row where most of it stands already, among those with
    room for the rest.

    Args:
      tokens: [M, Lz] int32, right padded.
      mask: [M, Lz] bool.
      width: tokens of a packed row, at least the longest reasoning.
      max_rows: rows of the result; M always suffices.
      owners: [M], numbers from 0; reasonings of two owners share no row. None: one owner.

    Raises:
      ValueError: a reasoning is longer than ``width``, or the rows do not suffice.
    """
    lengths = mask.sum(1)
    if lengths.max(initial=0) > width:
        raise ValueError(f"a reasoning of {lengths.max()} tokens does not fit into packed rows of width={width}")
    packed = PackedReasonings(
        tokens=np.zeros((max_rows, width), np.int32),
        parents=np.full((max_rows, width), -1, np.int32),
        ends=np.full((max_rows, width), -1, np.int32),
        offsets=np.zeros((max_rows, width), np.int32),
        closes=np.full((max_rows, width), -1, np.int32),
        owners=np.full(max_rows, -1, np.int32),
        same=np.full(len(tokens), -1, np.int32),
        used=0,
    )
    whose = [0] * len(tokens) if owners is None else owners.tolist()
    words = {index: tokens[index, :length].tolist() for index, length in enumerate(lengths) if length}
    rows: list[_OpenRow] = []
    before: list[int] = []
    for index in sorted(words, key=words.__getitem__):
        word = words[index]
        common = common_prefix(before, word)
        for row in rows:
            row.alike = min(row.alike, common)
        fitting = [
            number
            for number, row in enumerate(rows)
            if row.owner == whose[index] and row.used + len(word) - row.alike <= width
        ]
        chosen = max(fitting, key=lambda number: rows[number].alike, default=len(rows))
        if chosen == len(rows):
            if chosen == max_rows:
                raise ValueError(f"max_rows={max_rows} packed rows do not suffice for {int(lengths.sum())} tokens")
            rows.append(_OpenRow(owner=whose[index], used=0, path=[], alike=0))
            packed.owners[chosen] = whose[index]
        _append(packed, chosen, rows[chosen], word)
        last = chosen, rows[chosen].path[-1]
        if packed.closes[last] < 0:
            packed.closes[last] = index
        packed.same[index] = packed.closes[last]
        before = word
    return dataclasses.replace(packed, used=len(rows))


def common_prefix(first: list[int], second: list[int]) -> int:
    """Tokens that two lists begin with alike."""
    differing = (n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    return next(differing, min(len(first), len(second)))


def _append(packed: PackedReasonings, number: int, row: _OpenRow, word: list[int]) -> None:
    """Add to a row what it lacks of a reasoning."""
    new = range(row.used, row.used + len(word) - row.alike)
    path = [*row.path[: row.alike], *new]
    packed.tokens[number, new] = word[row.alike :]
    packed.parents[number, new] = [-1, *path][row.alike : len(word)]
    packed.offsets[number, new] = range(row.alike, len(word))
    row.used, row.path, row.alike = row.used + len(new), path, len(word)
    packed.ends[number, path] = row.used - 1
