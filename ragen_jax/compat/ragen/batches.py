"""How the released code brings a filtered batch to a size that its workers can split."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def adjust_rows(batch: int, *, size_divisor: int, mode: str, rng: np.random.Generator) -> NDArray[np.int64]:
    """Rows of the batch after resizing to a multiple of ``size_divisor``.

    "copy" appends random rows, distinct ones as long as there are enough; "delete" takes random rows away, all of them
    when the batch is smaller than the divisor. Copies count twice in gradients and group statistics, so our training
    does neither: groups that were dropped have weight 0.

    Args:
      batch: rows.
      size_divisor: what the new size is a multiple of.
      mode: "copy" or "delete".
      rng: source of the draws; the released code draws from the global generator.

    Returns:
      Row indices: all rows and then the copies, or the rows that stay, ascending.

    Raises:
      ValueError: unknown mode, no rows, or a divisor below 1.

    >>> len(adjust_rows(80, size_divisor=32, mode="copy", rng=np.random.default_rng(0)))
    96
    """
    if batch < 1 or size_divisor < 1:
        raise ValueError(f"batch={batch} and size_divisor={size_divisor} must be at least 1")
    if mode == "copy":
        missing = -batch % size_divisor
        return np.concatenate([np.arange(batch), rng.choice(batch, missing, replace=missing > batch)])
    if mode == "delete":
        return np.sort(rng.choice(batch, batch - batch % size_divisor, replace=False))
    raise ValueError(f"unknown mode {mode!r}; use 'copy' or 'delete'")
