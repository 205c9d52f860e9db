"""The configuration: frozen dataclasses, standard library only. Defaults are the `paper` preset's base.

Cross-field rules live in ``validate.py``; presets (functions Config -> Config) in the ``configs`` folder.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

RUN_STRIDE = 10_000_000  # layout seeds between the first prompts of two runs whose seeds are neighbours


@dataclasses.dataclass(frozen=True)
class EnvSection:
    """Which environment, and its own options.

    Attributes:
      name: a key of ``ragen_jax.envs.ENVS``.
      options: fields of that environment's config dataclass; on the command line ``env.<field>=value``.
      train_seed: layout seed of the first training prompt of a run with ``seed=0``; see ``Config.training_seeds``.
      workers: threads that step environments.
      step_timeout_s: seconds one reset, step or finish may take before its row is given up as invalid.
      max_invalid_share: share of invalid rows in a batch above which the run stops.
    """

    name: str = "frozen_lake"
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    train_seed: int = 10_000
    workers: int = 4
    step_timeout_s: float = 10.0
    max_invalid_share: float = 0.05


@dataclasses.dataclass(frozen=True)
class ModelSection:
    """Which network and where its parameters come from.

    Attributes:
      preset: a key of ``ragen_jax.models.config.PRESETS``, or "folder": the shapes of the Hugging Face folder in
        ``init``, or of the one that the run in ``init`` began from.
      init: "random"; "warm_start" (supervised start for this environment, cached by content hash); "bundled" (the
        small policy that ships with the package); or the path of a Hugging Face folder, run folder or policy folder.
      tokenizer: folder of a tokenizer; "" = that of the Hugging Face folder or of the run in ``init``, else the tiny
        one.
      chat_template: "" = the tokenizer's own; "chatml" = the format of the Qwen family without what some of its
        templates do to earlier replies (Qwen3's drops their reasoning).
      warm_start: a key of ``ragen_jax.training.warm_start.RECIPES``: the recipe that ``init="warm_start"`` follows and
        by which ``init="bundled"`` is checked; other values of ``init`` leave it unread.
      critic_preset: network of the critic, for algorithms that need one; "policy" = shapes and first parameters of the
        policy.
      compute_dtype: dtype of activations; log-probs, softmax and losses are float32 always.
      param_dtype: dtype of the parameters; with "bfloat16" the optimiser keeps a float32 master copy.
      lora_rank: train low-rank adapters of this rank and keep the policy's other parameters, 0 = train everything. The
        unchanged base is the reference of a KL term.
      lora_alpha: adapters are scaled by ``lora_alpha / lora_rank``.
      lora_targets: projections with an adapter, of query, key, value, output, gate, up, down.
    """

    preset: str = "tiny"
    init: str = "random"
    tokenizer: str = ""
    chat_template: Literal["", "chatml"] = ""
    warm_start: str = ""
    critic_preset: str = "tiny-critic"
    compute_dtype: Literal["float32", "bfloat16"] = "float32"
    param_dtype: Literal["float32", "bfloat16"] = "float32"
    lora_rank: int = 0
    lora_alpha: float = 64.0
    lora_targets: tuple[str, ...] = ("query", "key", "value", "output", "gate", "up", "down")


@dataclasses.dataclass(frozen=True)
class RolloutSection:
    """How episodes are sampled.

    Attributes:
      prompts: P, prompts per step.
      group_size: G, rollouts per prompt.
      max_new_tokens: N, sampled tokens per turn.
      max_context: tokens of a row after its first prompt (responses and later observations).
      prompt_bucket: first prompts are padded to a multiple of this.
      length_bucket: rows are padded to a multiple of this, so that one program serves many lengths.
      observation_bucket: later observations are padded to a multiple of this.
      temperature: divides the logits in sampler and scorer alike.
      format_penalty: added once per turn whose reply is not well formed.
      show_rewards: tell the policy the reward of its last turn.
      max_staleness: learner steps by which a batch may lag behind (0 = on-policy).
      queue_size: finished batches that may wait for the learner.
    """

    prompts: int = 8
    group_size: int = 16
    max_new_tokens: int = 400
    max_context: int = 3600
    prompt_bucket: int = 64
    length_bucket: int = 64
    observation_bucket: int = 16
    temperature: float = 1.0
    format_penalty: float = -0.1
    show_rewards: bool = True
    max_staleness: int = 0
    queue_size: int = 1


@dataclasses.dataclass(frozen=True)
class RewardSection:
    """What becomes of an episode's return before advantages. The bare return and the penalties stay in the record.

    Attributes:
      normalize: "identity", "mean" (minus the mean), "mean_std" or "asym_clip" (mean_std held within [-1, 3]);
        applied to return plus penalties. Filters and early stopping always read the rewards before it.
      grouping: rewards that share a mean: those of a "group" or of the whole "batch".
      overlong_buffer: tokens before the end of a turn's budget in which the length penalty grows from 0 to its full
        size (DAPO's soft overlong punishment), 0 = off.
      overlong_penalty: that full size, a positive number that is subtracted.
    """

    normalize: Literal["identity", "mean", "mean_std", "asym_clip"] = "identity"
    grouping: Literal["group", "batch"] = "group"
    overlong_buffer: int = 0
    overlong_penalty: float = 1.0


@dataclasses.dataclass(frozen=True)
class FilterSection:
    """Which prompts are kept before an update.

    Attributes:
      rule: a key of ``ragen_jax.core.filters.FILTERS``, or "none".
      value: rho for the mass rules (share of the total score kept); the rule's own number otherwise.
      score: what is ranked, a key of ``ragen_jax.core.scores.SCORES``: "reward_variance" (unbiased, n - 1),
        "reward_std", "reward_mean", "reward_sum", "reward_max", "entropy", "entropy_variance", "length" or
        "replayed_variance".
      mass: how top_p turns scores into mass: "linear" (the score itself), "softmax", or "count" (every prompt weighs
        the same, so that ``value`` is a share of the prompts).
      replays: K, fresh replays of each stored plan behind ``score="replayed_variance"``; not read otherwise.
      best_and_worst: of each kept prompt, train on so many best and as many worst rollouts only, 0 = on all.
      include_zero: let prompts whose rewards are all equal take part.
      slack: absolute slack on the mass threshold, in units of the score.
      count_penalty: rank on return plus penalties, of format and of length (true), or on the bare return (false).
      loss_scale: factor on the loss after filtering: none, linear (kept ratio), sqrt, rho.
      loss_scale_target: "loss" scales the whole actor loss, "advantages" only the advantages.
      max_attempts: batches that a step may sample, each from fresh prompts, until the filter keeps something.
      refill: sample on until P kept groups stand (dynamic sampling), gathered over at most ``max_attempts`` batches.
      when_empty: after the last attempt: "skip" the update and go on, or "stop" the run.
      max_empty_steps: consecutive skipped steps after which the run stops all the same, 0 = never.
    """

    rule: str = "none"
    value: float = 0.9
    score: str = "reward_variance"
    mass: Literal["linear", "softmax", "count"] = "linear"
    replays: int = 8
    best_and_worst: int = 0
    include_zero: bool = False
    slack: float = 0.0
    count_penalty: bool = True
    loss_scale: Literal["none", "linear", "sqrt", "rho"] = "none"
    loss_scale_target: Literal["loss", "advantages"] = "loss"
    max_attempts: int = 1
    refill: bool = False
    when_empty: Literal["skip", "stop"] = "skip"
    max_empty_steps: int = 5


@dataclasses.dataclass(frozen=True)
class AlgorithmSection:
    """Advantages and loss.

    Attributes:
      advantage: a key of ``ragen_jax.core.advantages.ADVANTAGES``.
      normalize_by_std: divide group advantages by the group's standard deviation (GRPO true, Dr.GRPO false).
      gamma: discount, per token.
      lam: GAE lambda.
      turn_gamma: discount per turn of the bi-level GAE.
      whiten: standardise token-level advantages over the trained tokens of the batch.
      whiten_over: "kept" takes mean and spread from what the filter kept, "all" from the batch before filtering.
      center_tokens: subtract from group advantages their token-weighted mean within the group, so that a group pushes
        the tokens that all its rollouts share neither up nor down.
      clip_low: lower clip of the ratio.
      clip_high: upper clip of the ratio.
      clip_dual: bound on the loss of negative advantages, 0 = off.
      aggregation: how token losses become one number.
      normalizer: "rollout" divides by the tokens (rows) of the batch before filtering, "kept" by those after.
      entropy_coef: entropy bonus per response token (nats).
      kl_coef: coefficient of the KL to the reference policy, 0 = off.
      kl_target: where that KL goes: into the "loss", or into the "reward" of each token.
      kl_estimator: estimator of that KL; "k1" as a loss has zero mean gradient and is warned about.
      value_clip: clip range of the critic's update, 0 = off.
      epochs: passes over the batch per step.
      minibatch_groups: groups per optimiser update, 0 = the whole batch.
      equal_updates: take as many optimiser updates per step as without a filter, by splitting the kept groups into
        smaller mini-batches (control for "the filter only lowers the number of updates").
    """

    advantage: str = "gae"
    normalize_by_std: bool = True
    gamma: float = 1.0
    lam: float = 1.0
    turn_gamma: float = 0.95
    whiten: bool = True
    whiten_over: Literal["kept", "all"] = "kept"
    center_tokens: bool = False
    clip_low: float = 0.2
    clip_high: float = 0.28
    clip_dual: float = 3.0
    aggregation: Literal["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"] = (
        "token-mean"
    )
    normalizer: Literal["rollout", "kept"] = "rollout"
    entropy_coef: float = 0.001
    kl_coef: float = 0.0
    kl_target: Literal["loss", "reward"] = "loss"
    kl_estimator: Literal["k1", "abs", "k2", "k3"] = "k3"
    value_clip: float = 0.5
    epochs: int = 1
    minibatch_groups: int = 0
    equal_updates: bool = False


@dataclasses.dataclass(frozen=True)
class OptimSection:
    """Adam with decoupled weight decay and global-norm clipping, for actor and critic."""

    lr: float = 1e-6
    critic_lr: float = 1e-5
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.01
    grad_clip: float = 1.0
    warmup_updates: int = 0


@dataclasses.dataclass(frozen=True)
class CollapseSection:
    """The diagnosis: when and how mutual information is measured.

    Attributes:
      every: steps between two cross-scorings of the training batch, 0 = never.
      mix: marginal from sequence sums ("sequence", the paper) or per-token means ("per_token", the released code).
      scorer: whose log-probs: "current" policy, "initial" (frozen parameters of step 0), or the path of a run folder
        or policy folder (frozen).
      columns: contexts under which a reasoning is scored, its own among them; 0 = all of them, which is exact. A
        smaller number draws the others at random and reports the standard error of that draw.
      rollouts: rollouts of each prompt whose first-turn reasoning is scored; 0 = all of them. A smaller number draws
        them anew each time; the intervals are then those of that many rollouts.
      trajectory: also score contexts drawn from all turns, trajectory first and then turn.
      turn_uniform: also score contexts drawn uniformly from all (episode, turn) pairs.
      trajectory_samples: (episode, turn) draws of those variants, each its own column.
      ema_decay: decay of the marginal's standard deviation behind the z-score.
      std_eps: added to that standard deviation (nats).
      reasonings_per_chunk: reasonings whose tokens may be alive at once, bounds memory.
    """

    every: int = 1
    mix: Literal["sequence", "per_token"] = "sequence"
    scorer: str = "current"
    columns: int = 0
    rollouts: int = 0
    trajectory: bool = False
    turn_uniform: bool = False
    trajectory_samples: int = 64
    ema_decay: float = 0.9
    std_eps: float = 1e-3
    reasonings_per_chunk: int = 64


@dataclasses.dataclass(frozen=True)
class ValidationSection:
    """Fixed, deduplicated validation prompts.

    Attributes:
      every: steps between validations, 0 = only at start and end.
      prompts: distinct validation prompts.
      samples: rollouts per validation prompt.
      seed: layout seed at which the search for distinct prompts begins.
      temperature: of the validation rollouts.
      top_p: nucleus truncation of the validation rollouts, 1 = off. Training never truncates: the log-probs that it
        trains are those of the whole distribution.
      top_k: truncation of the validation rollouts to the k likeliest tokens, 0 = off.
      collapse_samples: rollouts per prompt that the validation MI scores (0 = no validation MI).
      at_start: validate before the first step.
    """

    every: int = 10
    prompts: int = 512
    samples: int = 1
    seed: int = 123
    temperature: float = 0.5
    top_p: float = 1.0
    top_k: int = 0
    collapse_samples: int = 0
    at_start: bool = True


@dataclasses.dataclass(frozen=True)
class EarlyStopSection:
    """Two rules that end a run.

    Attributes:
      window: consecutive steps below the threshold, 0 = rule off.
      baseline_steps: first steps whose mean is the baseline.
      fraction: threshold as a share of the baseline.
      statistic: "variance" or "std" of the rewards within a group.
      low_success: validation success below this ...
      low_success_validations: ... in so many consecutive validations stops the run, 0 = rule off.
    """

    window: int = 5
    baseline_steps: int = 10
    fraction: float = 0.1
    statistic: Literal["variance", "std"] = "variance"
    low_success: float = 0.01
    low_success_validations: int = 5


@dataclasses.dataclass(frozen=True)
class AlarmSection:
    """Warnings about a run that goes wrong; each is logged with its step.

    Attributes:
      repeated_share: alarm when at least this share of the responses of a batch is one symbol over and over, 0 = off.
      change_points: watch MI, reward variance, validity, length and gradient ratio for changes of their level.
      stop: end the run at an alarm about repetition; the last checkpoint before it is kept.
    """

    repeated_share: float = 0.5
    change_points: bool = True
    stop: bool = False


@dataclasses.dataclass(frozen=True)
class ProbeSection:
    """Gradient accounting: which term pulls how hard, by reward variance. It never changes the training.

    Attributes:
      every: steps between two probes, 0 = never.
      buckets: equal-count buckets of prompts by reward variance; not read when ``edges`` are given.
      edges: inner edges of the buckets in units of variance, ascending; () = equal counts.
      mi_columns: prompts of the batch, drawn anew each time, for the gradient of the MI; 0 = no such gradient.
    """

    every: int = 0
    buckets: int = 4
    edges: tuple[float, ...] = ()
    mi_columns: int = 0


@dataclasses.dataclass(frozen=True)
class CheckpointSection:
    """What is saved and how much of it is kept.

    Attributes:
      every: steps between checkpoints, 0 = only at the end.
      keep: newest checkpoints kept.
      rollouts_every: steps between samples written to ``rollouts.jsonl``.
      rollouts_per_sample: rows per sample.
      rollouts_budget_mb: largest size of ``rollouts.jsonl``; its oldest rows are dropped.
    """

    every: int = 50
    keep: int = 2
    rollouts_every: int = 10
    rollouts_per_sample: int = 2
    rollouts_budget_mb: float = 16.0


@dataclasses.dataclass(frozen=True)
class MeshSection:
    """Devices: data x fsdp x tensor. ``data=0`` takes what the other two leave."""

    data: int = 0
    fsdp: int = 1
    tensor: int = 1


@dataclasses.dataclass(frozen=True)
class Config:
    """A whole run.

    Attributes:
      steps: training iterations (rollout and update).
      seed: of everything random.
      folder: run folder; "" makes a name under ``runs/``.
      resume: run folder to continue; "" starts anew.
      micro_groups: groups per gradient call; bounds memory. 0 = as many as the memory of the devices allows, where they
        say what they have; else the fewest that give every device whole groups, or all of the optimiser's batch where
        there are too few. With fewer groups than devices these share the rows of a group.
      preset: names of the presets that made this config, for the record.
    """

    steps: int = 400
    seed: int = 0
    folder: str = ""
    resume: str = ""
    micro_groups: int = 0
    preset: tuple[str, ...] = ()
    env: EnvSection = dataclasses.field(default_factory=EnvSection)
    model: ModelSection = dataclasses.field(default_factory=ModelSection)
    rollout: RolloutSection = dataclasses.field(default_factory=RolloutSection)
    reward: RewardSection = dataclasses.field(default_factory=RewardSection)
    filter: FilterSection = dataclasses.field(default_factory=FilterSection)
    algorithm: AlgorithmSection = dataclasses.field(default_factory=AlgorithmSection)
    optim: OptimSection = dataclasses.field(default_factory=OptimSection)
    collapse: CollapseSection = dataclasses.field(default_factory=CollapseSection)
    validation: ValidationSection = dataclasses.field(default_factory=ValidationSection)
    early_stop: EarlyStopSection = dataclasses.field(default_factory=EarlyStopSection)
    alarm: AlarmSection = dataclasses.field(default_factory=AlarmSection)
    probe: ProbeSection = dataclasses.field(default_factory=ProbeSection)
    checkpoint: CheckpointSection = dataclasses.field(default_factory=CheckpointSection)
    mesh: MeshSection = dataclasses.field(default_factory=MeshSection)

    def generation(self, step: int, attempt: int = 0) -> int:
        """Number of a training batch within the run: attempt ``attempt`` of a step, both counted from 0."""
        return step * self.filter.max_attempts + attempt

    def training_seeds(self, step: int, attempt: int = 0) -> range:
        """Layout seeds of the P prompts of a training batch; runs with another ``seed`` meet other prompts."""
        batch = self.generation(step, attempt)
        first = self.env.train_seed + self.seed * RUN_STRIDE + batch * self.rollout.prompts
        return range(first, first + self.rollout.prompts)
