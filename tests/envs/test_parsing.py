"""Replies and answers: one documented rule each, and no text that raises."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragen_jax.envs.parsing import Actions, Reply, parse_reply, split_actions

NAMES = ("left", "down", "right", "up")
MARKERS = ["<think>", "</think>", "<answer>", "</answer>", "<|im_end|>", " ", "\n", "Up", "||", "√", "\ud800"]


@pytest.mark.parametrize(
    "text",
    [
        "<think>a</think><answer>Up</answer>",
        "<think>a</think>\n\n <answer> Up </answer>",
        " <think>\na </think><answer>Up\n</answer><|im_end|>",
        "<think>a</think><answer>Up</answer> <|im_end|>\n",
    ],
)
def test_well_formed(text: str) -> None:
    assert parse_reply(text) == Reply(reasoning="a", answer="Up", well_formed=True)


@pytest.mark.parametrize(
    ("text", "reasoning", "answer"),
    [
        ("", None, None),
        ("<answer>Up</answer>", None, None),
        ("<think>a</think>", "a", None),
        ("<think>a</think><answer>Up", "a", None),
        ("<think>a<answer>Up</answer>", None, None),
        ("<think>a</think>so<answer>Up</answer>", "a", "Up"),
        ("well <think>a</think><answer>Up</answer>", "a", "Up"),
        ("<think>a</think><answer>Up</answer> done", "a", "Up"),
        ("<think>a</think><answer>Up</answer><|im_end|><|im_end|>", "a", "Up"),
        ("<think>a</think> b </think><answer>Up</answer>", None, None),
        ("<think>a <think>b</think><answer>Up</answer>", None, None),
        ("<think>a</think><answer>Down<answer>Up</answer>", "a", None),
        ("<think>a <answer>Up</answer></think>", "a <answer>Up</answer>", None),
        ("<think>a <answer>Up</answer></think><answer>Up</answer>", "a <answer>Up</answer>", None),
        ("<answer>Up</answer><think>a</think>", "a", None),
        ("<think>a</think></answer>Up<answer>", "a", None),
        ("<THINK>a</THINK><answer>Up</answer>", None, None),
    ],
)
def test_not_well_formed(text: str, reasoning: str | None, answer: str | None) -> None:
    assert parse_reply(text) == Reply(reasoning=reasoning, answer=answer, well_formed=False)


def test_c27_two_answer_blocks_are_ambiguous() -> None:
    reply = parse_reply("<think>a</think><answer>Up</answer><answer>Down</answer>")
    assert reply == Reply(reasoning="a", answer=None, well_formed=False)


def test_c27_too_many_actions_run_up_to_the_limit_and_are_not_valid() -> None:
    answer = " || ".join(["Up", "Down", "Left", "Right", "Up", "Down", "Left"])
    actions = split_actions(answer, separator="||", limit=5, names=NAMES)
    assert actions == Actions(actions=(3, 1, 0, 2, 3), surplus=2, unknown=0)
    assert not actions.valid


def test_without_think() -> None:
    assert parse_reply("<answer>Up</answer>", think=False) == Reply(reasoning=None, answer="Up", well_formed=True)
    assert not parse_reply("<think>a</think><answer>Up</answer>", think=False).well_formed


@pytest.mark.parametrize(
    ("answer", "separator", "expected"),
    [
        ("up left", " ", Actions((3, 0), 0, 0)),
        ("Up || Left", "||", Actions((3, 0), 0, 0)),
        ("  uP\tLEFT\n", " ", Actions((3, 0), 0, 0)),
        ("UP||||left||", "||", Actions((3, 0), 0, 0)),
        ("up || jump", "||", Actions((3,), 0, 1)),
        ("jump || hop || up", "||", Actions((), 1, 2)),
        ("", "||", Actions((), 0, 0)),
        ("||", "||", Actions((), 0, 0)),
        ("up left", "||", Actions((), 0, 1)),
    ],
)
def test_actions(answer: str, separator: str, expected: Actions) -> None:
    actions = split_actions(answer, separator=separator, limit=2, names=NAMES)
    assert actions == expected
    assert actions.valid == (bool(expected.actions) and not expected.surplus and not expected.unknown)


@given(st.one_of(st.text(), st.lists(st.sampled_from(MARKERS)).map("".join)), st.booleans())
def test_any_text_is_parsed(text: str, think: bool) -> None:
    reply = parse_reply(text, think=think)
    if reply.well_formed:
        assert reply.answer is not None
        assert (reply.reasoning is not None) == think
    for separator in ("||", " "):
        actions = split_actions(text, separator=separator, limit=3, names=NAMES)
        assert len(actions.actions) + actions.unknown <= 3


@given(st.text(alphabet="ab <|\n"), st.text(alphabet="ab |\n"))
def test_what_was_written_is_read_back(reasoning: str, answer: str) -> None:
    reply = parse_reply(f"<think>{reasoning}</think>\n<answer>{answer}</answer><|im_end|>")
    assert reply == Reply(reasoning=reasoning.strip(), answer=answer.strip(), well_formed=True)


@pytest.mark.parametrize("piece", ["<think>", "<think></think>", "<answer></answer>", "</answer>", "up||", "\u200b "])
def test_huge_input_takes_linear_time(piece: str) -> None:
    start = time.process_time()
    text = piece * (2_000_000 // len(piece))
    parse_reply(text)
    split_actions(text, separator="||", limit=2, names=NAMES)
    assert time.process_time() - start < 2


def test_against_recorded_replies(golden_dir) -> None:
    """Where the recorded parser found actions in a reply that is well formed for us, ours are the same."""
    recorded = json.loads((golden_dir / "parse_response.json").read_text())
    compared = 0
    for think, key in ((True, "enable_think"), (False, "no_think")):
        for case in recorded[key]:
            reply = parse_reply(case["response"], think=think)
            if not case["actions"]:
                assert not reply.answer or not reply.well_formed or not reply.answer.strip("|")
            if reply.well_formed and reply.answer is not None:
                actions = split_actions(reply.answer, separator="||", limit=2, names=NAMES)
                assert [NAMES[a] for a in actions.actions] == [name.lower() for name in case["actions"]]
                compared += 1
    assert compared >= 4
