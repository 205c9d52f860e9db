"""The examples in the docstrings of core run and print what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from ragen_jax import core

MODULES = sorted(module.name for module in pkgutil.walk_packages(core.__path__, "ragen_jax.core."))


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


def test_core_has_examples():
    finder = doctest.DocTestFinder()
    examples = [test for name in MODULES for test in finder.find(importlib.import_module(name)) if test.examples]
    assert len(examples) >= 15
