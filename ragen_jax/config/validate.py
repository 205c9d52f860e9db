"""Rules across fields, checked before any device is touched.

``validate`` collects what is wrong and raises one ValueError; every sentence names the fields, their values and the
fix. What depends on the machine is in ``check_mesh``.
"""

from __future__ import annotations

import itertools
import logging
import math
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from ragen_jax.config.algorithm_rules import ALGORITHM_RULES, warn
from ragen_jax.config.filter_rules import filter_problems
from ragen_jax.config.schema import Config
from ragen_jax.config.serial import flatten
from ragen_jax.config.without_effect import without_effect
from ragen_jax.registry import unknown_name

logger = logging.getLogger(__name__)

# The search for distinct validation prompts visits at most this many seeds per prompt.
VALIDATION_WALK = 16

_AT_LEAST = {
    "steps": 1,
    "seed": 0,
    "micro_groups": 0,
    "checkpoint.rollouts_budget_mb": 0.001,
    "env.train_seed": 0,
    "env.workers": 1,
    "rollout.prompts": 1,
    "rollout.group_size": 1,
    "rollout.max_new_tokens": 1,
    "rollout.prompt_bucket": 1,
    "rollout.length_bucket": 1,
    "rollout.observation_bucket": 1,
    "rollout.max_staleness": 0,
    "rollout.queue_size": 1,
    "filter.slack": 0,
    "filter.replays": 1,
    "filter.best_and_worst": 0,
    "filter.max_attempts": 1,
    "filter.max_empty_steps": 0,
    "reward.overlong_buffer": 0,
    "algorithm.clip_high": 0,
    "algorithm.entropy_coef": 0,
    "algorithm.kl_coef": 0,
    "algorithm.value_clip": 0,
    "algorithm.epochs": 1,
    "algorithm.minibatch_groups": 0,
    "optim.weight_decay": 0,
    "optim.warmup_updates": 0,
    "collapse.every": 0,
    "collapse.columns": 0,
    "collapse.rollouts": 0,
    "collapse.trajectory_samples": 2,
    "collapse.std_eps": 0,
    "collapse.reasonings_per_chunk": 1,
    "validation.every": 0,
    "validation.prompts": 1,
    "validation.samples": 1,
    "validation.seed": 0,
    "validation.top_k": 0,
    "validation.collapse_samples": 0,
    "early_stop.window": 0,
    "early_stop.baseline_steps": 1,
    "early_stop.low_success_validations": 0,
    "probe.every": 0,
    "probe.buckets": 1,
    "probe.mi_columns": 0,
    "checkpoint.every": 0,
    "checkpoint.keep": 1,
    "checkpoint.rollouts_every": 1,
    "checkpoint.rollouts_per_sample": 0,
    "mesh.data": 0,
    "mesh.fsdp": 1,
    "mesh.tensor": 1,
}
# Random keys are made of a signed 32-bit number; a larger one would silently lose its upper bits.
_LARGEST_SEED = 2**31 - 1
_LARGEST_FLOAT = 3.4028234663852886e38  # of float32
_ABOVE_ZERO = (
    "env.step_timeout_s",
    "optim.lr",
    "optim.critic_lr",
    "optim.eps",
    "optim.grad_clip",
)
_SHARES = (
    "alarm.repeated_share",
    "env.max_invalid_share",
    "early_stop.fraction",
    "early_stop.low_success",
    "algorithm.gamma",
    "algorithm.lam",
)
INIT_WORDS = ("random", "warm_start", "bundled")  # values of model.init that are no folder
_BELOW_ONE = ("optim.beta1", "optim.beta2", "collapse.ema_decay", "algorithm.clip_low")


def validate(config: Config) -> None:
    """Refuse a configuration that cannot work or would not do what it says.

    Raises:
      ValueError: one line per problem.
    """
    problems = [problem for rule in _RULES for problem in rule(config)]
    if problems:
        raise ValueError("\n".join(problems))
    warn(config)


