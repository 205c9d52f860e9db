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
    "marginal_std_sequence_nats": "marginal_std_seq",
    "marginal_std_ema_sequence_nats": "marginal_std_ema_seq",
    "mi_zscore": "mi_zscore",
    "mi_zscore_ema": "mi_zscore_ema",
    "mi_zscore_sequence": "mi_zscore_seq",
    "mi_zscore_sequence_ema": "mi_zscore_ema_seq",
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
    "rollout/attempts": "train/rollout_attempts",  # always 1 there
    # One key per phase of its step. Its totals per step leave out phases that our `time/step_seconds` has in it, and it
    # times each choice of contexts apart (`timing_s/collapse_first_turn_step`), so these have no counterpart.
    "time/rollout_seconds": "timing_s/gen",
    "time/cross_score_seconds": "timing_s/collapse_metrics",
    "time/probe_seconds": "timing_s/gradient_analysis",
    "time/validation_seconds": "timing_s/testing",
}
# Gradients: of the kept prompts, and of all before the filter. The norm of the mean gradient for us; there the mean of
# the norms of mini-batches, which grows with noise and halves for a bucket of half a mini-batch. Its norms of entropy
# and KL have their coefficients in them, ours (`kl_unit_norm`) have not.
_GRADIENT_SETS = {
    "update": "grad_norm/all",
    "all": "grad_norm_prefilter/all",
    **{f"bucket_{number}": f"grad_norm_prefilter/bucket_{number}" for number in range(1, 7)},  # 6 are its default
}
_GRADIENTS = {"task_norm": "task", "prompts": "group_rv_count"}

#: Our name -> the released code's key. Keys that hold an environment tag (success, pass@k) are left out.
metric_names: Mapping[str, str] = MappingProxyType(
    {f"{ours}/{name}": f"{theirs}/{key}" for ours, theirs in _SAMPLINGS.items() for name, key in _COLLAPSE.items()}
    | {
        f"gradient_probe/{ours}/{name}": f"{theirs}/{key}"
        for ours, theirs in _GRADIENT_SETS.items()
        for name, key in _GRADIENTS.items()
    }
    | _REST
)


def renamed_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """A line of ``metrics.jsonl`` under the released code's keys.

    Keys that are a sum or a difference of ours come with the others: ``retrieval_above_chance`` (and ``@k``),
    ``collapse/first_turn_num_total`` and ``collapse/first_turn_valid_rate``. What has no counterpart is left out.

    Args:
      metrics: our names and values.

    Returns:
      Their keys and the same values.

    >>> renamed_metrics({"collapse/first_turn/scored": 3.0, "collapse/first_turn/unscored": 1.0, "step": 5.0})
    {'collapse/first_turn_num_valid': 3.0, 'collapse/first_turn_num_total': 4.0, 'collapse/first_turn_valid_rate': 0.75}
    """
    renamed = {metric_names[name]: value for name, value in metrics.items() if name in metric_names}
    for ours, theirs in _SAMPLINGS.items():
        for at in ("", "@2", "@4", "@8"):
            accuracy, chance = f"{ours}/retrieval_accuracy{at}", f"{ours}/retrieval_chance{at}"
            if accuracy in metrics and chance in metrics:
                renamed[f"{theirs}/retrieval_above_chance{at}"] = metrics[accuracy] - metrics[chance]
    scored, unscored = "collapse/first_turn/scored", "collapse/first_turn/unscored"
    if scored in metrics and unscored in metrics:
        total = metrics[scored] + metrics[unscored]
        renamed["collapse/first_turn_num_total"] = total
        renamed["collapse/first_turn_valid_rate"] = metrics[scored] / total
    return renamed
