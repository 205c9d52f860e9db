"""From the text of a reply to reasoning, answer and actions.

Model text is data: whatever stands in it, nothing here raises, and the work is linear in its length.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

THINK = ("<think>", "</think>")
ANSWER = ("<answer>", "</answer>")
END_MARKER = "<|im_end|>"


@dataclasses.dataclass(frozen=True)
class Reply:
    """A parsed reply.

    Attributes:
      reasoning: text of the think block; None without exactly one closed block.
      answer: text of the answer block; None without exactly one closed block behind the reasoning. Two answer blocks
        are ambiguous, so neither counts.
      well_formed: the reply is one think block, white space, one answer block, and nothing else.
    """

    reasoning: str | None
    answer: str | None
    well_formed: bool


def parse_reply(text: str, *, think: bool = True, end_marker: str = END_MARKER) -> Reply:
    """Split a reply into reasoning and answer.

    Well formed means: exactly one ``<think>...</think>``, white space, exactly one ``<answer>...</answer>``, then
    only white space and at most one end marker. Reasoning and answer are also read from replies with stray text
    around the blocks, as long as each block is unambiguous; such replies are not well formed.

    Args:
      text: the whole reply, markers included.
      think: a think block is required; without it the reply is an answer block only.
      end_marker: end-of-turn text that may close the reply.
    """
    body = text.strip().removesuffix(end_marker)
    reasoning, before, rest = None, "", body
    if think:
        block = _single_block(body, THINK)
        if block is None:
            return Reply(reasoning=None, answer=None, well_formed=False)
        before, reasoning, rest = block
    # Searched in the whole reply: an answer marker inside the reasoning makes the answer ambiguous too.
    block = _single_block(body, ANSWER)
    if block is None or ANSWER[0] not in rest:
        return Reply(reasoning=reasoning, answer=None, well_formed=False)
    _, answer, after = block
    between = rest.partition(ANSWER[0])[0]
    stray = (before + between + after).strip()
    return Reply(reasoning=reasoning, answer=answer, well_formed=not stray and end_marker not in body)


@dataclasses.dataclass(frozen=True)
class Actions:
    """Actions of one answer.

    Attributes:
      actions: indices into the names, in order, at most ``limit``.
      surplus: pieces beyond the limit, not run.
      unknown: pieces within the limit that name no action, not run.
    """

    actions: tuple[int, ...]
    surplus: int
    unknown: int

    @property
    def valid(self) -> bool:
        """True when there is an action and every piece of the answer is one."""
        return bool(self.actions) and not self.surplus and not self.unknown


def split_actions(answer: str, *, separator: str, limit: int, names: Sequence[str]) -> Actions:
    """Read the actions of an answer.

    The rule for answers with too much in them: the first ``limit`` pieces count, known names among them run, and the
    answer as a whole is not valid.

    Args:
      answer: text of the answer block.
      separator: stands between two actions; " " means any white space.
      limit: actions that one answer may hold.
      names: action names; upper and lower case are the same.
    """
    pieces = answer.split() if separator == " " else [piece.strip() for piece in answer.split(separator)]
    pieces = [piece for piece in pieces if piece]
    index = {name.lower(): number for number, name in enumerate(names)}
    found = [index[piece.lower()] for piece in pieces[:limit] if piece.lower() in index]
    return Actions(
        actions=tuple(found),
        surplus=max(len(pieces) - limit, 0),
        unknown=min(len(pieces), limit) - len(found),
    )


def _single_block(text: str, markers: tuple[str, str]) -> tuple[str, str, str] | None:
    """Text before, inside (stripped) and behind the only block of ``text``; None when there is not exactly one."""
    opening, closing = markers
    if text.count(opening) != 1 or text.count(closing) != 1:
        return None
    before, _, rest = text.partition(opening)
    if closing not in rest:
        return None
    inside, _, after = rest.partition(closing)
    return before, inside.strip(), after