def check_mesh(config: Config, device_count: int) -> int:
    """Refuse a mesh that the devices cannot form or over which the batch does not divide.

    Returns:
      Size of the data axis, also where ``mesh.data=0`` leaves it to the devices.

    Raises:
      ValueError: names the sizes and the fix.
    """
    mesh = config.mesh
    inner = mesh.fsdp * mesh.tensor
    if mesh.data == 0 and device_count % inner:
        raise ValueError(
            f"mesh.fsdp={mesh.fsdp} times mesh.tensor={mesh.tensor} does not divide {device_count} devices; "
            "lower one of them or set mesh.data to use a part of the devices"
        )
    data = mesh.data or device_count // inner
    if data * inner > device_count:
        raise ValueError(
            f"mesh.data={data} x mesh.fsdp={mesh.fsdp} x mesh.tensor={mesh.tensor} needs {data * inner} devices, "
            f"there are {device_count}; lower one of them (mesh.data=0 takes what is there)"
        )
    if data * inner < device_count:
        logger.warning("the mesh uses %d of %d devices; mesh.data=0 takes them all", data * inner, device_count)
    rows = data * mesh.fsdp
    if config.rollout.prompts % rows:
        raise ValueError(
            f"rollout.prompts={config.rollout.prompts} does not divide over mesh.data={data} x mesh.fsdp={mesh.fsdp}; "
            f"use rollout.prompts={rows * math.ceil(config.rollout.prompts / rows)}, mesh.tensor or a smaller mesh"
        )
    smallest = config.micro_groups or config.algorithm.minibatch_groups or config.rollout.prompts
    if smallest * config.rollout.group_size % rows:
        name = "micro_groups" if config.micro_groups else "algorithm.minibatch_groups"
        raise ValueError(
            f"{name}={smallest} groups of rollout.group_size={config.rollout.group_size} rows do not divide over "
            f"mesh.data={data} x mesh.fsdp={mesh.fsdp}; use a multiple of "
            f"{rows // math.gcd(rows, config.rollout.group_size)} for {name}, or a smaller mesh"
        )
    return data


def _numbers(config: Config) -> Iterator[str]:
    values = flatten(config)
    for key, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            yield f"{key}={value} is not finite; use an ordinary number"
        elif isinstance(value, float) and abs(value) > _LARGEST_FLOAT:
            yield f"{key}={value} is not finite as the float32 that is computed with; use an ordinary number"
    for key, low in _AT_LEAST.items():
        if values[key] < low:
            yield f"{key}={values[key]} is too small; use {low} or more"
    if config.seed > _LARGEST_SEED:
        yield f"seed={config.seed} is too large; use {_LARGEST_SEED} or less"
    for key in _ABOVE_ZERO:
        if values[key] <= 0:
            yield f"{key}={values[key]} must be above 0"
    for key in _SHARES:
        if not 0 <= values[key] <= 1:
            yield f"{key}={values[key]} must lie between 0 and 1"
    for key in _BELOW_ONE:
        if not 0 <= values[key] < 1:
            yield f"{key}={values[key]} must be 0 or more and below 1"


def _temperatures(config: Config) -> Iterator[str]:
    from ragen_jax.sampling.sampler import LEAST_TEMPERATURE

    for key, value in (
        ("rollout.temperature", config.rollout.temperature),
        ("validation.temperature", config.validation.temperature),
    ):
        if value < LEAST_TEMPERATURE:
            yield (
                f"{key}={value} is too small: logits divided by it leave no precise log-probs; use "
                f"{LEAST_TEMPERATURE} or more"
            )


def _environment(config: Config) -> Iterator[str]:
    from ragen_jax.envs import ENVS, env_config

    env = config.env
    if env.name not in ENVS:
        yield f"env.name: {unknown_name('environment', env.name, ENVS)}"
        return
    if "split" in env.options:
        yield (
            f"env.split={env.options['split']}: training and validation choose their split themselves; "
            "leave it out, env.validation_percent sets the sizes"
        )
    try:
        options = env_config(env.name, **env.options)
    except ValueError as error:
        yield f"env.name={env.name}: {error}"
        return
    if not 1 <= options.validation_percent <= 99:
        yield (
            f"env.validation_percent={options.validation_percent} leaves one split without instances; use 1 to 99 "
            "(10 is the default)"
        )
    if getattr(options, "render_images", False):
        yield "env.render_images=True: a policy reads text, so the pictures would be drawn for nothing; leave it out"
    if env.step_timeout_s > threading.TIMEOUT_MAX:
        yield (
            f"env.step_timeout_s={env.step_timeout_s:g} is longer than a thread can wait; "
            f"use {threading.TIMEOUT_MAX:g} or less"
        )
    if env.step_timeout_s < options.longest_step_s:
        yield (
            f"env.step_timeout_s={env.step_timeout_s:g}: one step of {env.name} may take {options.longest_step_s:g} "
            "seconds by its own limits, and the row would be invalid before that; "
            f"use env.step_timeout_s={options.longest_step_s:g} or more, or lower the limits"
        )


