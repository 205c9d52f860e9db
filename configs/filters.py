"""Prompt filters. They keep what a provenance preset says about scores, slack and loss scale."""

from __future__ import annotations

import dataclasses

from configs._change import change
from ragen_jax.config.schema import Config, FilterSection


def no_filter(config: Config) -> Config:
    """Train on every prompt."""
    return dataclasses.replace(config, filter=FilterSection())


def top_p(config: Config) -> Config:
    """Keep the prompts that hold 90 % of the reward variance of the batch (RAGEN-2 section 3.3)."""
    return change(config, filter={"rule": "top_p", "value": 0.9})
