"""Where the RAGEN-2 paper and its released code disagree, as two presets. Put one first: later presets win.

| option | paper | released code |
|---|---|---|
| ranked by | unbiased variance of a group's rewards | standard deviation |
| mass of top-p | the score itself | softmax over prompts (main-table script) |
| slack on the mass | 0.01 of variance | 0.01 of standard deviation |
| prompts without variance | left out | take part (main-table script) |
| scale of the loss | rho, whole loss | none |
| normaliser of the loss | what the filter kept | what the filter kept |
| FrozenLake | 2 % slips | no slips (main-table script) |
| marginal of the MI estimate | mixture of whole sequences | mixture of per-token means |
| early stop | 5 steps, variance below 10 % | 10 steps, standard deviation below 10 % |

What is not reproduced: batches filled up with random copies of rows (here: rows of weight 0), and a group of one that
gets its raw reward as advantage (here: 0).
"""

from __future__ import annotations

from configs._change import change
from ragen_jax.config.schema import Config

# Sizes that both share: 32 rows per optimiser update are two groups of sixteen.
_SHARED_ALGORITHM = {"minibatch_groups": 2, "normalizer": "kept"}
_SHARED_COLLAPSE = {"every": 5, "trajectory": True, "trajectory_samples": 64}


def paper(config: Config) -> Config:
    """What the paper's text says (RAGEN-2 sections 2.3 and 3.3, appendices B and G)."""
    config = change(
        config,
        filter={
            "rule": "top_p",
            "value": 0.9,
            "score": "reward_variance",
            "mass": "linear",
            "slack": 0.01,
            "include_zero": False,
            "loss_scale": "rho",
            "loss_scale_target": "loss",
        },
        algorithm=_SHARED_ALGORITHM,
        collapse={**_SHARED_COLLAPSE, "mix": "sequence"},
        early_stop={"window": 5, "baseline_steps": 10, "fraction": 0.1, "statistic": "variance"},
    )
    return _slips(config, 0.02)


def reference_code(config: Config) -> Config:
    """What the released main-table script runs."""
    config = change(
        config,
        filter={
            "rule": "top_p",
            "value": 0.9,
            "score": "reward_std",
            "mass": "softmax",
            "slack": 0.0,  # the softmax form has none
            "include_zero": True,
            "loss_scale": "none",
            "loss_scale_target": "loss",
        },
        algorithm=_SHARED_ALGORITHM,
        collapse={**_SHARED_COLLAPSE, "mix": "per_token"},
        early_stop={"window": 10, "baseline_steps": 10, "fraction": 0.1, "statistic": "std"},
    )
    return _slips(config, 0.0)


def _slips(config: Config, rate: float) -> Config:
    """Slip rate of FrozenLake; other environments do not slip."""
    if config.env.name != "frozen_lake":
        return config
    return change(config, env={"options": {**config.env.options, "slip_rate": rate}})
