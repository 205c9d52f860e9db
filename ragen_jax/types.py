"""Every data type that crosses a border of the system, in one place.

Axis legend (the same letters everywhere):

    P   prompts of a batch; a prompt and its group share the index i
    G   rollouts per prompt
    B   P * G rows; row i * G + k is rollout k of prompt i
    Lx  padded tokens of the first prompt (left padded: its last token stands in slot Lx - 1)
    T   padded tokens of everything after the first prompt: responses and later observations (right padded, no holes)
    N   padded new tokens of one turn
    Lz  padded tokens of one reasoning
    C   context columns of a cross-scoring (C = P for first-turn pairs)
    S   columns under which a reasoning was scored, its own among them (S = C unless columns are sampled)
    V   vocabulary rows

The first prompt of a group is stored once, not G times: sampling, scoring and the update run it once and let the
G rollouts attend to its keys and values. Log-probs are in nats, float32, whatever the compute dtype.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
from flax import struct

Array = jax.Array | np.ndarray
Params = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Responses:
    """One turn of B rows, as sampled; NumPy.

    Attributes:
      tokens: [B, N] int32, right padded; only the first ``lengths`` of a row mean anything.
      lengths: [B] int32, sampled tokens, the end-of-turn token included; 0 for rows that were not active.
      log_probs: [B, N] float32 (nats), of the sampled tokens under the tempered policy; 0 behind the length.
      ended: [B] bool, true when the row stopped at an end-of-turn token, false when it was cut at N.
    """

    tokens: np.ndarray
    lengths: np.ndarray
    log_probs: np.ndarray
    ended: np.ndarray


@struct.dataclass
class RolloutBatch:
    """Finished episodes of P groups, as sampled: the ids here are the ids that were drawn or shown.

    Attributes:
      prompt_tokens: [P, Lx] int32, first prompt of each group, left padded.
      prompt_mask: [P, Lx] bool, true on real prompt tokens.
      prompt_class: [P] int32, equal for prompts with identical tokens.
      tokens: [B, T] int32, everything after the first prompt.
      attention_mask: [B, T] bool, true on real tokens (a prefix of the row).
      response_mask: [B, T] bool, true on tokens that the policy sampled, the end-of-turn token included.
      turn_ids: [B, T] int32, turn of a response token, -1 elsewhere.
      token_rewards: [B, T] float32, environment reward of a turn on the last response token of that turn.
      returns: [B] float32, sum of the environment rewards, without penalty.
      penalties: [B] float32, of format and length (zero or negative), kept apart from the returns.
      behaviour_log_probs: [B, T] float32 (nats), of the sampled tokens, from the sampler; zero elsewhere.
      policy_version: [] int32, the learner step whose parameters sampled the batch.
      valid: [B] bool, false for padding rows and for rows whose environment failed.
    """

    prompt_tokens: Array
    prompt_mask: Array
    prompt_class: Array
    tokens: Array
    attention_mask: Array
    response_mask: Array
    turn_ids: Array
    token_rewards: Array
    returns: Array
    penalties: Array
    behaviour_log_probs: Array
    policy_version: Array
    valid: Array


@struct.dataclass
class ReasoningPairs:
    """Contexts x and reasonings z for cross-scoring, exact sampled tokens.

    Row (i, k) was sampled under column i. Trajectory draws, where every context is its own column, use C = n, G = 1.

    Attributes:
      prompt_tokens: [C, Lx] int32, context of each column, left padded, up to and including the think marker.
      prompt_mask: [C, Lx] bool.
      reasoning_tokens: [C, G, Lz] int32, tokens strictly between the think markers, right padded.
      reasoning_mask: [C, G, Lz] bool; an all-false row has no closed reasoning and is not scored.
      column_class: [C] int32, equal for columns with identical context tokens.
    """

    prompt_tokens: Array
    prompt_mask: Array
    reasoning_tokens: Array
    reasoning_mask: Array
    column_class: Array


@struct.dataclass
class CrossScores:
    """Log-probs of every reasoning under every context, or under a sample of S of them.

    Attributes:
      log_probs: [C, G, C] float32 (nats), [i, k, j] = log p(z_ik | x_j), summed over the tokens of z_ik. With
        ``columns`` [C, G, S], [i, k, s] = log p(z_ik | x_j) for j = columns[i, s].
      lengths: [C, G] int32, tokens of z_ik.
      valid: [C, G] bool, false rows are left out of every statistic.
      column_class: [C] int32, equal for columns with identical context.
      columns: None when all columns were scored; else [C, S] int32, the columns under which the reasonings of i were
        scored: i itself, then S - 1 others. As many of them as there is room for are of different classes, drawn
        uniformly without replacement among those other than i's; any further column is of a class that is there.
    """

    log_probs: Array
    lengths: Array
    valid: Array
    column_class: Array
    columns: Array | None = None


@struct.dataclass
class CollapseState:
    """Moving averages of the marginal's standard deviation.

    Attributes:
      ema_std: [] float32 (nats per token), the average; the first value initialises it.
      ema_std_sequence: [] float32 (nats per sequence), the same for marginals that are not divided by the length.
      count: [] int32, values seen so far.
    """

    ema_std: Array
    ema_std_sequence: Array
    count: Array


@struct.dataclass
class FilterResult:
    """What a filter kept.

    Attributes:
      keep: [P] bool.
      scores: [P] float32, the scores that were ranked.
      kept_count: [] int32.
      kept_mass: [] float32, share of the total score that the kept prompts hold; zero when the total is zero.
      loss_scale: [] float32, factor on the actor loss.
      row_keep: [P, G] bool, rollouts of kept prompts that are trained; None for all of them. Group statistics and
        advantages are taken over all G rollouts before.
    """

    keep: Array
    scores: Array
    kept_count: Array
    kept_mass: Array
    loss_scale: Array
    row_keep: Array | None = None


@struct.dataclass
class LearnerBatch:
    """What the update reads. Groups that the filter dropped stand behind the kept ones with weight 0.

    Attributes:
      prompt_tokens: [P, Lx] int32, left padded.
      prompt_mask: [P, Lx] bool.
      tokens: [P, G, T] int32.
      attention_mask: [P, G, T] bool.
      response_mask: [P, G, T] bool.
      old_log_probs: [P, G, T] float32 (nats), at the start of the step.
      ref_log_probs: [P, G, T] float32 (nats), frozen reference; zeros when no KL term is used.
      values: [P, G, T] float32, critic at the start of the step; zeros without a critic.
      advantages: [P, G, T] float32.
      returns: [P, G, T] float32, critic targets.
      weights: [P, G] float32, 0 for dropped, padding and invalid rows.
    """

    prompt_tokens: Array
    prompt_mask: Array
    tokens: Array
    attention_mask: Array
    response_mask: Array
    old_log_probs: Array
    ref_log_probs: Array
    values: Array
    advantages: Array
    returns: Array
    weights: Array


@struct.dataclass
class ObjectiveTerms:
    """Terms of the loss, apart, so that their gradients can be told apart. Each is [] float32.

    Attributes:
      task: policy surrogate.
      kl: coefficient times KL to the reference.
      entropy: minus coefficient times entropy.
      value: critic loss.
    """

    task: Array
    kl: Array
    entropy: Array
    value: Array

    @property
    def actor(self) -> Array:
        """Sum of the terms that train the policy, []."""
        return self.task + self.kl + self.entropy


@struct.dataclass
class TrainState:
    """All that training changes; one function takes a state and returns the next.

    Attributes:
      step: [] int32, finished steps (an update that the filter skipped counts as a finished step).
      params: policy parameters.
      opt_state: optimiser state of the policy.
      critic_params: critic parameters, or None.
      critic_opt_state: optimiser state of the critic, or None.
      collapse: moving averages behind the MI z-scores of the first turn.
      collapse_turns: the same for the families "trajectory" and "turn_uniform".
    """

    step: Array
    params: Params
    opt_state: Any
    critic_params: Params | None
    critic_opt_state: Any
    collapse: CollapseState
    collapse_turns: dict[str, CollapseState] = struct.field(default_factory=dict)
