"""Every recorded file is reproduced by a test, or shows a defect that we name instead of copying it.

``B7`` and the like number the defects in the notes that came with the recordings.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

REPRODUCED = {
    "advantages.json": [
        "core/advantages/test_gae.py::test_golden_after_whitening",
        "core/advantages/test_group_estimators.py::test_golden_grpo_and_rloo",
        "compat/test_advantages.py::test_golden_grpo",
        "compat/test_advantages.py::test_golden_others",
        "compat/test_core_parity.py::test_golden_bi_level_gae",
    ],
    "constant_group_std.json": ["core/test_grouping.py::test_constant_groups_whose_float_std_is_not_zero"],
    "env_manager.json": ["compat/test_core_parity.py::test_golden_environment_manager"],
    "env_seeds.json": ["compat/test_core_parity.py::test_golden_seeds"],
    "gradient_buckets.json": ["compat/test_buckets.py::test_golden_buckets"],
    "mi_cross_logprob.json": ["compat/test_cross_scores.py::test_golden_cross_scores"],
    "mi_ema_sequence.json": [
        "compat/test_collapse.py::test_golden_moving_averages",
        "core/test_collapse.py::test_golden_moving_average",
    ],
    "mi_logged_keys.json": ["compat/test_collapse.py::test_golden_keys", "compat/test_names.py::test_golden_names"],
    "mi_metrics.json": [
        "compat/test_collapse.py::test_golden_metrics",
        "compat/test_collapse.py::test_golden_mismatch_and_schedule",
        "core/test_collapse.py::test_golden_metrics",
    ],
    "mi_sampling.json": [
        "compat/test_core_parity.py::test_golden_samplings",
        "compat/test_collapse.py::test_golden_mismatch_and_schedule",
    ],
    "parse_response.json": [
        "compat/test_parsing.py::test_golden_replies",
        "envs/test_parsing.py::test_against_recorded_replies",
    ],
    "ppo_losses.json": [
        "core/test_losses.py::test_golden_policy_losses",
        "core/test_losses.py::test_golden_kl_value_and_aggregation",
        "compat/test_losses.py::test_golden_losses",
    ],
    "reward_normalization.json": ["compat/test_rewards.py::test_golden_normalisation"],
    "rollout_filter_batch.json": [
        "compat/test_filtering.py::test_golden_reward_filters",
        "compat/test_filtering.py::test_golden_length_and_entropy_filters",
        "compat/test_filtering.py::test_golden_rows_that_are_turns",
        "compat/test_selection.py::test_golden_errors",
    ],
    "rollout_filter_select.json": [
        "compat/test_selection.py::test_golden_selections",
        "core/filters/test_rules.py::test_golden_selections",
    ],
    "trainer_pieces.json": [
        "compat/test_buckets.py::test_golden_trainer_sizes",
        "compat/test_advantages.py::test_golden_dispatch",
    ],
    "turn_scores.json": ["compat/test_rewards.py::test_golden_turn_scores"],
}

# (file, what in it) -> the defect, and what holds here. A whole file has no second name.
DEFECTS = {
    (
        "truncation.json",
        None,
    ): "B7: cutting the history moves the loss onto environment text; masks here are recorded spans",
    ("frozen_lake_shared_noise.json", None): "B34: members of a group share their noise; each has its own stream here",
    ("constant_group_std.json", "std"): "B32: the std of equal rewards is noise above 1e-10; flatness here is a range",
    ("advantages.json", "a group of one"): "unnumbered: keeps its raw score; 0 in core, reproduced in compat",
    ("advantages.json", "a last turn without reward"): "B14: fails; turn ends here come from masks",
    (
        "env_seeds.json",
        "train_after_explicit_seed_10100",
    ): "B27: the counter moves by 1 and seeds overlap; seeds here are a function of the step",
    ("mi_metrics.json", "equal prompts"): "B3: chance at k and bound count duplicates apart; reproduced in compat only",
    ("rollout_filter_batch.json", "several turns an episode"): "B33: fails; rows are kept by episode in compat",
    ("rollout_filter_select.json", "min_p with negative scores"): "B15: keeps nothing; core refuses, compat reproduces",
    ("trainer_pieces.json", "estimators that raise"): "B14, B18: out of reach there; core has them",
    ("trainer_pieces.json", "copied and deleted rows"): "B16: reproduced in compat; training drops by weight 0",
    ("turn_scores.json", "llama-3"): "B29: loses the last reward of shorter episodes; kept in compat",
}

# Remarks, and outputs whose inputs were not recorded.
NOTES = {
    "env_manager.json": {"toy_env"},
    "mi_cross_logprob.json": {"toy_scorer", "same_with_world3"},
    "mi_logged_keys.json": {"values_without_timing", "scorer_calls"},
    "mi_metrics.json": {"ema_decay"},
    "rollout_filter_select.json": {"order_note"},
}


@pytest.fixture
def files(golden_dir: Path) -> dict[str, object]:
    return {path.name: json.loads(path.read_text()) for path in sorted(golden_dir.glob("*.json"))}


def source(test: str) -> str:
    path = TESTS / test.partition("::")[0]
    return path.read_text(encoding="utf-8")


def test_every_file_is_accounted_for(files):
    assert set(files) == set(REPRODUCED) | {file for file, part in DEFECTS if part is None}
    assert {file for file, _ in DEFECTS} <= set(files)


def test_every_section_is_read(files):
    for file, tests in REPRODUCED.items():
        content = files[file]
        if not isinstance(content, dict):
            continue
        text = "".join(source(test) for test in tests)
        told = NOTES.get(file, set()) | {part for name, part in DEFECTS if name == file}
        unread = [key for key in content if key not in told and not re.search(rf"""["']{re.escape(key)}["']""", text)]
        assert not unread, f"{file}: no test reads {unread}"


@pytest.mark.parametrize("file", sorted(REPRODUCED))
def test_the_named_tests_exist_and_open_the_file(file):
    for test in REPRODUCED[file]:
        body = re.search(rf"^def {test.partition('::')[2]}\(.*?(?=^\S|\Z)", source(test), re.MULTILINE | re.DOTALL)
        assert body, f"{test} is gone"
        assert "golden_dir" in body[0]
        assert file in body[0]


def test_every_defect_is_named():
    for text in DEFECTS.values():
        assert re.match(r"(B\d+(, B\d+)*|unnumbered): .+", text)
