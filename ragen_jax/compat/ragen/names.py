"""Our metric names and the released code's keys, where both measure the same thing."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# Per-token values agree with `collapse.mix=per_token`. All agree only where no prompt occurs twice: equal prompts are
# one column for us and two there.
_COLLAPSE = {
    "mi_token_nats": "mi_estimate",
    "mi_sequence_nats": "mi_seq_estimate",
    "mi_sequence_ceiling_nats": "mi_upper_bound",
    "matched_token_nats": "matched_log_prob_mean",
    "marginal_token_nats": "marginal_log_prob_mean",
    "conditional_entropy_token_nats": "conditional_entropy_est",
    "conditional_entropy_sequence_nats": "conditional_entropy_seq_est",
    "reasoning_entropy_token_nats": "reasoning_entropy_est",
    "reasoning_entropy_sequence_nats": "reasoning_entropy_seq_est",
    "marginal_std_token_nats": "marginal_std",
    "marginal_std_ema_token_nats": "marginal_std_ema",  # ours survives a resume
    "mi_zscore": "mi_zscore",
    "mi_zscore_ema": "mi_zscore_ema",
    "retrieval_accuracy": "retrieval_accuracy",  # equal scores: shares for us, the first column there
    "retrieval_accuracy@2": "retrieval_accuracy@2",
    "retrieval_accuracy@4": "retrieval_accuracy@4",
    "retrieval_accuracy@8": "retrieval_accuracy@8",
    "retrieval_chance": "retrieval_chance_level",
    "retrieval_chance@2": "retrieval_chance_level@2",  # k times chance there, exact for us
    "retrieval_chance@4": "retrieval_chance_level@4",
    "retrieval_chance@8": "retrieval_chance_level@8",
}
_SAMPLINGS = {
    "collapse/first_turn": "collapse_first_turn_sample",
    "collapse/trajectory": "collapse_trajectory_sample",
}
_REST = {
    "collapse/first_turn/scored": "collapse/first_turn_num_valid",  # counted before any are sampled there
    "rollout/closed_reasoning": "collapse/valid_thinking_rate",  # of all turns
    "rollout/response_tokens": "train/response_length",  # template tokens count there
    "filter/reward_std_mean": "rollout/in_group_reward_std",  # there also called reward variance
    "filter/flat_count": "rollout/filter_zero_count",  # range of the rewards for us, |std| <= 1e-10 there
    "filter/kept_count": "rollout/filter_kept_count",
    "filter/kept_ratio": "rollout/filter_kept_ratio",
    "loss/task": "actor/pg_loss",  # normalised over the optimiser batch for us, per micro-batch there
    "loss/value": "critic/vf_loss",
    "policy/entropy_token_nats": "actor/entropy",
    "policy/approx_kl_token_nats": "actor/ppo_kl",
    "policy/clipped_share": "actor/pg_clipfrac",
    "policy/clipped_dual_share": "actor/pg_clipfrac_lower",
    "critic/clipped_share": "critic/vf_clipfrac",
    "gradient/actor_norm": "actor/grad_norm",
    "gradient/critic_norm": "critic/grad_norm",
    "update/skipped": "rollout/empty_after_filter",  # an update whose gradients are all zero counts for us too
    "time/rollout_seconds": "timing_s/gen",
    "time/cross_score_seconds": "timing_s/collapse_metrics",
    "time/validation_seconds": "timing_s/testing",
}

#: Our name -> the released code's key. Keys that hold an environment tag (success, pass@k) are left out.
metric_names: Mapping[str, str] = MappingProxyType(
    {f"{ours}/{name}": f"{theirs}/{key}" for ours, theirs in _SAMPLINGS.items() for name, key in _COLLAPSE.items()}
    | _REST
)
