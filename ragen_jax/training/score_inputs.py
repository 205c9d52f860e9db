"""What the filter's score reads of a finished batch. Entropies and replays are made only for scores that need them."""

from __future__ import annotations

import jax
import numpy as np

from ragen_jax.config.schema import Config
from ragen_jax.core.scores import SCORES, ScoreInputs
from ragen_jax.envs import env_class
from ragen_jax.learner.score import row_entropies
from ragen_jax.models.sharding import put_rows
from ragen_jax.rollout.episodes import Episode, Rollout
from ragen_jax.training.build import Components
from ragen_jax.types import Params, RolloutBatch


def score_inputs(parts: Components, params: Params, rollout: Rollout) -> ScoreInputs:
    """Rewards of a batch as the filter reads them, and whatever else its score is about.

    Args:
      parts: the run's components.
      params: current policy, read by scores of entropy.
      rollout: P x G episodes.

    Returns:
      NumPy arrays: [P, G] or, for replays, [P, G, K].
    """
    group, batch = rollout.info.group_size, rollout.batch
    needs = SCORES[parts.config.filter.score].needs
    return ScoreInputs(
        rewards=filter_rewards(parts.config, batch),
        valid=np.asarray(batch.valid).reshape(-1, group),
        lengths=np.asarray(batch.response_mask).sum(axis=1, dtype=np.float32).reshape(-1, group),
        entropies=_entropies(parts, params, rollout) if needs == "entropies" else None,
        replays=_replays(parts, rollout) if needs == "replays" else None,
    )


def filter_rewards(config: Config, batch: RolloutBatch) -> np.ndarray:
    """Rewards as the filter reads them, with or without penalties (``filter.count_penalty``), [P, G] float32."""
    rewards = np.asarray(batch.returns) + _penalties(config, batch)
    return rewards.reshape(-1, config.rollout.group_size).astype(np.float32)


def _penalties(config: Config, batch: RolloutBatch) -> np.ndarray:
    """Penalties that count for the filter, [B]."""
    penalties = np.asarray(batch.penalties)
    return penalties if config.filter.count_penalty else np.zeros_like(penalties)


def _entropies(parts: Components, params: Params, rollout: Rollout) -> np.ndarray:
    """One forward pass of the current policy over the batch, [P, G] (nats per token)."""
    group, batch = rollout.info.group_size, rollout.batch
    rows = (np.asarray(x).reshape(-1, group, np.shape(x)[-1]) for x in (batch.tokens, batch.response_mask))
    inputs = put_rows((batch.prompt_tokens, batch.prompt_mask, *rows), parts.mesh)
    return np.asarray(
        jax.device_get(
            row_entropies(params, parts.model, parts.scoring, *inputs, parts.scoring_groups, mesh=parts.mesh)
        )
    )


def _replays(parts: Components, rollout: Rollout) -> np.ndarray:
    """Rewards of K replays of every plan, with the penalty of the reply that held it, [P, G, K]."""
    draws = parts.config.filter.replays
    env = env_class(parts.pool.name)(parts.pool.config)
    rewards = [
        env.replay(_plan(episode), seed=episode.seed, member=episode.member, draws=draws)
        for episode in rollout.info.episodes
    ]
    env.close()
    totals = np.stack(rewards) + _penalties(parts.config, rollout.batch)[:, None]
    return totals.reshape(-1, rollout.info.group_size, draws).astype(np.float32)


def _plan(episode: Episode) -> tuple[str, ...]:
    """Answers that the environment acted upon: a reply that was cut was not."""
    return tuple(turn.answer for turn in episode.turns if turn.answer is not None and not turn.cut)
