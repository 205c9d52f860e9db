"""How long the messages of an environment are, measured on its first instances before a run."""

from __future__ import annotations

import contextlib
import dataclasses

from ragen_jax.config.schema import Config
from ragen_jax.envs import make_env
from ragen_jax.envs.base import Observation, StepResult
from ragen_jax.rollout.prompting import ChatFormat, UserMessages

_USUAL_REWARD = -0.1  # its text has a sign and a decimal, as most rewards of a turn


@dataclasses.dataclass(frozen=True)
class Lengths:
    """Padded lengths of messages.

    Attributes:
      prompt_tokens: Lx, tokens of a first prompt, a multiple of ``rollout.prompt_bucket``.
      observation_tokens: tokens of a later observation, a multiple of ``rollout.observation_bucket``.
    """

    prompt_tokens: int
    observation_tokens: int


def measured_lengths(config: Config, chat: ChatFormat) -> Lengths:
    """The longest first prompt of the first training batch, and the longest message of a second turn that shows it.

    Later instances, and what the environment shows after an action, may be longer: nothing may rely on these numbers
    as bounds.
    """
    prompts, observations = [], []
    with contextlib.closing(make_env(config.env.name, **dict(config.env.options))) as env:
        for seed in config.training_seeds(0):
            opening = env.reset(seed)
            messages = UserMessages(
                env.config, max_turns=env.config.max_turns, show_rewards=config.rollout.show_rewards
            )
            prompts.append(len(chat.first_prompt(env.instructions(), messages.first(opening))))
            observations.append(len(chat.next_observation(messages.next(_shown_again(opening)))))
    return Lengths(
        prompt_tokens=_padded(max(prompts), config.rollout.prompt_bucket),
        observation_tokens=_padded(max(observations), config.rollout.observation_bucket),
    )


def _shown_again(opening: Observation) -> StepResult:
    return StepResult(observation=opening, reward=_USUAL_REWARD, terminated=False, truncated=False, info={})


def _padded(tokens: int, bucket: int) -> int:
    return -(-tokens // bucket) * bucket