def _seeds(config: Config) -> Iterator[str]:
    train_first = config.training_seeds(0).start
    train_last = config.training_seeds(config.steps).start - 1
    validation_first = config.validation.seed
    validation_last = validation_first + VALIDATION_WALK * config.validation.prompts - 1
    if train_first <= validation_last and validation_first <= train_last:
        yield (
            f"training seeds {train_first}..{train_last} (env.train_seed={config.env.train_seed}, seed={config.seed}, "
            f"steps={config.steps}, "
            f"rollout.prompts={config.rollout.prompts}) overlap validation seeds {validation_first}..{validation_last} "
            f"(validation.seed={validation_first}, validation.prompts={config.validation.prompts}, up to "
            f"{VALIDATION_WALK} seeds each); set env.train_seed="
            f"{validation_last + 1 - config.training_seeds(0).start + config.env.train_seed} or more"
        )


def _rollout(config: Config) -> Iterator[str]:
    rollout = config.rollout
    if rollout.max_new_tokens > rollout.max_context:
        yield (
            f"rollout.max_new_tokens={rollout.max_new_tokens} is above rollout.max_context={rollout.max_context}, so "
            "not even one reply fits; raise max_context or lower max_new_tokens"
        )
    if rollout.format_penalty > 0:
        yield f"rollout.format_penalty={rollout.format_penalty} would reward bad format; use 0 or a negative number"


def _batches(config: Config) -> Iterator[str]:
    prompts, minibatch = config.rollout.prompts, config.algorithm.minibatch_groups
    if minibatch > 0 and prompts % minibatch:
        yield (
            f"algorithm.minibatch_groups={minibatch} does not divide rollout.prompts={prompts}; use a divisor, or 0 "
            "for one update on the whole batch"
        )
    elif config.micro_groups >= 1 and (minibatch or prompts) % config.micro_groups:
        name = "algorithm.minibatch_groups" if minibatch else "rollout.prompts"
        yield (
            f"micro_groups={config.micro_groups} does not divide {name}={minibatch or prompts}; use a divisor "
            "(1 needs the least memory)"
        )


def _adapters(config: Config) -> Iterator[str]:
    from ragen_jax.models.lora import TARGETS

    model = config.model
    if model.lora_rank < 0:
        yield f"model.lora_rank={model.lora_rank} is too small; use 0 (train everything) or a rank of 1 or more"
    if model.lora_rank == 0:
        unread = ("model.lora_alpha", "model.lora_targets")
        yield from without_effect(config, unread, "model.lora_rank=0", fix="set a rank")
        return
    if model.lora_alpha <= 0:
        yield f"model.lora_alpha={model.lora_alpha} must be above 0"
    unknown = [name for name in model.lora_targets if name not in TARGETS]
    if unknown or not model.lora_targets:
        yield f"model.lora_targets={model.lora_targets}: choose from {', '.join(TARGETS)}"
    if config.probe.every:
        yield (
            f"probe.every={config.probe.every} accounts for gradients of all parameters, but model.lora_rank="
            f"{model.lora_rank} trains adapters only; use probe.every=0 or model.lora_rank=0"
        )


def _model(config: Config) -> Iterator[str]:
    from ragen_jax.models.config import PRESETS

    model = config.model
    for name, preset in (("preset", model.preset), ("critic_preset", model.critic_preset)):
        own = {"preset": ("folder",), "critic_preset": ("", "policy")}[name]
        if preset not in PRESETS and preset not in own:
            yield f"model.{name}: {unknown_name('model preset', preset, PRESETS)}"
    if model.init in ("warm_start", "bundled") and not model.warm_start:
        yield (
            f"model.init={model.init} needs model.warm_start, which is empty; name a recipe of "
            "ragen_jax.training.warm_start.RECIPES"
        )
    if model.tokenizer and not (Path(model.tokenizer) / "tokenizer.json").is_file():
        yield f"model.tokenizer={model.tokenizer} has no tokenizer.json; name the folder of a Hugging Face tokenizer"
    yield from _adapters(config)
    if model.param_dtype == "bfloat16" and model.compute_dtype == "float32":
        yield (
            "model.param_dtype=bfloat16 with model.compute_dtype=float32 would compute in more digits than the "
            "parameters have; use model.compute_dtype=bfloat16"
        )
    if model.init not in INIT_WORDS and not Path(model.init).is_dir():
        yield f"model.init={model.init} is no folder; use the path of one, or {', '.join(INIT_WORDS)}"


def _validation(config: Config) -> Iterator[str]:
    section = config.validation
    if not 0 < section.top_p <= 1:
        yield f"validation.top_p={section.top_p} must be above 0 and at most 1; 1 switches it off"
    if section.collapse_samples > section.samples:
        yield (
            f"validation.collapse_samples={section.collapse_samples} is above validation.samples={section.samples}: "
            "only sampled rollouts can be scored; raise samples or lower collapse_samples"
        )
    if section.collapse_samples > 0 and section.prompts < 2:
        yield (
            f"validation.collapse_samples={section.collapse_samples} with validation.prompts={section.prompts}: "
            "mutual information needs at least 2 prompts"
        )


