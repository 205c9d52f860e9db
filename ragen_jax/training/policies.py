"""Which network, tokenizer and first parameters a configuration names."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from ragen_jax.config.schema import Config
from ragen_jax.core.advantages import NEEDS_CRITIC
from ragen_jax.models.config import ModelConfig, model_config
from ragen_jax.models.convert import load_model
from ragen_jax.models.hf_config import read_model_config
from ragen_jax.models.lora import add_adapters, merge_adapters, with_adapters
from ragen_jax.models.transformer import init_params
from ragen_jax.rollout.prompting import ChatFormat
from ragen_jax.rollout.tokenizer import Tokenizer
from ragen_jax.training.origin import hf_folder, is_hf_folder, tokenizer_folder
from ragen_jax.training.policy_files import load_policy
from ragen_jax.training.warm_start import policy_key, recipe, warm_start
from ragen_jax.types import Array, Params

logger = logging.getLogger(__name__)

BUNDLED_POLICY = Path(__file__).parent.parent / "assets" / "tiny_policy"
_ADAPTERS = 1  # folded into the run's key for the first adapters
Place = Callable[[str, np.ndarray], Array]


def network(config: Config) -> ModelConfig:
    """Shapes of the policy: a preset, or those of the Hugging Face folder behind ``model.init``.

    Where there is such a folder, a preset only says which shapes are expected: name and context are the folder's.

    Raises:
      ValueError: ``model.preset=folder`` without such a folder, a preset of other shapes than the folder's, or see
        ``origin.hf_folder``.
      KeyError: an unknown preset.
    """
    section = config.model
    base = _base_network(config)
    return with_adapters(base, rank=section.lora_rank, alpha=section.lora_alpha) if section.lora_rank else base


def _base_network(config: Config) -> ModelConfig:
    section = config.model
    folder = hf_folder(section.init)
    if folder is None:
        if section.preset == "folder":
            raise ValueError(
                f"model.preset=folder takes the shapes of a Hugging Face folder, but model.init={section.init} is none"
            )
        return model_config(section.preset)
    found = read_model_config(folder)
    if section.preset != "folder" and not same_shapes(found, model_config(section.preset)):
        raise ValueError(
            f"model.init={section.init} holds another network than model.preset={section.preset}; use "
            "model.preset=folder"
        )
    return found


def critic_network(config: Config, policy: ModelConfig) -> ModelConfig | None:
    """Shapes of the critic, None where the advantage needs none; ``model.critic_preset=policy`` takes the policy's."""
    if config.algorithm.advantage not in NEEDS_CRITIC:
        return None
    return policy if config.model.critic_preset == "policy" else model_config(config.model.critic_preset)


def has_reference(config: Config) -> bool:
    """True when a run keeps a copy of its first parameters as reference: for a KL term and for the gradient probe.

    With adapters the base below them is the reference, so there is no copy.
    """
    return config.model.lora_rank == 0 and (config.algorithm.kl_coef > 0 or config.probe.every > 0)


def chat_format(config: Config) -> ChatFormat:
    """Tokenizer and chat template of a configuration; templates that rewrite earlier turns are refused."""
    return ChatFormat(Tokenizer.from_folder(tokenizer_folder(config), chat_template=config.model.chat_template))


def check_fit(config: Config, chat: ChatFormat, model: ModelConfig) -> None:
    """Refuse a tokenizer with more ids than the embedding has rows, and rows that are longer than the model's context.

    Raises:
      ValueError: names both sizes.
    """
    if chat.tokenizer.vocab_size > model.vocab_rows:
        folder = hf_folder(config.model.init)
        if folder is None:
            fix = "choose a larger model.preset"
        elif config.model.tokenizer:
            fix = "leave model.tokenizer empty to take the folder's own"
        else:
            fix = f"tokenizer.json and config.json of {folder} do not belong together, download them again"
        raise ValueError(
            f"tokenizer {chat.tokenizer.name!r} uses {chat.tokenizer.vocab_size} ids, model {model.name!r} has "
            f"{model.vocab_rows} rows: {fix}"
        )
    if 0 < model.max_context <= config.rollout.max_context:
        raise ValueError(
            f"rollout.max_context={config.rollout.max_context} leaves no room for a prompt in the {model.max_context} "
            f"positions of model {model.name!r}; lower it"
        )


