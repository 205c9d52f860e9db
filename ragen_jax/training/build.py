"""From a configuration to the objects of a run."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from ragen_jax.config.schema import Config
from ragen_jax.config.validate import VALIDATION_WALK, check_mesh, validate
from ragen_jax.envs import env_config, make_env
from ragen_jax.envs.instances import DistinctSeeds, distinct_seeds
from ragen_jax.envs.pool import EnvPool
from ragen_jax.learner.checkpoint import Checkpointer
from ragen_jax.learner.optimizer import adam, with_master
from ragen_jax.learner.prepare import PrepareConfig
from ragen_jax.learner.score import ScoreConfig
from ragen_jax.learner.state import abstract_state, build_state, describe_state
from ragen_jax.learner.update import UpdateConfig, build_update
from ragen_jax.models.config import ModelConfig
from ragen_jax.models.lora import without_adapters
from ragen_jax.models.sharding import make_mesh, placement, row_shards, shardings
from ragen_jax.models.transformer import init_params
from ragen_jax.models.value_head import init_critic
from ragen_jax.rollout.actor import collect
from ragen_jax.rollout.episodes import Rollout
from ragen_jax.rollout.policy import Policy
from ragen_jax.rollout.prompting import ChatFormat
from ragen_jax.sampling.sampler import Sampler, SamplerConfig
from ragen_jax.training.batch_parts import default_micro_groups, micro_group_choices, validation_chunk
from ragen_jax.training.lengths import Lengths, measured_lengths
from ragen_jax.training.memory_plan import MemoryPlan, check_memory, device_memory, memory_plan
from ragen_jax.training.origin import continued
from ragen_jax.training.policies import (
    chat_format,
    check_fit,
    critic_network,
    first_params,
    has_reference,
    in_dtype,
    merged,
    network,
    same_shapes,
    with_new_adapters,
)
from ragen_jax.training.run_folder import RunFolder
from ragen_jax.training.shaping import add_overlong
from ragen_jax.types import Params, TrainState

logger = logging.getLogger(__name__)

TRAIN, VALIDATION = 0, 1  # first number of a sampling seed: the two never draw alike


@dataclasses.dataclass(frozen=True)
class Components:
    """The parts of a run.

    Attributes:
      config: the configuration they were built from.
      mesh: devices.
      chat: chat format and tokenizer.
      model: policy network.
      critic: critic network, or None.
      scoring: settings that sampler, scorer and update share.
      prepare: settings of advantages and masks.
      observation_room: tokens that a sampler sets aside for each observation.
      pool: training environments.
      validation_pool: validation environments, as many groups as one chunk of the validation set.
      validation_seeds: distinct validation prompts.
      state: state of step 0.
      reference: frozen copy of the first parameters, or None without a KL term and a gradient probe, and with adapters,
        whose base is the reference.
      scorer: frozen parameters that cross-score reasonings (``collapse.scorer``), or None for the current policy.
      updating: settings of the update.
      update: the compiled update.
    """

    config: Config
    mesh: Mesh
    chat: ChatFormat
    model: ModelConfig
    critic: ModelConfig | None
    scoring: ScoreConfig
    prepare: PrepareConfig
    observation_room: int
    pool: EnvPool
    validation_pool: EnvPool
    validation_seeds: DistinctSeeds
    state: TrainState
    reference: Params | None
    scorer: Params | None
    updating: UpdateConfig
    update: Callable[..., tuple[TrainState, dict[str, jax.Array]]]

    @property
    def scoring_groups(self) -> int:
        """Groups that are scored at once without gradients: ``micro_groups``, or more until all devices have some."""
        return math.lcm(self.config.micro_groups, row_shards(self.mesh))

    def reference_params(self, state: TrainState) -> Params | None:
        """Parameters of the reference policy of a KL term: a frozen copy, or the base below the adapters."""
        return without_adapters(state.params) if "adapters" in state.params else self.reference

    def sampler(self, params: Params, *, version: int, validation: bool = False) -> Sampler:
        """A policy that samples from some parameters, as training does or as validation does."""
        rollout, section = self.config.rollout, self.config.validation
        drawn: dict[str, Any] = {"temperature": rollout.temperature}
        if validation:
            drawn = {"temperature": section.temperature, "top_p": section.top_p, "top_k": section.top_k}
        settings = SamplerConfig(
            vocab_size=self.chat.tokenizer.vocab_size,
            stop_ids=self.chat.tokenizer.stop_ids,
            max_new_tokens=rollout.max_new_tokens,
            dtype=self.config.model.compute_dtype,
            observation_room=self.observation_room,
            **drawn,
        )
        return Sampler(params=params, config=self.model, settings=settings, mesh=self.mesh, version=version)

    def collect(self, policy: Policy, pool: EnvPool, seeds: list[int], *, seed: tuple[int, ...]) -> Rollout:
        """Play one episode in every environment of a pool, under the settings of the run."""
        rollout = self.config.rollout
        return collect(
            policy,
            pool,
            self.chat,
            seeds=seeds,
            max_turns=pool.config.max_turns,
            max_new_tokens=rollout.max_new_tokens,
            max_context=rollout.max_context,
            prompt_bucket=rollout.prompt_bucket,
            length_bucket=rollout.length_bucket,
            observation_bucket=rollout.observation_bucket,
            format_penalty=rollout.format_penalty,
            show_rewards=rollout.show_rewards,
            seed=seed,
        )

    def training_rollout(self, policy: Policy, step: int, attempt: int = 0) -> Rollout:
        """One batch of a step: its prompts and its samples depend on (config, step, attempt, parameters) only."""
        config = self.config
        seed = (config.seed, TRAIN, config.generation(step, attempt))
        rollout = self.collect(policy, self.pool, list(config.training_seeds(step, attempt)), seed=seed)
        if not config.reward.overlong_buffer:
            return rollout
        return add_overlong(rollout, config, max_turns=self.pool.config.max_turns)

    def close(self) -> None:
        """Stop the environments' threads."""
        self.pool.close()
        self.validation_pool.close()


