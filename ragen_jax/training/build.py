"""From a configuration to objects; the only place that reads a whole configuration."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from ragen_jax.config.schema import Config
from ragen_jax.config.serial import from_json
from ragen_jax.config.validate import VALIDATION_WALK, check_mesh, validate
from ragen_jax.core.advantages import NEEDS_CRITIC
from ragen_jax.envs import env_config, make_env
from ragen_jax.envs.instances import DistinctSeeds, distinct_seeds
from ragen_jax.envs.pool import EnvPool
from ragen_jax.learner.checkpoint import Checkpointer
from ragen_jax.learner.optimizer import adam
from ragen_jax.learner.prepare import PrepareConfig
from ragen_jax.learner.score import ScoreConfig
from ragen_jax.learner.state import abstract_state, build_state
from ragen_jax.learner.update import UpdateConfig, build_update
from ragen_jax.models.config import ModelConfig, model_config
from ragen_jax.models.sharding import make_mesh, shardings
from ragen_jax.models.transformer import init_params
from ragen_jax.models.value_head import init_critic
from ragen_jax.rollout.actor import collect
from ragen_jax.rollout.episodes import Rollout
from ragen_jax.rollout.policy import Policy
from ragen_jax.rollout.prompting import ChatFormat
from ragen_jax.rollout.tokenizer import Tokenizer
from ragen_jax.sampling.sampler import Sampler, SamplerConfig
from ragen_jax.training.run_folder import RunFolder
from ragen_jax.training.shaping import add_overlong
from ragen_jax.training.warm_start import load_policy, policy_key, recipe, warm_start
from ragen_jax.types import Params, TrainState

logger = logging.getLogger(__name__)

BUNDLED_POLICY = Path(__file__).parent.parent / "assets" / "tiny_policy"
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
      pool: training environments.
      validation_pool: validation environments, as many groups as one chunk of the validation set.
      validation_seeds: distinct validation prompts.
      state: state of step 0.
      reference: frozen copy of the first parameters, or None without a KL term.
      scorer: frozen parameters that cross-score reasonings (``collapse.scorer``), or None for the current policy.
      update: the compiled update.
    """

    config: Config
    mesh: Mesh
    chat: ChatFormat
    model: ModelConfig
    critic: ModelConfig | None
    scoring: ScoreConfig
    prepare: PrepareConfig
    pool: EnvPool
    validation_pool: EnvPool
    validation_seeds: DistinctSeeds
    state: TrainState
    reference: Params | None
    scorer: Params | None
    update: Callable[..., tuple[TrainState, dict[str, jax.Array]]]

    def sampler(self, params: Params, *, version: int, temperature: float | None = None) -> Sampler:
        """A policy that samples from some parameters, at the rollout temperature unless another is given."""
        rollout = self.config.rollout
        settings = SamplerConfig(
            vocab_size=self.chat.tokenizer.vocab_size,
            stop_ids=self.chat.tokenizer.stop_ids,
            max_new_tokens=rollout.max_new_tokens,
            temperature=rollout.temperature if temperature is None else temperature,
            top_p=rollout.top_p,
            top_k=rollout.top_k,
            dtype=self.config.model.compute_dtype,
            observation_room=rollout.observation_bucket,
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
    check_mesh(config, jax.device_count())
    mesh = make_mesh(data=config.mesh.data, fsdp=config.mesh.fsdp, tensor=config.mesh.tensor)
    chat = ChatFormat(Tokenizer.tiny())
    model = model_config(config.model.preset)
    if chat.tokenizer.vocab_size > model.vocab_rows:
        raise ValueError(
            f"tokenizer {chat.tokenizer.name!r} uses {chat.tokenizer.vocab_size} ids, model {model.name!r} has "
            f"{model.vocab_rows} rows: choose a larger model.preset"
        )
    critic = _critic(config)
    scoring = ScoreConfig(
        vocab_size=chat.tokenizer.vocab_size,
        temperature=config.rollout.temperature,
        dtype=config.model.compute_dtype,
    )
    params = _initial_params(config, model, chat, say)
    critic_params = None if critic is None else init_critic(critic, jax.random.key(config.seed + 1))
    actor_optimizer, critic_optimizer = _optimizers(config, critic)
    params = jax.device_put(params, shardings(params, mesh))
    state = build_state(params, critic_params, actor_optimizer, critic_optimizer, mesh=mesh)
    initial = jax.tree.map(jnp.copy, state.params) if needs_initial(config) else None
    update_settings = UpdateConfig(
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
        pool=pool,
        validation_pool=_pool(
            config, split="validation", groups=_validation_chunk(config, mesh), group_size=config.validation.samples
        ),
        validation_seeds=distinct_seeds(
            lambda: make_env(config.env.name, **validation_config),
            first_seed=config.validation.seed,
            count=config.validation.prompts,
            walk=VALIDATION_WALK,
        ),
        state=state,
        reference=initial if config.algorithm.kl_coef else None,
        scorer=_scorer(config, model, initial, mesh),
        update=build_update(update_settings, actor_optimizer, critic_optimizer, state, mesh=mesh),
    )


def initial_policy(config: Config, *, say: Callable[[str], None] = logger.info) -> Params:
    """The policy that a run of this configuration begins with; a warm start is trained now and cached."""
    validate(config)
    chat = ChatFormat(Tokenizer.tiny())
    return _initial_params(config, model_config(config.model.preset), chat, say)


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


def _validation_chunk(config: Config, mesh: Mesh) -> int:
    """Prompts validated at once: they divide all prompts and the devices, with no more rows than a training step."""
    rows, prompts = config.rollout.prompts * config.rollout.group_size, config.validation.prompts
    shards = mesh.shape["data"] * mesh.shape["fsdp"]
    largest = min(max(rows // config.validation.samples, shards), prompts)
    chunks = [n for n in range(shards, largest + 1, shards) if prompts % n == 0]
    if not chunks:
        raise ValueError(
            f"validation.prompts={prompts} does not divide over mesh data x fsdp = {shards}; use a multiple of {shards}"
        )
    return chunks[-1]


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
    return adam(lr=optim.lr, **shared), None if critic is None else adam(lr=optim.critic_lr, **shared)


def _prepare_config(config: Config, *, max_turns: int) -> PrepareConfig:
    return PrepareConfig(
        group_size=config.rollout.group_size,
        algorithm=config.algorithm,
        reward=config.reward,
        constant_length=float(config.rollout.max_new_tokens * max_turns),
        scale_advantages=config.filter.loss_scale_target == "advantages",
    )


def _initial_params(config: Config, model: ModelConfig, chat: ChatFormat, say: Callable[[str], None]) -> Params:
    init = config.model.init
    if init == "random":
        return init_params(model, jax.random.key(config.seed))
    if init == "bundled":
        return _bundled(config, model, chat)
    if init == "warm_start":
        return warm_start(
            config.env.name,
            dict(config.env.options),
            model,
            chat,
            recipe(config.model.warm_start),
            show_rewards=config.rollout.show_rewards,
            say=say,
        )
    return _params_at(Path(init), model)


def _params_at(path: Path, model: ModelConfig) -> Params:
    """Parameters of a policy folder or of the newest checkpoint of a run folder."""
    if (path / "policy.safetensors").exists():
        return load_policy(path, model)
    return run_params(RunFolder.open(path), model)


def needs_initial(config: Config) -> bool:
    """Whether a run keeps its first parameters: as the reference of a KL term, or to score reasonings."""
    return bool(config.algorithm.kl_coef) or config.collapse.scorer == "initial"


def _scorer(config: Config, model: ModelConfig, initial: Params | None, mesh: Mesh) -> Params | None:
    name = config.collapse.scorer
    if name == "current":
        return None
    if name == "initial":
        return initial
    params = _params_at(Path(name), model)
    return jax.device_put(params, shardings(params, mesh))


def _bundled(config: Config, model: ModelConfig, chat: ChatFormat) -> Params:
    facts = json.loads((BUNDLED_POLICY / "policy.json").read_text(encoding="utf-8"))
    options = {**config.env.options, **facts.get("free_options", {})}
    same = dataclasses.replace(config, env=dataclasses.replace(config.env, options=options))
    key = _warm_start_key(same, model, chat, seed=facts["seed"])
    if key != facts["key"]:
        raise ValueError(
            f"the bundled policy was made for configuration {facts['key']}, this run has {key} (environment, options, "
            "network, tokenizer and recipe count); use model.init=warm_start to train one for this run"
        )
    return load_policy(BUNDLED_POLICY, model)


def warm_start_key(config: Config) -> str:
    """Content hash of the warm start that a configuration names."""
    return _warm_start_key(config, model_config(config.model.preset), ChatFormat(Tokenizer.tiny()), seed=0)


def _warm_start_key(config: Config, model: ModelConfig, chat: ChatFormat, *, seed: int) -> str:
    return policy_key(
        config.env.name,
        dict(config.env.options),
        model,
        chat,
        recipe(config.model.warm_start),
        show_rewards=config.rollout.show_rewards,
        seed=seed,
    )


def run_params(run: RunFolder, model: ModelConfig, step: int | None = None) -> Params:
    """Policy parameters of a run's saved step (the newest complete one by default).

    Raises:
      ValueError: no such checkpoint, or the run trained another network.
    """
    config = from_json(run.config_json())
    if model_config(config.model.preset) != model:
        raise ValueError(f"{run.path} trained model {config.model.preset!r}, this run wants {model.name!r}")
    mesh = make_mesh(data=1)
    critic = _critic(config)
    critic_params = None if critic is None else init_critic(critic, jax.random.key(0))
    state = build_state(init_params(model, jax.random.key(0)), critic_params, *_optimizers(config, critic), mesh=mesh)
    with Checkpointer(run.checkpoints, keep=config.checkpoint.keep) as checkpointer:
        chosen = checkpointer.latest() if step is None else step
        if chosen is None:
            raise ValueError(f"{run.path} has no complete checkpoint")
        return checkpointer.restore(chosen, abstract_state(state, mesh))[0].params


def _critic(config: Config) -> ModelConfig | None:
    return model_config(config.model.critic_preset) if config.algorithm.advantage in NEEDS_CRITIC else None
