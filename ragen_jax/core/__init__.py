"""The science as pure functions on arrays: no model, no configuration, no random state, no input or output."""

from __future__ import annotations

from ragen_jax.core import advantages, bounds, filters, scores
from ragen_jax.core.advantages import (
    bi_level_gae,
    center_over_tokens,
    gae,
    group_advantages,
    group_advantages_by_id,
    leave_one_out,
    net_token_weight,
    returns_to_go,
)
from ragen_jax.core.change_points import ChangePointState, empty_change_points, update_change_points
from ragen_jax.core.collapse import (
    MiBounds,
    collapse_metrics,
    column_sampling_std_error,
    matched_and_marginal,
    mi_bounds,
    mi_zscore,
    retrieval_accuracy,
)
from ragen_jax.core.dispersion import Preflight, preflight_verdict, variance_dispersion
from ragen_jax.core.estimators import ESTIMATORS
from ragen_jax.core.grouping import (
    group_mean,
    group_std,
    group_variance,
    is_flat,
    to_groups,
)
from ragen_jax.core.intervals import (
    Interval,
    batch_mi_interval,
    bootstrap_interval,
    conditional_entropy_interval,
    prompt_jackknife_mi,
    proportion_interval,
    stratified_interval,
)
from ragen_jax.core.log_probs import log_probs_and_entropy
from ragen_jax.core.losses import kl, ppo_policy_loss, ppo_terms, value_terms
from ragen_jax.core.masking import (
    aggregate,
    aggregation_denominator,
    masked_mean,
    masked_sum,
    masked_var,
    masked_whiten,
)
from ragen_jax.core.moving_average import empty_moving_average, update_moving_average
from ragen_jax.core.null import permutation_null, wrong_prompt_mi
from ragen_jax.core.regimes import MEASURES, REGIMES, RegimeVerdict, classify_regime
from ragen_jax.core.repetition import repeated_rows, repeated_share
from ragen_jax.core.rewards import normalize_rewards, overlong_penalties, turn_lengths
from ragen_jax.core.snr import dominance_ratio, gradient_account, rv_buckets, signal_to_noise

__all__ = [
    "ESTIMATORS",
    "MEASURES",
    "REGIMES",
    "ChangePointState",
    "Interval",
    "MiBounds",
    "Preflight",
    "RegimeVerdict",
    "advantages",
    "aggregate",
    "aggregation_denominator",
    "batch_mi_interval",
    "bi_level_gae",
    "bootstrap_interval",
    "bounds",
    "center_over_tokens",
    "classify_regime",
    "collapse_metrics",
    "column_sampling_std_error",
    "conditional_entropy_interval",
    "dominance_ratio",
    "empty_change_points",
    "empty_moving_average",
    "filters",
    "gae",
    "gradient_account",
    "group_advantages",
    "group_advantages_by_id",
    "group_mean",
    "group_std",
    "group_variance",
    "is_flat",
    "kl",
    "leave_one_out",
    "log_probs_and_entropy",
    "masked_mean",
    "masked_sum",
    "masked_var",
    "masked_whiten",
    "matched_and_marginal",
    "mi_bounds",
    "mi_zscore",
    "net_token_weight",
    "normalize_rewards",
    "overlong_penalties",
    "permutation_null",
    "ppo_policy_loss",
    "ppo_terms",
    "preflight_verdict",
    "prompt_jackknife_mi",
    "proportion_interval",
    "repeated_rows",
    "repeated_share",
    "retrieval_accuracy",
    "returns_to_go",
    "rv_buckets",
    "scores",
    "signal_to_noise",
    "stratified_interval",
    "to_groups",
    "turn_lengths",
    "update_change_points",
    "update_moving_average",
    "value_terms",
    "variance_dispersion",
    "wrong_prompt_mi",
]
