"""Names of both sides."""

from __future__ import annotations

import doctest
import importlib
import json
import pkgutil
import re

import pytest

from ragen_jax.compat import ragen
from ragen_jax.compat.ragen import filter_rows, metric_names, renamed_metrics
from tests.test_metric_dictionary import dictionary

MODULES = [module.name for module in pkgutil.iter_modules(ragen.__path__, "ragen_jax.compat.ragen.")]


# Times of one choice of contexts each; a step of ours has the time of all of them.
WITHOUT_COUNTERPART = {"timing_s/collapse_first_turn_step", "timing_s/collapse_multi_turn_step"}


def test_our_names_stand_in_the_dictionary():
    assert {re.sub(r"/bucket_\d/", "/bucket_1/", name) for name in metric_names} <= dictionary()


def test_golden_keys_have_a_counterpart(golden_dir):
    """All but two of the recorded keys come out of a line that has all of our names."""
    recorded = set(json.loads((golden_dir / "mi_logged_keys.json").read_text())["keys"])
    assert recorded - set(renamed_metrics(dict.fromkeys(dictionary(), 1.0))) == WITHOUT_COUNTERPART


def test_renamed_metrics():
    line = {
        "step": 3.0,
        "collapse/first_turn/scored": 6.0,
        "collapse/first_turn/unscored": 2.0,
        "collapse/trajectory/retrieval_accuracy@2": 0.75,
        "collapse/trajectory/retrieval_chance@2": 0.5,
        "collapse/first_turn/mi_zscore_sequence": 1.5,
        "gradient_probe/update/task_norm": 0.1,
    }
    assert renamed_metrics(line) == {
        "collapse/first_turn_num_valid": 6.0,
        "collapse/first_turn_num_total": 8.0,
        "collapse/first_turn_valid_rate": 0.75,
        "collapse_trajectory_sample/retrieval_accuracy@2": 0.75,
        "collapse_trajectory_sample/retrieval_chance_level@2": 0.5,
        "collapse_trajectory_sample/retrieval_above_chance@2": 0.25,
        "collapse_first_turn_sample/mi_zscore_seq": 1.5,
        "grad_norm/all/task": 0.1,
    }


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