def _collapse(config: Config) -> Iterator[str]:
    section, prompts = config.collapse, config.rollout.prompts
    if section.scorer not in ("current", "initial") and not Path(section.scorer).is_dir():
        yield f"collapse.scorer={section.scorer} is no folder; use the path of one, current or initial"
    if not section.every and not config.validation.collapse_samples:
        other = "collapse.every=0 and validation.collapse_samples=0: nothing is scored"
        yield from without_effect(config, ("collapse.scorer",), other)
    if section.columns in (1, 2):
        yield (
            f"collapse.columns={section.columns} leaves fewer than two other columns, whose draw then has no standard "
            "error; use 3 or more, or 0 for all columns"
        )
    elif section.columns >= prompts:
        yield (
            f"collapse.columns={section.columns} is no sample of rollout.prompts={prompts}; use a smaller number, or 0 "
            "for all columns"
        )
    if section.rollouts == 1:
        yield (
            "collapse.rollouts=1 shows no spread within a prompt, so its estimates have no interval; use 2 or more, or "
            "0 for all rollouts"
        )
    elif section.rollouts >= config.rollout.group_size:
        yield (
            f"collapse.rollouts={section.rollouts} is no sample of rollout.group_size={config.rollout.group_size}; use "
            "a smaller number, or 0 for all rollouts"
        )
    if not section.every:
        unread = ("collapse.columns", "collapse.rollouts", "collapse.trajectory", "collapse.turn_uniform")
        yield from without_effect(config, unread, "collapse.every=0", fix="set collapse.every")
    if not (section.trajectory or section.turn_uniform):
        other = "collapse.trajectory=False and collapse.turn_uniform=False"
        yield from without_effect(config, ("collapse.trajectory_samples",), other, fix="set one of them")


def _early_stop(config: Config) -> Iterator[str]:
    section = config.early_stop
    if section.window and section.fraction == 0:
        yield (
            f"early_stop.fraction=0 with early_stop.window={section.window}: no {section.statistic} is below 0, so the "
            "rule could never stop a run; use a fraction above 0, or early_stop.window=0"
        )
    if section.low_success_validations and section.low_success == 0:
        yield (
            f"early_stop.low_success=0 with early_stop.low_success_validations={section.low_success_validations}: no "
            "success is below 0, so the rule could never stop a run; use a number above 0, or "
            "early_stop.low_success_validations=0"
        )


def _alarm(config: Config) -> Iterator[str]:
    section, checkpoint = config.alarm, config.checkpoint
    if not section.repeated_share:
        yield from without_effect(config, ("alarm.stop",), "alarm.repeated_share=0", fix="set a share, for example 0.5")
    if section.stop and (checkpoint.keep < 2 or not checkpoint.every):
        yield (
            f"alarm.stop=True keeps the last checkpoint before the alarm, but checkpoint.keep={checkpoint.keep} and "
            f"checkpoint.every={checkpoint.every} leave none beside the last of the run; use checkpoint.keep=2 or more "
            "and checkpoint.every=1 or more"
        )


def _probe(config: Config) -> Iterator[str]:
    section = config.probe
    if not section.every:
        unread = ("probe.buckets", "probe.edges", "probe.mi_columns")
        yield from without_effect(config, unread, "probe.every=0", fix="set probe.every")
        return
    group, prompts = config.rollout.group_size, config.rollout.prompts
    if group < 4 or group % 2:
        yield (
            f"probe.every={section.every} with rollout.group_size={group}: signal and noise are told apart by two "
            "halves of a group; use an even group_size of 4 or more, or probe.every=0"
        )
    if section.edges:
        if any(low >= high for low, high in itertools.pairwise(section.edges)):
            yield f"probe.edges={section.edges} must ascend; sort them and leave out what stands twice"
        other = f"probe.edges={section.edges}"
        yield from without_effect(config, ("probe.buckets",), other, fix="use one of the two")
    elif section.buckets > prompts:
        yield f"probe.buckets={section.buckets} is above rollout.prompts={prompts}; use at most one bucket per prompt"
    if section.mi_columns == 1 or section.mi_columns > prompts:
        yield (
            f"probe.mi_columns={section.mi_columns} with rollout.prompts={prompts}: mutual information needs at least "
            f"2 of the batch's prompts; use 2 to {prompts}, or 0 for none"
        )


_RULES: tuple[Callable[[Config], Iterator[str]], ...] = (
    _numbers,
    _temperatures,
    _environment,
    _seeds,
    _rollout,
    _batches,
    filter_problems,
    *ALGORITHM_RULES,
    _model,
    _validation,
    _collapse,
    _early_stop,
    _alarm,
    _probe,
)
