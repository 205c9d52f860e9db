"""What the released RAGEN-2 code computes, under its own names, for people who compare runs with it.

``core`` holds the right value wherever the released code is wrong; here its value is reproduced and the difference is
named in the docstring. Nothing in training imports this package.
"""

from __future__ import annotations

from ragen_jax.compat.ragen.advantages import (
    GroupAdvantages,
    grpo_advantages,
    reinforce_plus_plus_advantages,
    reinforce_plus_plus_baseline_advantages,
    rloo_advantages,
)
from ragen_jax.compat.ragen.batches import adjust_rows
from ragen_jax.compat.ragen.buckets import Bucket, scale_group_counts, split_into_buckets
from ragen_jax.compat.ragen.collapse import (
    EmaState,
    collapse_metrics,
    collapse_metrics_with_ema,
    first_turn_columns,
    should_compute,
)
from ragen_jax.compat.ragen.cross_scores import CrossLogProbs, cross_log_probs, pad_reasonings
from ragen_jax.compat.ragen.filtering import FilteredRows, filter_rows, group_scores, trajectory_entropies
from ragen_jax.compat.ragen.losses import ppo_policy_loss
from ragen_jax.compat.ragen.names import metric_names, renamed_metrics
from ragen_jax.compat.ragen.parsing import ParsedResponse, parse_response
from ragen_jax.compat.ragen.rewards import TurnScores, normalize_rewards, turn_score_tensor
from ragen_jax.compat.ragen.selection import select_groups

__all__ = [
    "Bucket",
    "CrossLogProbs",
    "EmaState",
    "FilteredRows",
    "GroupAdvantages",
    "ParsedResponse",
    "TurnScores",
    "adjust_rows",
    "collapse_metrics",
    "collapse_metrics_with_ema",
    "cross_log_probs",
    "filter_rows",
    "first_turn_columns",
    "group_scores",
    "grpo_advantages",
    "metric_names",
    "normalize_rewards",
    "pad_reasonings",
    "parse_response",
    "ppo_policy_loss",
    "reinforce_plus_plus_advantages",
    "reinforce_plus_plus_baseline_advantages",
    "renamed_metrics",
    "rloo_advantages",
    "scale_group_counts",
    "select_groups",
    "should_compute",
    "split_into_buckets",
    "trajectory_entropies",
    "turn_score_tensor",
]
