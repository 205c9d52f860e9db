"""Declared types and the values that have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import pytest

from ragen_jax.value_types import fits, type_name


@pytest.mark.parametrize(
    ("value", "annotation", "answer"),
    [
        (1, int, True),
        (1.0, int, False),
        (True, int, False),
        (1, float, True),
        (False, float, False),
        ("1", float, False),
        (True, bool, True),
        (1, bool, False),
        (None, str, False),
        ("b", Literal["a", "b"], True),
        ("c", Literal["a", "b"], False),
        ((1, 2), tuple[int, ...], True),
        ((), tuple[int, ...], True),
        ((1, 2.5), tuple[int, ...], False),
        ([1], tuple[int, ...], False),
        (None, int | None, True),
        (True, int | None, False),
        ({"a": 1}, Mapping[str, Any], True),
        ([], Mapping[str, Any], False),
    ],
)
def test_fits(value: object, annotation: object, answer: bool) -> None:
    assert fits(value, annotation) is answer


def test_types_in_words() -> None:
    assert [type_name(kind) for kind in (bool, int, float, str)] == [
        "true or false",
        "a whole number",
        "a number",
        "text",
    ]
    assert type_name(Literal["a", "b"]) == "one of a, b"
    assert type_name(tuple[int, ...]) == "of type tuple[int, ...]"
