"""Names of both sides."""

from __future__ import annotations

import doctest
import importlib
import json
import pkgutil

import pytest

from ragen_jax.compat import ragen
from ragen_jax.compat.ragen import filter_rows, metric_names
from tests.test_metric_dictionary import dictionary

MODULES = [module.name for module in pkgutil.iter_modules(ragen.__path__, "ragen_jax.compat.ragen.")]


def test_our_names_stand_in_the_dictionary():
    assert set(metric_names) <= dictionary()


def test_golden_names(golden_dir):
    """Keys of the collapse metrics and of the filter are those that were recorded."""
    recorded = set(json.loads((golden_dir / "mi_logged_keys.json").read_text())["keys"])
    recorded |= set(filter_rows([[0.0, 1.0]], strategy="top_p", value=0.9).metrics)
    for key in metric_names.values():
        if key.startswith("collapse") or key.startswith("rollout/in_group") or key.startswith("rollout/filter"):
            assert key in recorded


def test_no_key_has_two_of_our_names():
    assert len(set(metric_names.values())) == len(metric_names)


def test_names_cannot_be_changed():
    with pytest.raises(TypeError):
        metric_names["mi"] = "mi"


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0
