"""A policy that says what it was told to say: for tests, and to look at a rollout in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ragen_jax.rollout.tokenizer import Tokenizer
from ragen_jax.types import Responses

Script = Callable[[int, int], str | Sequence[int]]
"""(row, turn) -> reply: text (everything behind the think marker), or ids exactly as they shall be "sampled"."""


class ScriptedPolicy:
    """Replies by script. A text gets the end-of-turn id behind it; ids stand as they are.

    As with a sampler, a reply ends at its first stop id, and without one it counts as cut. Scripted ids behind the end
    stay in the buffer, where nobody may read them.

    Attributes:
      version: learner step that it claims to come from.
      sessions: every session it opened, newest last.
    """

    def __init__(
        self, tokenizer: Tokenizer, script: Script, *, max_new_tokens: int, version: int = 0, log_prob: float = -1.0
    ) -> None:
        """Keep the script; ``log_prob`` (nats) is reported for every id."""
        self.version = version
        self.sessions: list[ScriptedSession] = []
        self._tokenizer = tokenizer
        self._script = script
        self._max_new_tokens = max_new_tokens
        self._log_prob = log_prob

    def begin(
        self,
        prompt_tokens: np.ndarray,
        prompt_mask: np.ndarray,
        *,
        group_size: int,
        max_turns: int,
        max_context: int,
        seed: tuple[int, ...],
    ) -> ScriptedSession:
        """Open a session; the script needs neither limits nor seed."""
        del max_turns, max_context, seed
        prompts = [tokens[mask].tolist() for tokens, mask in zip(prompt_tokens, prompt_mask, strict=True)]
        contexts = [list(prompt) for prompt in prompts for _ in range(group_size)]
        self.sessions.append(ScriptedSession(contexts, self._reply, self._max_new_tokens, self._log_prob))
        return self.sessions[-1]

    def _reply(self, row: int, turn: int) -> tuple[list[int], int, bool]:
        """Buffer of ids, how many of them count, and whether the last of these ends the reply."""
        said = self._script(row, turn)
        ids = [*self._tokenizer.encode(said), self._tokenizer.end_of_turn_id] if isinstance(said, str) else list(said)
        ids = ids[: self._max_new_tokens]
        stop = next((at for at, token in enumerate(ids) if token in self._tokenizer.stop_ids), None)
        return (ids, len(ids), False) if stop is None else (ids, stop + 1, True)


class ScriptedSession:
    """One conversation of all rows.

    Attributes:
      contexts: per row, every id that the policy has seen or said, first prompt included.
    """

    def __init__(
        self,
        contexts: list[list[int]],
        reply: Callable[[int, int], tuple[list[int], int, bool]],
        max_new_tokens: int,
        log_prob: float,
    ) -> None:
        """Made by ``ScriptedPolicy.begin``."""
        self.contexts = contexts
        self._reply = reply
        self._max_new_tokens = max_new_tokens
        self._log_prob = log_prob
        self._turns = [0] * len(contexts)

    def respond(self, active: np.ndarray) -> Responses:
        """The next scripted reply of every active row."""
        rows = len(self.contexts)
        tokens = np.zeros((rows, self._max_new_tokens), np.int32)
        lengths = np.zeros(rows, np.int32)
        ended = np.zeros(rows, bool)
        for row in np.flatnonzero(active):
            ids, lengths[row], ended[row] = self._reply(int(row), self._turns[row])
            tokens[row, : len(ids)] = ids
            self.contexts[row].extend(ids[: lengths[row]])
            self._turns[row] += 1
        log_probs = np.where(np.arange(self._max_new_tokens) < lengths[:, None], self._log_prob, 0.0)
        return Responses(tokens=tokens, lengths=lengths, log_probs=log_probs.astype(np.float32), ended=ended)

    def observe(self, tokens: np.ndarray, mask: np.ndarray) -> None:
        """Append what each row is shown next."""
        for context, ids, shown in zip(self.contexts, tokens, mask, strict=True):
            context.extend(ids[shown].tolist())
