"""Text from outside cannot act as a marker."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragen_jax.envs.parsing import ANSWER, END_MARKER, THINK, parse_reply
from ragen_jax.envs.text import neutralise

MARKERS = [
    *THINK,
    *ANSWER,
    END_MARKER,
    "<|im_start|>",
    "<|endoftext|>",
    "<s>",
    "</s>",
    "<tool_call>",
    "<｜end｜>",
    "<b />",
]


@pytest.mark.parametrize("marker", MARKERS)
def test_a_marker_is_broken_and_stays_readable(marker: str) -> None:
    shown = neutralise(f"before {marker} after")
    assert marker not in shown
    assert shown.replace("< ", "<") == f"before {marker} after"


@pytest.mark.parametrize("text", ["a < b", "x <= y", "1 <2", "<3", "a <b, c>d", "tab\tand\nnewline", "é √ 東京"])
def test_ordinary_text_stays(text: str) -> None:
    assert neutralise(text) == text


def test_no_marker_forms_from_its_parts() -> None:
    shown = neutralise("<<think>think> <|im_<|im_end|>end|>")
    assert not any(marker in shown for marker in MARKERS)


def test_control_characters_and_lone_surrogates_go() -> None:
    shown = neutralise("a\x00b\x1bc\x7fd\ud800e\r")
    assert shown == "a b c d\N{REPLACEMENT CHARACTER}e "
    shown.encode("utf-8")


@given(st.lists(st.sampled_from([*MARKERS, "<", "/", "|", ">", " ", "think", "\x00", "\ud800", "x"]), max_size=12))
@settings(max_examples=25, deadline=None)
def test_any_text_is_safe_and_twice_is_once(parts: list[str]) -> None:
    shown = neutralise("".join(parts))
    assert neutralise(shown) == shown
    assert not any(marker in shown for marker in MARKERS)
    assert not re.search(r"[\x00\ud800]", shown)
    reply = parse_reply(f"{shown}<think>a</think><answer>{shown}</answer>")
    assert reply.reasoning == "a"
    assert reply.answer is not None
