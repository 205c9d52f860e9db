"""What rollout code needs of a policy. Arrays are NumPy; the device stays behind this protocol."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ragen_jax.types import Responses


class Session(Protocol):
    """The conversation of P groups of G rows with one policy; the context grows by appending token ids only."""

    def respond(self, active: np.ndarray) -> Responses:
        """Sample one turn for the active rows, [B] bool. The sampled ids become context."""
        ...

    def observe(self, tokens: np.ndarray, mask: np.ndarray) -> None:
        """Append the next observation, [B, To] int32 right padded with its mask; an all-false row appends nothing."""
        ...


class Policy(Protocol):
    """Something that answers."""

    version: int  # learner step whose parameters it samples from

    def begin(
        self,
        prompt_tokens: np.ndarray,
        prompt_mask: np.ndarray,
        *,
        group_size: int,
        max_turns: int,
        max_context: int,
        seed: tuple[int, ...],
    ) -> Session:
        """Open a session on first prompts [P, Lx], left padded.

        ``max_context`` bounds the tokens of a row after its first prompt; ``seed`` is a tuple of integers that the
        policy folds into its key, so that equal seeds give equal samples.
        """
        ...