def build(config: Config, *, say: Callable[[str], None] = logger.info) -> Components:
    """Check a configuration and make everything it names.

    Args:
      config: the configuration.
      say: is told in words about what takes time (a warm start).

    Raises:
      ValueError: the configuration contradicts itself, or a policy does not fit it.
      KeyError: an unknown name.
    """
    validate(config)
    data = check_mesh(config, jax.device_count())
    mesh = make_mesh(data=data, fsdp=config.mesh.fsdp, tensor=config.mesh.tensor)
    chat = chat_format(config)
    model = network(config)
    check_fit(config, chat, model)
    critic = critic_network(config, model)
    lengths = measured_lengths(config, chat)
    config = _fitted(config, lengths, model, critic, mesh)
    scoring = ScoreConfig(
        vocab_size=chat.tokenizer.vocab_size,
        temperature=config.rollout.temperature,
        dtype=config.model.compute_dtype,
    )
    params = _first_params(config, model, chat, mesh, say)
    critic_params = None
    if critic is not None:
        start = without_adapters(params) if config.model.critic_preset == "policy" else None
        critic_params = in_dtype(init_critic(critic, jax.random.key(config.seed + 1), decoder=start), config)
    actor_optimizer, critic_optimizer = _optimizers(config, critic)
    state = build_state(params, critic_params, actor_optimizer, critic_optimizer, mesh=mesh)
    frozen = has_reference(config) or config.collapse.scorer == "initial"
    initial = jax.tree.map(jnp.copy, state.params) if frozen else None
    updating = UpdateConfig(
        model=model, critic=critic, scoring=scoring, algorithm=config.algorithm, micro_groups=config.micro_groups
    )
    pool = _pool(config, split="train", groups=config.rollout.prompts, group_size=config.rollout.group_size)
    validation_config = dict(config.env.options) | {"split": "validation"}
    return Components(
        config=config,
        mesh=mesh,
        chat=chat,
        model=model,
        critic=critic,
        scoring=scoring,
        prepare=_prepare_config(config, max_turns=pool.config.max_turns),
        observation_room=lengths.observation_tokens,
        pool=pool,
        validation_pool=_pool(
            config,
            split="validation",
            groups=validation_chunk(config, shards=row_shards(mesh)),
            group_size=config.validation.samples,
        ),
        validation_seeds=distinct_seeds(
            lambda: make_env(config.env.name, **validation_config),
            first_seed=config.validation.seed,
            count=config.validation.prompts,
            walk=VALIDATION_WALK,
        ),
        state=state,
        reference=initial if has_reference(config) else None,
        scorer=_scorer(config, model, initial, mesh),
        updating=updating,
        update=build_update(updating, actor_optimizer, critic_optimizer, state, mesh=mesh),
    )


def _fitted(config: Config, lengths: Lengths, model: ModelConfig, critic: ModelConfig | None, mesh: Mesh) -> Config:
    """The configuration with ``micro_groups`` settled; a run that the devices cannot hold is refused.

    Raises:
      ValueError: the memory does not suffice.
    """
    shards, limit = row_shards(mesh), device_memory(mesh)
    if not limit:
        return dataclasses.replace(config, micro_groups=default_micro_groups(config, shards=shards))
    sizes = micro_group_choices(config, shards=shards)
    choices = [dataclasses.replace(config, micro_groups=size) for size in sizes]

    def plan(choice: Config) -> MemoryPlan:
        return memory_plan(
            choice,
            model,
            critic,
            prompt_tokens=lengths.prompt_tokens,
            observation_tokens=lengths.observation_tokens,
            max_turns=env_config(config.env.name, **config.env.options).max_turns,
            mesh=mesh,
        )

    plans = [plan(choice) for choice in choices]
    fits = [choice for choice, needs in zip(choices, plans, strict=True) if needs.peak <= limit]
    if not fits:
        check_memory(min(plans, key=lambda needs: needs.peak), limit)
    return fits[0]


