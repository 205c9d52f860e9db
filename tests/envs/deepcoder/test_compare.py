"""When an output is the expected one."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
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
        (float("nan"), float("nan"), True),  # no program could pass otherwise
        ([float("nan"), 1], [float("nan"), 1], True),
        (float("nan"), 0.0, False),
        (float("nan"), 1, False),
        (1.0, float("nan"), False),
        (1, float("nan"), False),
        (float("inf"), float("inf"), True),
        (float("inf"), 1e308, False),
        (0.0, -0.0, True),
        (-0.0, 0, True),
        (0, -0.0, True),
        (1, True, True),
        (True, 1.0, True),
        (1.0, True, True),
        (True, 0.9999999, False),  # an expected bool is met exactly
        ([True, [1]], [1, [1.0]], True),
        ("True", True, False),
        ("1.0", 1.0, False),
        ({1: "a"}, {"1": "a"}, False),
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
    assert same_value(pack(expected), pack(got)) is same


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
    packed = json.loads(json.dumps(pack(value)))
    assert same_value(packed, pack(value))
    assert same_value(packed, pack(unpack(packed)))


_few = st.sampled_from([0, 1, 2, True, "1", "", None, (1,), (1, 2), frozenset({1}), 2.0])
_exact = st.recursive(
    st.sampled_from([0, 1, "1", None]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_few, inner, max_size=2) | st.sets(_few, max_size=3),
    max_leaves=4,
)


@settings(max_examples=200, deadline=None)
@given(_exact, _exact)
def test_without_floats_it_is_the_equality_of_python(left: Any, right: Any) -> None:
    assert same_value(pack(left), json.loads(json.dumps(pack(right)))) is (left == right)


@pytest.mark.parametrize("form", ["set", "dict"])
def test_values_of_one_hash_cost_no_more_than_others(form: str) -> None:
    """In a hash table these numbers take more than a million steps for each thousand of them, all in the parent."""
    numbers = [(2**61 - 1) * k for k in range(1, 40_000)]
    parts = numbers if form == "set" else [[number, 0] for number in numbers]
    began = time.process_time()
    assert same_value({form: parts}, {form: parts[::-1]})
    assert not same_value({form: parts}, {form: [*parts[1:], 7 if form == "set" else [7, 0]]})
    assert time.process_time() - began < 2.5


@pytest.mark.parametrize(
    "got",
    [
        {"set": [1, 1]},
        {"set": [[1]]},
        {"set": [{"dict": [[1, 2]]}]},
        {"set": 1},
        {"set": None},
        {"dict": [[1, 2]]},
        {"other": [1, 2]},
        [1, 2],
        "set",
    ],
)
def test_forged_forms_equal_nothing(got: Any) -> None:
    assert not same_value({"set": [1, 2]}, got)
    assert not same_value({"dict": [["set", [1, 2]]]}, got)
    assert not same_value({"dict": [[1, 2], [3, 4]]}, {"dict": [[1, 2], 5]})
    assert not same_value({"dict": [[1, 2], [3, 4]]}, {"dict": [[1, 2], [1, 2]]})


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