def first_params(
    config: Config,
    model: ModelConfig,
    chat: ChatFormat,
    *,
    say: Callable[[str], None],
    run_params: Callable[[Path, ModelConfig], Params],
    place: Place | None = None,
) -> Params:
    """Parameters of the policy before the first step, new adapters included where the configuration has some.

    Args:
      config: the configuration.
      model: from :func:`network`.
      chat: from :func:`chat_format`.
      say: is told in words about what takes time.
      run_params: reads the newest parameters of a run folder, adapters merged.
      place: puts a leaf of a Hugging Face model on its devices as soon as it is read.

    Raises:
      ValueError: what was named does not fit the configuration.
    """
    base = _base_params(config, dataclasses.replace(model, adapter_scale=0.0), chat, say, run_params, place)
    return with_new_adapters(base, config)


def with_new_adapters(base: Params, config: Config) -> Params:
    """The parameters with the adapters that a configuration asks for, or as they are."""
    section = config.model
    if not section.lora_rank:
        return base
    key = jax.random.fold_in(jax.random.key(config.seed), _ADAPTERS)
    return add_adapters(base, key, rank=section.lora_rank, targets=section.lora_targets)


def _base_params(
    config: Config,
    model: ModelConfig,
    chat: ChatFormat,
    say: Callable[[str], None],
    run_params: Callable[[Path, ModelConfig], Params],
    place: Place | None,
) -> Params:
    """Parameters without adapters; see :func:`first_params`."""
    init = config.model.init
    if init == "random":
        return in_dtype(init_params(model, jax.random.key(config.seed)), config)
    if init == "bundled":
        return in_dtype(_bundled(config, model, chat), config)
    if init == "warm_start":
        return in_dtype(
            warm_start(
                config.env.name,
                dict(config.env.options),
                model,
                chat,
                recipe(config.model.warm_start),
                show_rewards=config.rollout.show_rewards,
                say=say,
            ),
            config,
        )
    path = Path(init)
    if is_hf_folder(path):
        say(f"loading {path.name}")
        return load_model(path, dtype=config.model.param_dtype, place=place)[1]
    if (path / "policy.safetensors").exists():
        return in_dtype(load_policy(path, model), config)
    return in_dtype(run_params(path, model), config)


def merged(params: Params, model: ModelConfig, *, dtype: str, source: str) -> Params:
    """Parameters with the adapters added to the base, the sums in ``dtype``; a warning where that rounds them.

    Args:
      params: with adapters, or without them, which changes nothing.
      model: shapes and scale of the adapters.
      dtype: "float32" or "bfloat16".
      source: whose parameters they are, for the warning.
    """
    if "adapters" in params and dtype != "float32":
        logger.warning(
            "the adapters of %s are rounded: base and adapters are added up in %s, which keeps only about three digits "
            "of the sum; float32 keeps what was trained",
            source,
            dtype,
        )
    return merge_adapters(params, model, dtype=dtype)


def warm_start_key(config: Config) -> str:
    """Content hash of the warm start that a configuration names."""
    return _warm_start_key(config, _base_network(config), chat_format(config), seed=0)


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


def _bundled(config: Config, model: ModelConfig, chat: ChatFormat) -> Params:
    facts = json.loads((BUNDLED_POLICY / "policy.json").read_text(encoding="utf-8"))
    key = _warm_start_key(config, model, chat, seed=facts["seed"])
    if key != facts["key"]:
        raise ValueError(
            f"the bundled policy was made for configuration {facts['key']}, this run has {key} (environment, options, "
            "network, tokenizer and recipe count); use model.init=warm_start to train one for this run"
        )
    return load_policy(BUNDLED_POLICY, model)


def same_shapes(first: ModelConfig, second: ModelConfig) -> bool:
    """True when two networks differ at most in name, stated context and the scale of random weights."""
    names = ("name", "init_scale", "max_context", "adapter_scale")
    alike = dataclasses.replace(first, **{name: getattr(second, name) for name in names})
    return alike == second


def in_dtype(params: Params, config: Config) -> Params:
    """Parameters in ``model.param_dtype``."""
    dtype = jnp.dtype(config.model.param_dtype)
    cast: Params = jax.tree.map(lambda leaf: leaf.astype(dtype), params)
    return cast