def initial_policy(config: Config, *, say: Callable[[str], None] = logger.info) -> Params:
    """The policy that a run of this configuration begins with; a warm start is trained now and cached."""
    validate(config)
    mesh = make_mesh(data=1)
    return _first_params(config, network(config), chat_format(config), mesh, say)


def _pool(config: Config, *, split: str, groups: int, group_size: int) -> EnvPool:
    options = dict(config.env.options) | {"split": split}
    return EnvPool(
        config.env.name,
        env_config(config.env.name, **options),
        groups=groups,
        group_size=group_size,
        workers=config.env.workers,
        step_timeout_s=config.env.step_timeout_s,
    )


def _optimizers(
    config: Config, critic: ModelConfig | None
) -> tuple[optax.GradientTransformation, optax.GradientTransformation | None]:
    optim = config.optim
    shared: dict[str, Any] = {
        "beta1": optim.beta1,
        "beta2": optim.beta2,
        "eps": optim.eps,
        "weight_decay": optim.weight_decay,
        "grad_clip": optim.grad_clip,
        "warmup_updates": optim.warmup_updates,
    }
    actor, value = adam(lr=optim.lr, **shared), adam(lr=optim.critic_lr, **shared)
    if config.model.param_dtype != "float32":
        actor, value = with_master(actor), with_master(value)
    return actor, None if critic is None else value


def _prepare_config(config: Config, *, max_turns: int) -> PrepareConfig:
    return PrepareConfig(
        group_size=config.rollout.group_size,
        algorithm=config.algorithm,
        reward=config.reward,
        constant_length=float(config.rollout.max_new_tokens * max_turns),
        scale_advantages=config.filter.loss_scale_target == "advantages",
    )


def run_params(run: RunFolder, model: ModelConfig, step: int | None = None) -> Params:
    """Policy parameters of a run's saved step (the newest complete one by default), adapters apart if it has some.

    Raises:
      ValueError: no such checkpoint, the run trained another network, or see ``origin.continued``.
    """
    config = continued(run.config(), run)
    if network(config) != model:
        raise ValueError(f"{run.path} trained model {config.model.preset!r}, this run wants {model.name!r}")
    mesh = make_mesh(data=1)
    critic = critic_network(config, model)

    def shapes() -> tuple[Params, Params | None]:
        key = jax.random.key(0)
        critic_params = None if critic is None else in_dtype(init_critic(critic, key), config)
        return with_new_adapters(in_dtype(init_params(model, key), config), config), critic_params

    params, critic_params = jax.eval_shape(shapes)
    actor_optimizer, critic_optimizer = _optimizers(config, critic)
    state = describe_state(params, critic_params, actor_optimizer, critic_optimizer)
    with Checkpointer(run.checkpoints, keep=config.checkpoint.keep) as checkpointer:
        chosen = checkpointer.latest() if step is None else step
        if chosen is None:
            raise ValueError(f"{run.path} has no complete checkpoint")
        return checkpointer.restore(chosen, abstract_state(state, mesh))[0].params


def _first_params(
    config: Config, model: ModelConfig, chat: ChatFormat, mesh: Mesh, say: Callable[[str], None]
) -> Params:
    """The policy's first parameters, on the devices of a mesh."""

    def newest(path: Path, wanted: ModelConfig) -> Params:
        run = RunFolder.open(path)
        trained = network(continued(run.config(), run))
        if not same_shapes(trained, wanted):
            raise ValueError(f"{path} trained model {trained.name!r}, this run wants {wanted.name!r}")
        return merged(run_params(run, trained), trained, dtype=config.model.param_dtype, source=str(path))

    params = first_params(config, model, chat, say=say, run_params=newest, place=placement(mesh))
    return jax.device_put(params, shardings(params, mesh))


def needs_initial(config: Config) -> bool:
    """True when a run needs what ``model.init`` names also after a resume.

    That is so for a KL reference (the gradient probe has one too; with adapters it is the base, which the checkpoint
    holds), and for a scorer that is frozen at the first parameters. See also ``origin.continued``.
    """
    return has_reference(config) or config.collapse.scorer == "initial"


def _scorer(config: Config, model: ModelConfig, initial: Params | None, mesh: Mesh) -> Params | None:
    """Frozen parameters that score reasonings; None for the current policy."""
    name = config.collapse.scorer
    if name == "current":
        return None
    if name == "initial":
        return initial
    named = dataclasses.replace(config, model=dataclasses.replace(config.model, init=name))
    if not same_shapes(network(named), model):
        raise ValueError(f"collapse.scorer={name} holds another network than the policy, {model.name!r}")
    return _first_params(named, model, chat_format(config), mesh, logger.info)
