"""Presets: pure functions Config -> Config, composed from left to right (``preset=paper,sokoban,grpo``).

A preset sets what it is about and leaves the rest alone, so later ones win. Each is one line here.
"""

from __future__ import annotations

from ragen_jax.registry import Registry

__all__ = ["PRESETS"]

PRESETS = Registry(
    "preset",
    (
        ("base", "configs.base:base"),
        ("paper", "configs.provenance:paper"),
        ("reference_code", "configs.provenance:reference_code"),
        ("frozen_lake", "configs.envs.frozen_lake:frozen_lake"),
        ("frozen_lake_tiny", "configs.envs.frozen_lake:frozen_lake_tiny"),
        ("frozen_lake_turns_tiny", "configs.envs.frozen_lake:frozen_lake_turns_tiny"),
        ("sokoban", "configs.envs.sokoban:sokoban"),
        ("sokoban_tiny", "configs.envs.sokoban:sokoban_tiny"),
        ("countdown", "configs.envs.countdown:countdown"),
        ("countdown_tiny", "configs.envs.countdown:countdown_tiny"),
        ("search_qa", "configs.envs.search_qa:search_qa"),
        ("bandit", "configs.envs.bandit:bandit"),
        ("bandit_tiny", "configs.envs.bandit:bandit_tiny"),
        ("webshop", "configs.envs.webshop:webshop"),
        ("webshop_full", "configs.envs.webshop:webshop_full"),
        ("deepcoder", "configs.envs.deepcoder:deepcoder"),
        ("metamathqa", "configs.envs.metamathqa:metamathqa"),
        ("metamathqa_retry", "configs.envs.metamathqa:metamathqa_retry"),
        ("rubik", "configs.envs.rubik:rubik"),
        ("game_2048", "configs.envs.game_2048:game_2048"),
        ("sudoku", "configs.envs.sudoku:sudoku"),
        ("ppo", "configs.algorithms.ppo:ppo"),
        ("ppo_bi_level", "configs.algorithms.ppo:ppo_bi_level"),
        ("grpo", "configs.algorithms.grpo:grpo"),
        ("dr_grpo", "configs.algorithms.dr_grpo:dr_grpo"),
        ("dapo", "configs.algorithms.dapo:dapo"),
        ("reinforce", "configs.algorithms.reinforce:reinforce"),
        ("rloo", "configs.algorithms.reinforce:rloo"),
        ("reinforce_plus_plus", "configs.algorithms.reinforce:reinforce_plus_plus"),
        ("reinforce_plus_plus_baseline", "configs.algorithms.reinforce:reinforce_plus_plus_baseline"),
        ("no_filter", "configs.filters:no_filter"),
        ("top_p", "configs.filters:top_p"),
        ("top_p_variance", "configs.filters:top_p_variance"),
        ("top_p_std", "configs.filters:top_p_std"),
        ("top_p_softmax_std", "configs.filters:top_p_softmax_std"),
        ("top_p_prompt_fraction", "configs.filters:top_p_prompt_fraction"),
        ("reverse_top_p", "configs.filters:reverse_top_p"),
        ("top_k25", "configs.filters:top_k25"),
        ("min_p", "configs.filters:min_p"),
        ("nonzero", "configs.filters:nonzero"),
        ("quartile_1", "configs.filters:quartile_1"),
        ("quartile_2", "configs.filters:quartile_2"),
        ("quartile_3", "configs.filters:quartile_3"),
        ("quartile_4", "configs.filters:quartile_4"),
        ("replayed_variance", "configs.filters:replayed_variance"),
        ("best_and_worst_4", "configs.filters:best_and_worst_4"),
        ("tiny", "configs.models.tiny:tiny"),
        ("small", "configs.models.small:small"),
        ("hf", "configs.models.hf:hf"),
        ("qwen2.5-0.5b", "configs.models.hf:qwen25_05b"),
        ("qwen2.5-1.5b", "configs.models.hf:qwen25_15b"),
        ("qwen2.5-3b", "configs.models.hf:qwen25_3b"),
        ("qwen2.5-7b", "configs.models.hf:qwen25_7b"),
        ("qwen2.5-14b", "configs.models.hf:qwen25_14b"),
        ("llama-3.2-1b", "configs.models.hf:llama32_1b"),
        ("llama-3.2-3b", "configs.models.hf:llama32_3b"),
        ("quickstart", "configs.quickstart:quickstart"),
        ("cpu_debug", "configs.hardware.cpu_debug:cpu_debug"),
    ),
)
