"""Replies as the released code reads and rewrites them."""

from __future__ import annotations

import json
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragen_jax.compat.ragen import parse_response

PIECES = ["<think>", "</think>", "<answer>", "</answer>", "<|im_end|>", " ", "\n", "Up", "||", "x"]


def test_golden_replies(golden_dir):
    golden = json.loads((golden_dir / "parse_response.json").read_text())
    for name in ("enable_think", "no_think"):
        for case in golden[name]:
            parsed = parse_response(
                case["response"],
                enable_think=name == "enable_think",
                action_sep=golden["action_sep"],
                max_actions_per_turn=golden["max_actions_per_turn"],
            )
            assert parsed.llm_response == case["llm_response"]
            assert parsed.actions == case["actions"]


def test_text_around_the_blocks_is_lost():
    assert parse_response("well <think>a</think><answer>b</answer> so").llm_response == (
        "<think>a</think><answer>b</answer>"
    )


def test_surplus_actions_are_cut_from_the_reply():
    assert parse_response("<answer>a, b,, c</answer>", enable_think=False, action_sep=",", max_actions_per_turn=2) == (
        "<answer>a , b</answer>",
        ["a", "b"],
    )


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join), st.booleans())
def test_the_same_blocks_as_a_lazy_pattern(text, think):
    pattern = r"<answer>(.*?)</answer>"
    if think:
        pattern = r"<think>(.*?)</think>\s*" + pattern
    match = re.search(pattern, text, re.DOTALL)
    parsed = parse_response(text, enable_think=think, max_actions_per_turn=99)
    if match is None:
        assert parsed == (text, [])
        return
    for marker in ("<think>", "</think>", "<answer>", "</answer>", "<|im_end|>"):
        assert parsed.llm_response.count(marker) == (marker != "<|im_end|>" and (think or "think" not in marker))
    inside = match[match.lastindex]
    for marker in ("<think>", "</think>", "<answer>", "<|im_end|>"):
        inside = inside.replace(marker, "")
    assert parsed.actions == [piece.strip() for piece in inside.split("||") if piece.strip()]


@pytest.mark.parametrize("piece", ["<think>", "</think>", "</think> ", "<think></think><answer>"])
def test_huge_input_takes_linear_time(piece):
    start = time.process_time()
    parse_response(piece * (1_000_000 // len(piece)))
    assert time.process_time() - start < 2


def test_refusals_name_the_value():
    with pytest.raises(ValueError, match="action_sep"):
        parse_response("a", action_sep="")
    with pytest.raises(ValueError, match="max_actions_per_turn=0"):
        parse_response("a", max_actions_per_turn=0)
