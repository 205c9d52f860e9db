"""How the released code reads a reply, and how it rewrites it."""

from __future__ import annotations

import re
from typing import NamedTuple

_REMOVED = ("<think>", "</think>", "<answer>", "</answer>", "<|im_start|>", "<|im_end|>")
_THINK_TO_ANSWER = re.compile(r"</think>\s*<answer>")


class ParsedResponse(NamedTuple):
    """A reply as it is stored, and its actions.

    Attributes:
      llm_response: the rewritten reply; the raw one when it cannot be read.
      actions: texts of the actions, at most ``max_actions_per_turn``.
    """

    llm_response: str
    actions: list[str]


def parse_response(
    response: str, *, enable_think: bool = True, action_sep: str = "||", max_actions_per_turn: int = 2
) -> ParsedResponse:
    """Find the first think block that an answer block follows, and rewrite the reply to these two blocks.

    Text before and behind them is lost, markers inside them are removed, both parts are trimmed. The answer is split at
    the separator, empty pieces do not count, and surplus actions are cut from the rewritten reply too, without a
    penalty. ``ragen_jax.envs.parsing`` differs: sampled text is never rewritten, a second block makes a reply
    ambiguous, text around the blocks and surplus actions make it not well formed.

    Args:
      response: the whole reply, markers included.
      enable_think: a think block is required; without it the reply is an answer block only.
      action_sep: stands between two actions.
      max_actions_per_turn: actions that are kept.

    Returns:
      The stored reply and its actions.

    Raises:
      ValueError: empty separator, or fewer than one action per turn.

    >>> parse_response("<think> a </think> <answer>Up || Down || Left</answer> so").llm_response
    '<think>a</think><answer>Up || Down</answer>'
    """
    if not action_sep:
        raise ValueError("action_sep is empty; give the text between two actions")
    if max_actions_per_turn < 1:
        raise ValueError(f"max_actions_per_turn={max_actions_per_turn} must be at least 1")
    blocks = _think_and_answer(response) if enable_think else _answer_only(response)
    if blocks is None:
        return ParsedResponse(response, [])
    reasoning, answer = (_without_markers(block) for block in blocks)
    actions = [piece.strip() for piece in answer.split(action_sep) if piece.strip()]
    if len(actions) > max_actions_per_turn:
        actions = actions[:max_actions_per_turn]
        answer = f" {action_sep} ".join(actions)
    think = f"<think>{reasoning}</think>" if enable_think else ""
    return ParsedResponse(f"{think}<answer>{answer}</answer>", actions)


def _think_and_answer(response: str) -> tuple[str, str] | None:
    """Text of both blocks. The first opening marker wins: whatever follows a later one follows the first one too."""
    opening = response.find("<think>")
    start = opening + len("<think>")
    between = _THINK_TO_ANSWER.search(response, start) if opening >= 0 else None
    if between is None:
        return None
    end = response.find("</answer>", between.end())
    return None if end < 0 else (response[start : between.start()], response[between.end() : end])


def _answer_only(response: str) -> tuple[str, str] | None:
    _, opening, rest = response.partition("<answer>")
    answer, closing, _ = rest.partition("</answer>")
    return ("", answer) if opening and closing else None


def _without_markers(text: str) -> str:
    for marker in _REMOVED:
        text = text.replace(marker, "")
    return text.strip()
