"""What an advantage estimator reads."""

from __future__ import annotations

import dataclasses

import jax
from flax import struct

from ragen_jax.core.masking import masked_sum
from ragen_jax.types import Array


@struct.dataclass
class AdvantageInputs:
    """Rewards of P groups of G rollouts; row ``i * G + k`` is rollout k of prompt i.

    The rewards are those of the task: return and penalties, normalised where the run asks for it. What a KL to the
    reference costs stands apart, so that it is never divided by the spread of the task rewards of a group.

    Attributes:
      rewards: [P, G] float32, task reward of each rollout.
      valid: [P, G] bool, false rows take no part in any statistic and get advantage 0.
      token_rewards: [B, T] float32, the same rewards on the tokens that earned them.
      kl_rewards: [B, T] float32, minus coefficient times KL of each token; zeros without a KL in the reward.
      values: [B, T] float32, critic value before each token; zeros without a critic.
      response_mask: [B, T] bool, tokens that the policy sampled.
      turn_ids: [B, T] int32, turn of a response token, -1 elsewhere.
    """

    rewards: Array
    valid: Array
    token_rewards: Array
    kl_rewards: Array
    values: Array
    response_mask: Array
    turn_ids: Array

    @property
    def trained(self) -> jax.Array:
        """Response tokens of valid rows, [B, T] bool."""
        return (self.response_mask != 0) & (self.valid.reshape(-1, 1) != 0)

    @property
    def kl_returns(self) -> jax.Array:
        """KL rewards of each rollout, summed over its trained tokens, [P, G] float32."""
        return masked_sum(self.kl_rewards, self.trained, axis=1).reshape(self.rewards.shape)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdvantageOptions:
    """The numbers of all estimators; each reads those that it has a use for.

    Attributes:
      gamma: discount per response token.
      lam: GAE lambda.
      turn_gamma: discount per turn of the bi-level GAE.
      normalize_by_std: divide group advantages by the standard deviation of the group.
    """

    gamma: float = 1.0
    lam: float = 1.0
    turn_gamma: float = 1.0
    normalize_by_std: bool = True
