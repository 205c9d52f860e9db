"""The parser: what it reads, what it refuses, and exact values."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragen_jax.envs.countdown.expressions import (
    MAX_DEPTH,
    MAX_LENGTH,
    Expression,
    MalformedExpressionError,
    Negation,
    Number,
    Operation,
    numbers,
    parse,
    parse_answer,
    render,
    steps,
    value,
)

expressions = st.recursive(
    st.integers(0, 99).map(Number),
    lambda inner: st.one_of(inner.map(Negation), st.builds(Operation, st.sampled_from("+-*/"), inner, inner)),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", 7),
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 4 - 3", 3),
        ("16 / 4 / 2", 2),
        ("8 / (3 - 8 / 3)", 24),
        ("2x3", 6),
        ("2 × 3 ÷ 4", Fraction(3, 2)),
        ("9 \N{MINUS SIGN} 4", 5),
        ("-3 + 5", 2),
        ("2 - -3", 5),
        ("-(2 + 3) * 2", -10),
        ("--4", 4),
        ("\t( 1\n+ 1 )  ", 2),
        ("1 / 3 + 1 / 3 + 1 / 3", 1),
        ("0x10", 0),  # a product, not a hexadecimal number
    ],
)
def test_values_are_exact_and_follow_precedence(text: str, expected: Fraction) -> None:
    assert value(parse(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "3 5",
        "3 +",
        "+3",
        "* 3",
        "(3",
        "3)",
        "()",
        "(3)(5)",
        "3(5)",
        "2**5",
        "5//2",
        "7 % 3",
        "3.5*2",
        ".5",
        "1e2",
        "0b11",
        "05",
        "1_0",
        "24 # 3 5",
        "24 or 3 or 5",
        "[3,24][1]",
        "24 if 3 else 5",
        "3, 5",
        "3 + five",
        "abs(3)",
        "3!",
        "3 ^ 5",
        "3 * X",
        "٣ + ٥",
        "３＋５",
        "3²",
        "3 = 3",
        '__import__("pathlib").Path("marker").touch()',
    ],
)
def test_anything_else_is_malformed(text: str) -> None:
    with pytest.raises(MalformedExpressionError):
        parse(text)


def test_only_the_target_may_follow_an_equals_sign() -> None:
    assert value(parse_answer("5+7+3=15", target=15)) == 15
    assert value(parse_answer("5 + 7 + 3 = 15 ", target=15)) == 15
    assert value(parse_answer("1 + 1 = 15", target=15)) == 2
    for text in ("5+7+3=16", "5+7+3=", "5+7+3=15=15", "15=5+7+3", "=15", "5+7+3==15", "5+7+3=15.0", "5+7+3=٣"):
        with pytest.raises(MalformedExpressionError):
            parse_answer(text, target=15)


def test_length_and_depth_are_bounded() -> None:
    longest = "1" + "+1" * ((MAX_LENGTH - 1) // 2)
    assert value(parse(longest)) == 100
    with pytest.raises(MalformedExpressionError, match="at most 200"):
        parse(longest + "+1")
    assert value(parse("(" * MAX_DEPTH + "1" + ")" * MAX_DEPTH)) == 1
    for deep in ("(" * (MAX_DEPTH + 1) + "1" + ")" * (MAX_DEPTH + 1), "-" * (MAX_DEPTH + 1) + "1"):
        with pytest.raises(MalformedExpressionError, match="deeper than 50"):
            parse(deep)


def test_division_by_zero_is_its_own_error() -> None:
    with pytest.raises(ZeroDivisionError):
        value(parse("3 / (5 - 5) + 7"))


@given(expressions)
def test_rendered_text_is_read_back(expression: Expression) -> None:
    text = render(expression)
    if len(text) > MAX_LENGTH:
        return
    again = parse(text)
    assert list(numbers(again)) == list(numbers(expression))
    try:
        expected = value(expression)
    except ZeroDivisionError:
        with pytest.raises(ZeroDivisionError):
            value(again)
        return
    assert value(again) == expected


@given(st.one_of(st.text(), st.text(alphabet="0123456789+-*/x()= "), st.text(alphabet="12+-(*")))
def test_any_text_is_read_or_malformed(text: str) -> None:
    try:
        expression = parse(text)
    except MalformedExpressionError:
        return
    assert set(text.strip()) <= set("0123456789+-*/x×÷\N{MINUS SIGN}() \t\r\n")
    assert list(numbers(expression))


def test_rendering_uses_few_brackets() -> None:
    for text in ("1 + 2 * 3", "(1 + 2) * 3", "1 - (2 - 3)", "1 - 2 - 3", "6 / (3 * 2)", "-(1 + 2)", "-4 * 2"):
        assert render(parse(text)) == text
    assert render(parse("((1)) + (2 * 3)")) == "1 + 2 * 3"


def test_steps_go_from_the_inside_out_with_right_arithmetic() -> None:
    assert list(steps(parse("8 * 1 + 5"))) == ["8 * 1 = 8", "8 + 5 = 13"]
    assert list(steps(parse("8 / (3 - 8 / 3)"))) == ["8 / 3 = 8/3", "3 - (8/3) = 1/3", "8 / (1/3) = 24"]
