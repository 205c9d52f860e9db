"""When an output is the expected one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragen_jax.envs.deepcoder.compare import same_output, same_value
from ragen_jax.envs.deepcoder.program import program_of
from ragen_jax.envs.deepcoder.runner import pack, unpack


@pytest.mark.parametrize(
    ("expected", "got", "same"),
    [
        (3, 3, True),
        (3, 3.0, True),
        (3, 4, False),
        (10**9, 10**9 + 0.5, False),  # an expected integer is met exactly
        (2.0, 2, True),
        (0.1 + 0.2, 0.3, True),
        (1.0, 1.001, False),
        (1e12, 1e12 + 10, True),
        (1.5, 10**400, False),
        (float("nan"), float("nan"), False),
        (True, True, True),
        (True, False, False),
        (True, 1, True),
        (None, None, True),
        (None, 0, False),
        (0, None, False),
        (1.0, None, False),
        ("3", 3, False),
        ("a", "a", True),
        ([1, 2], (1, 2), True),
        ([1, 2], [2, 1], False),
        ([1, 2], [1, 2, 3], False),
        ([], None, False),
        ([[1.0]], [[1.0000001]], True),
        ([1], "1", False),
        ({1, 2}, {2, 1}, True),
        ({1, 2}, [1, 2], False),
        ({"a": [1.0]}, {"a": [1.0 + 1e-9]}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": 1}, [["a", 1]], False),
    ],
)
def test_values(expected: Any, got: Any, same: bool) -> None:
    assert same_value(expected, got) is same


@pytest.mark.parametrize(
    ("expected", "got", "same"),
    [
        ("7\n", "7", True),
        ("7", "  7  \n\n\n", True),
        ("1 2\n3", "1   2\n3\n", True),
        ("1 2\n3", "1 2 3", False),
        ("1 2 3", "1 2\n3", False),
        ("", "", True),
        ("", "\n", True),
        ("", "0", False),
        ("a\n\nb", "a\nb", False),
        ("0.5", "0.50", True),
        ("0.333333", "0.3333333", True),
        ("0.5", ".6", False),
        ("0.5", "half", False),
        ("5", "5.0", False),
        ("Yes", "yes", False),
        ("1.5.2", "1.5.2", True),
        ("1.0", "nan", False),
    ],
)
def test_outputs(expected: str, got: str, same: bool) -> None:
    assert same_output(expected, got) is same


_leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
_hashable = st.integers() | st.text() | st.tuples(st.integers(), st.text())
_values = st.recursive(
    _leaves,
    lambda inner: (
        st.lists(inner) | st.dictionaries(_hashable, inner) | st.sets(_hashable) | st.frozensets(st.integers())
    ),
    max_leaves=12,
)


@given(_values)
def test_a_packed_value_is_itself_again(value: Any) -> None:
    """Through JSON too; only tuples come back as lists."""
    assert same_value(value, unpack(json.loads(json.dumps(pack(value)))))


@given(_values, _values)
def test_unequal_values_stay_unequal(left: Any, right: Any) -> None:
    if left != right and not isinstance(left, float):
        again = unpack(json.loads(json.dumps(pack(right))))
        assert same_value(left, again) is same_value(left, right)


@pytest.mark.parametrize(
    "packed", [{"a": 1}, {"set": 1}, {"dict": [1]}, {"set": [{"dict": []}]}, {"set": [], "dict": []}]
)
def test_foreign_json_objects_are_refused(packed: Any) -> None:
    with pytest.raises(ValueError, match=r"neither a packed set|cannot be a key"):
        unpack(packed)


def test_other_types_cannot_be_packed() -> None:
    with pytest.raises(TypeError, match="type complex"):
        pack([1j])


@pytest.mark.parametrize(
    ("answer", "program"),
    [
        ("print(1)", "print(1)"),
        ("```python\nprint(1)\n```", "print(1)\n"),
        ("```\nif x:\n    y\n```", "if x:\n    y\n"),
        ("  \n```py\n\tx\n```\n ", "\tx\n"),
        ("def f():\n    return 1", "def f():\n    return 1"),
        ("x = a || b", "x = a || b"),
        ("x = '```'", "x = '```'"),
        ("Here it is:\n```python\nprint(1)\n```", "Here it is:\n```python\nprint(1)\n```"),
        ("``` x ```", "``` x ```"),
        ("", None),
        (" \n\t", None),
        ("```python\n```", None),
        ("\ud800", None),
        ("a\x00b", None),
        ("x" * 101, None),
        ("x" * 100, "x" * 100),
        ("é" * 51, None),
    ],
)
def test_the_whole_answer_is_the_program(answer: str, program: str | None) -> None:
    assert program_of(answer, max_bytes=100) == program
