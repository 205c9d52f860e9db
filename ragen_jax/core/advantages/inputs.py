"""What an advantage estimator reads."""

from __future__ import annotations

from flax import struct

from ragen_jax.types import Array


@struct.dataclass
class AdvantageInputs:
    """Rewards of P groups of G rollouts; row ``i * G + k`` is rollout k of prompt i.

    Attributes:
      rewards: [P, G] float32, return plus format penalty of each rollout.
      valid: [P, G] bool, false rows take no part in any statistic and get advantage 0.
      token_rewards: [B, T] float32, the same rewards on the tokens that earned them, penalty included.
      values: [B, T] float32, critic value before each token; zeros without a critic.
      response_mask: [B, T] bool, tokens that the policy sampled.
      turn_ids: [B, T] int32, turn of a response token, -1 elsewhere.
    """

    rewards: Array
    valid: Array
    token_rewards: Array
    values: Array
    response_mask: Array
    turn_ids: Array
