"""Keys of RAGEN and veRL configurations and what they are called here; used for hints in error messages."""

from __future__ import annotations

from collections.abc import Mapping

# Last part of the foreign key -> our key.
LEGACY_KEYS: Mapping[str, str] = {
    # rollout filter
    "rollout_filter_value": "filter.value",
    "rollout_filter_ratio": "filter.value",
    "rollout_filter_strategy": "filter.rule",
    "rollout_filter_type": "filter.rule",
    "rollout_filter_metric": "filter.score",
    "rollout_filter_include_zero": "filter.include_zero",
    "rollout_filter_top_p_prob_mode": "filter.mass",
    "rollout_filter_selection_eps": "filter.slack",
    "rollout_filter_empty_stop_steps": "filter.max_empty_steps",
    "filter_loss_scaling": "filter.loss_scale",
    # algorithm and losses
    "adv_estimator": "algorithm.advantage",
    "norm_adv_by_std_in_grpo": "algorithm.normalize_by_std",
    "clip_ratio": "algorithm.clip_high",
    "clip_ratio_low": "algorithm.clip_low",
    "clip_ratio_high": "algorithm.clip_high",
    "clip_ratio_c": "algorithm.clip_dual",
    "loss_agg_mode": "algorithm.aggregation",
    "entropy_coeff": "algorithm.entropy_coef",
    "use_kl_loss": "algorithm.kl_coef",
    "kl_loss_coef": "algorithm.kl_coef",
    "use_kl_in_reward": "algorithm.kl_target",
    "kl_loss_type": "algorithm.kl_estimator",
    "kl_penalty": "algorithm.kl_estimator",
    "cliprange_value": "algorithm.value_clip",
    "ppo_epochs": "algorithm.epochs",
    "ppo_mini_batch_size": "algorithm.minibatch_groups",
    "ppo_micro_batch_size_per_gpu": "micro_groups",
    "micro_batch_size_per_gpu": "micro_groups",
    # optimiser
    "betas": "optim.beta1",
    "lr_warmup_steps": "optim.warmup_updates",
    # rollout
    "env_groups": "rollout.prompts",
    "n_groups": "rollout.prompts",
    "response_length": "rollout.max_new_tokens",
    "max_model_len": "rollout.max_context",
    "tags": "env.name",
    "env_type": "env.name",
    "max_turn": "env.max_turns",
    "max_actions_per_traj": "env.max_actions",
    "action_sep": "env.action_separator",
    # model and run
    "model_path": "model.init",
    "total_training_steps": "steps",
    "total_epochs": "steps",
    "save_freq": "checkpoint.every",
    "test_freq": "validation.every",
    "val_before_train": "validation.at_start",
    "max_actor_ckpt_to_keep": "checkpoint.keep",
    "local_log_dir": "folder",
    "default_local_dir": "folder",
    "resume_mode": "resume",
    "tensor_model_parallel_size": "mesh.tensor",
    "n_gpus_per_node": "mesh.data",
    # collapse detection
    "compute_freq": "collapse.every",
    "multi_turn_enabled": "collapse.trajectory",
    "num_samples": "collapse.trajectory_samples",
    "micro_batch_size": "collapse.reasonings_per_chunk",
}

# Foreign keys that have no counterpart -> the reason.
NO_COUNTERPART: Mapping[str, str] = {
    "batch_adjust_mode": "batches are filled with rows of weight 0, never with copies, so there is nothing to choose",
    "enable_response_mask": "only sampled tokens are trained, always",
    "gpu_memory_utilization": "the sampler runs in this process; rollout.max_context bounds its memory",
    "balance_batch": "groups are never spread over processes",
    "use_ref": "a reference policy is there whenever algorithm.kl_coef or probe.every is above 0",
    **dict.fromkeys(
        ("top_p", "top_k"),
        "training samples from the whole distribution, whose log-probs it trains; validation.top_p and "
        "validation.top_k truncate the validation",
    ),
    "CUDA_VISIBLE_DEVICES": "set it as an environment variable before Python starts",
}
