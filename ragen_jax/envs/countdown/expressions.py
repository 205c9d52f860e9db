"""Arithmetic expressions as data: an exact parser, values as fractions, and text.

The grammar, with plain ASCII digits and no leading zeros; nothing is ever executed::

    sum     = product (("+" | "-") product)*
    product = signed (("*" | "x" | "×" | "/" | "÷") signed)*
    signed  = "-" signed | atom
    atom    = number | "(" sum ")"
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from fractions import Fraction

MAX_LENGTH = 200  # characters
MAX_DEPTH = 50  # brackets and signs inside each other

_OPERATORS = {"+": "+", "-": "-", "\N{MINUS SIGN}": "-", "*": "*", "x": "*", "×": "*", "/": "/", "÷": "/"}
_DIGITS = frozenset("0123456789")
_BLANKS = frozenset(" \t\r\n")
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}


class MalformedExpressionError(ValueError):
    """The text is no expression of the grammar."""


@dataclasses.dataclass(frozen=True)
class Number:
    """A whole number, zero or more."""

    value: int


@dataclasses.dataclass(frozen=True)
class Negation:
    """Minus something."""

    operand: Expression


@dataclasses.dataclass(frozen=True)
class Operation:
    """Two expressions and one of ``+ - * /`` between them."""

    operator: str
    left: Expression
    right: Expression


Expression = Number | Negation | Operation


def parse(text: str) -> Expression:
    """Read an expression.

    Raises:
      MalformedExpressionError: when the text is longer than ``MAX_LENGTH``, nested deeper than ``MAX_DEPTH``, or not
        in the grammar as a whole.
    """
    text = text.strip()
    if len(text) > MAX_LENGTH:
        raise MalformedExpressionError(f"{len(text)} characters, at most {MAX_LENGTH} are read")
    return _Parser(_tokens(text)).whole()


def parse_answer(text: str, *, target: int) -> Expression:
    """Read an expression that may be followed by ``= target``.

    Raises:
      MalformedExpressionError: as ``parse``, and when something else than the target stands behind the equals sign.
    """
    head, equals, tail = text.partition("=")
    if equals and tail.strip() != str(target):
        raise MalformedExpressionError("only the target may stand behind '='")
    return parse(head)


def value(expression: Expression) -> Fraction:
    """Exact value.

    Raises:
      ZeroDivisionError: when a divisor is zero.
    """
    match expression:
        case Number(number):
            return Fraction(number)
        case Negation(operand):
            return -value(operand)
        case Operation(operator, left, right):
            return apply(operator, value(left), value(right))


def apply(operator: str, left: Fraction, right: Fraction) -> Fraction:
    """Result of one operation.

    Raises:
      ZeroDivisionError: for a division by zero.
    """
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case _:
            return left / right


def numbers(expression: Expression) -> Iterator[int]:
    """Numbers of an expression, from left to right."""
    match expression:
        case Number(number):
            yield number
        case Negation(operand):
            yield from numbers(operand)
        case Operation(_, left, right):
            yield from numbers(left)
            yield from numbers(right)


def steps(expression: Expression) -> Iterator[str]:
    """The operations in an order in which they can be worked out, each as ``a + b = c``.

    Raises:
      ZeroDivisionError: when a divisor is zero.
    """
    match expression:
        case Negation(operand):
            yield from steps(operand)
        case Operation(operator, left, right):
            yield from steps(left)
            yield from steps(right)
            before, after = (str(v) if v.denominator == 1 else f"({v})" for v in (value(left), value(right)))
            yield f"{before} {operator} {after} = {value(expression)}"


def render(expression: Expression) -> str:
    """Text with as few brackets as possible; ``parse`` reads it back."""
    match expression:
        case Number(number):
            return str(number)
        case Negation(operand):
            return f"-{_bracketed(operand, when=isinstance(operand, Operation))}"
        case Operation(operator, left, right):
            rank = _PRECEDENCE[operator]
            before = _bracketed(left, when=_rank(left) < rank)
            after = _bracketed(right, when=_rank(right) <= rank)
            return f"{before} {operator} {after}"


def _rank(expression: Expression) -> int:
    return _PRECEDENCE[expression.operator] if isinstance(expression, Operation) else 3


def _bracketed(expression: Expression, *, when: bool) -> str:
    return f"({render(expression)})" if when else render(expression)


def _tokens(text: str) -> list[str]:
    """Numbers, operators (in their ASCII form) and brackets."""
    found: list[str] = []
    at = 0
    while at < len(text):
        symbol = text[at]
        at += 1
        if symbol in _BLANKS:
            continue
        if symbol in _DIGITS:
            start = at - 1
            while at < len(text) and text[at] in _DIGITS:
                at += 1
            symbol = text[start:at]
            if len(symbol) > 1 and symbol[0] == "0":
                raise MalformedExpressionError(f"number {symbol!r} begins with a zero")
        elif symbol in _OPERATORS:
            symbol = _OPERATORS[symbol]
        elif symbol not in "()":
            raise MalformedExpressionError(f"{symbol!r} is no part of an expression")
        found.append(symbol)
    return found


class _Parser:
    """Recursive descent over tokens; each method reads one rule of the grammar."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def whole(self) -> Expression:
        expression = self._sum(depth=0)
        if self._at < len(self._tokens):
            raise MalformedExpressionError(f"{self._next()!r} stands where an operator or the end should be")
        return expression

    def _sum(self, depth: int) -> Expression:
        left = self._product(depth)
        while self._peek() in ("+", "-"):
            left = Operation(self._next(), left, self._product(depth))
        return left

    def _product(self, depth: int) -> Expression:
        left = self._signed(depth)
        while self._peek() in ("*", "/"):
            left = Operation(self._next(), left, self._signed(depth))
        return left

    def _signed(self, depth: int) -> Expression:
        if depth > MAX_DEPTH:
            raise MalformedExpressionError(f"nested deeper than {MAX_DEPTH}")
        token = self._next()
        if token == "-":
            return Negation(self._signed(depth + 1))
        if token == "(":
            inside = self._sum(depth + 1)
            if self._next() != ")":
                raise MalformedExpressionError("a bracket is not closed")
            return inside
        if token and token[0] in _DIGITS:
            return Number(int(token))
        raise MalformedExpressionError(f"{token!r} stands where a number should be")

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token
