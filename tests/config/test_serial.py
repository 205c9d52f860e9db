"""JSON and hashes."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragen_jax.config import Config, content_hash, from_json, to_json
from ragen_jax.config.keys import key_types, set_key

_VALUES = {
    bool: st.booleans(),
    int: st.integers(-(2**53), 2**53),
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: st.text(max_size=8),
}


@given(st.data())
def test_round_trip_is_exact(data):
    plain = {key: annotation for key, annotation in key_types().items() if annotation in _VALUES}
    config = Config()
    for key in data.draw(st.lists(st.sampled_from(sorted(plain)), max_size=8)):
        config = set_key(config, key, data.draw(_VALUES[plain[key]]))
    options = data.draw(st.dictionaries(st.text(max_size=5), st.integers() | st.booleans() | st.text(max_size=3)))
    env = dataclasses.replace(config.env, options={**options, "sizes": (1, 2)})
    config = dataclasses.replace(config, env=env, preset=("a", "b"))
    again = from_json(to_json(config))
    assert again == config
    assert to_json(again) == to_json(config)


def edited(**changes):
    data = json.loads(to_json(Config()))
    for key, value in changes.items():
        section, _, field = key.partition("__")
        if field:
            data[section][field] = value
        else:
            data[section] = value
    return json.dumps(data)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "not JSON"),
        ("[1]", "expected a JSON object"),
        (edited(env=3), "env: expected a JSON object"),
        (edited(filter__valu=0.5), r"unknown key 'filter\.valu'; did you mean 'filter\.value'"),
        (edited(clip_ratio_high=0.3), r"algorithm\.clip_high"),
        (edited(steps="many"), "steps='many' is not a whole number"),
        (edited(steps=True), "steps=True is not a whole number"),
        (edited(steps=1.5), "steps=1.5 is not a whole number"),
        (edited(optim__lr="x"), r"optim\.lr='x' is not a number"),
        (edited(filter__mass="lin"), "one of linear, softmax"),
        (edited(preset=[1]), "preset="),
        (edited(env__options=[1]), r"env\.options="),
        ('{"steps": 3}', "lacks 'seed'"),
    ],
)
def test_bad_files_are_refused(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        from_json(text)


def test_non_finite_numbers_do_not_enter_a_file():
    with pytest.raises(ValueError, match="Out of range float"):
        to_json(dataclasses.replace(Config(), optim=dataclasses.replace(Config().optim, lr=float("nan"))))


def test_hash_depends_on_content_only():
    assert content_hash({"a": 1, "b": (1, 2)}) == content_hash({"b": [1, 2], "a": 1})
    assert content_hash(Config()) == content_hash(from_json(to_json(Config())))
    assert content_hash(Config()) != content_hash(dataclasses.replace(Config(), seed=1))
    # The value itself is fixed: caches keyed by it must survive a new process and a new Python.
    assert content_hash({"a": 1}) == "015abd7f5cc57a2d"
    assert len(content_hash(Config().env)) == 16
