"""Supervised start: a policy that imitates the environments' own, deliberately imperfect solvers.

The result depends on (environment, options, network, tokenizer, recipe, seed) only, and is cached under the hash of
exactly that.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ragen_jax.cache import cache_folder
from ragen_jax.config.serial import content_hash
from ragen_jax.envs import env_config, make_env
from ragen_jax.envs.base import TextEnv
from ragen_jax.learner.score import ScoreConfig, response_log_probs
from ragen_jax.models.config import ModelConfig
from ragen_jax.models.transformer import init_params
from ragen_jax.registry import unknown_name
from ragen_jax.rollout.assemble import pad_left, pad_right
from ragen_jax.rollout.prompting import ChatFormat, UserMessages
from ragen_jax.training.policy_files import load_policy, save_policy
from ragen_jax.types import Array, Params

logger = logging.getLogger(__name__)

TRACE_SEED = 1_000_000  # layout seeds of demonstrations, far from those of training and validation
FORMAT = 1  # of the policy files and of the training below; part of the cache key
PROBE_TRACES = 32


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How a warm start is trained.

    Attributes:
      steps: optimiser steps.
      batch: traces per step.
      lr: peak learning rate; cosine to a tenth, short linear warm-up.
      skill: share of demonstrations that follow the solver; the others act at random.
      traces: demonstrations made, each used about ``steps * batch / traces`` times.
    """

    steps: int
    batch: int = 64
    lr: float = 3e-3
    skill: float = 0.5
    traces: int = 8192


RECIPES: dict[str, Recipe] = {
    "frozen_lake_tiny": Recipe(steps=600),
    "frozen_lake_turns_tiny": Recipe(steps=700),
    "sokoban_tiny": Recipe(steps=900, skill=0.9, traces=16384),
    "countdown_tiny": Recipe(steps=1300, skill=0.9, traces=16384),
    "bandit_tiny": Recipe(steps=400, traces=2048),
}


def recipe(name: str) -> Recipe:
    """Recipe by name; a KeyError with the nearest name otherwise."""
    if name not in RECIPES:
        raise KeyError(unknown_name("warm-start recipe", name, RECIPES))
    return RECIPES[name]


@dataclasses.dataclass(frozen=True)
class Trace:
    """One demonstrated episode as token ids.

    Attributes:
      prompt: ids of the first prompt.
      tokens: ids after it.
      trained: per token, true on replies (the end-of-turn token included).
    """

    prompt: list[int]
    tokens: list[int]
    trained: list[bool]


def demonstrate_episode(
    env: TextEnv, chat: ChatFormat, *, seed: int, skill: float, rng: np.random.Generator, show_rewards: bool
) -> Trace:
    """Let the environment's own solver play one episode."""
    messages = UserMessages(env.config, max_turns=env.config.max_turns, show_rewards=show_rewards)
    prompt = chat.first_prompt(env.instructions(), messages.first(env.reset(seed)))
    tokens: list[int] = []
    trained: list[bool] = []
    for turn in range(env.config.max_turns):
        demonstration = env.demonstrate(rng, skill=skill)
        reply = f"{demonstration.reasoning}</think><answer>{demonstration.answer}</answer>"
        ids = [*chat.tokenizer.encode(reply), chat.tokenizer.end_of_turn_id]
        tokens += ids
        trained += [True] * len(ids)
        result = env.step(demonstration.answer)
        if result.done or turn + 1 == env.config.max_turns:
            break
        ids = chat.next_observation(messages.next(result))
        tokens += ids
        trained += [False] * len(ids)
    return Trace(prompt=prompt, tokens=tokens, trained=trained)


def make_traces(
    env_name: str, options: dict[str, Any], chat: ChatFormat, settings: Recipe, *, seed: int, show_rewards: bool
) -> list[Trace]:
    """Demonstrations on training instances (never validation ones)."""
    env = make_env(env_name, **(options | {"split": "train"}))
    streams = np.random.SeedSequence(seed).spawn(settings.traces)
    return [
        demonstrate_episode(
            env,
            chat,
            seed=TRACE_SEED + seed * settings.traces + index,
            skill=settings.skill,
            rng=np.random.default_rng(stream),
            show_rewards=show_rewards,
        )
        for index, stream in enumerate(streams)
    ]


def _arrays(traces: list[Trace], pad_id: int) -> tuple[np.ndarray, ...]:
    """Prompt tokens and mask [M, Lx]; tokens and trained mask [M, T]."""
    prompts, prompt_mask = pad_left([t.prompt for t in traces], bucket=8, pad_id=pad_id)
    tokens, _ = pad_right([t.tokens for t in traces], bucket=8, pad_id=pad_id)
    trained, _ = pad_right([[int(x) for x in t.trained] for t in traces], bucket=8, pad_id=0)
    return prompts, prompt_mask, tokens, trained.astype(bool)


def _batches(count: int, settings: Recipe, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Indices of each step's batch: shuffled passes over the traces."""
    pool = np.empty(0, np.int64)
    for _ in range(settings.steps):
        while len(pool) < settings.batch:
            pool = np.concatenate([pool, rng.permutation(count)])
        yield pool[: settings.batch]
        pool = pool[settings.batch :]


def fit(
    traces: list[Trace],
    model: ModelConfig,
    settings: Recipe,
    *,
    vocab_size: int,
    pad_id: int,
    seed: int,
    report: Callable[[int, float], None] | None = None,
) -> Params:
    """Next-token training on the replies of the traces, in float32 at temperature 1 whatever the rollouts will use.

    Args:
      traces: demonstrations.
      model: network.
      settings: recipe.
      vocab_size: ids below this can be drawn.
      pad_id: padding id.
      seed: of the initial parameters and of the batches.
      report: called as (step, loss in nats per token) every 100 steps.

    Returns:
      Parameters.
    """
    data = _arrays(traces, pad_id)
    scoring = ScoreConfig(vocab_size=vocab_size)
    params = init_params(model, jax.random.key(seed))
    schedule = optax.warmup_cosine_decay_schedule(
        0.0, settings.lr, max(settings.steps // 20, 1), settings.steps, settings.lr / 10
    )
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, weight_decay=0.01))
    opt_state = optimizer.init(params)

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(params: Params, opt_state: Any, batch: tuple[Array, ...]) -> tuple[Params, Any, Array]:
        prompts, prompt_mask, tokens, trained = batch

        def loss(params: Params) -> Array:
            log_probs, _ = response_log_probs(params, model, scoring, prompts, prompt_mask, tokens[:, None])
            return -jnp.where(trained, log_probs[:, 0], 0.0).sum() / trained.sum()

        value, gradient = jax.value_and_grad(loss)(params)
        changes, opt_state = optimizer.update(gradient, opt_state, params)
        return optax.apply_updates(params, changes), opt_state, value

    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(7,)))
    for index, chosen in enumerate(_batches(len(traces), settings, rng)):
        params, opt_state, value = step(params, opt_state, tuple(x[chosen] for x in data))
        if report is not None and (index % 100 == 0 or index + 1 == settings.steps):
            report(index, float(value))
    return params


def policy_key(
    env_name: str,
    options: dict[str, Any],
    model: ModelConfig,
    chat: ChatFormat,
    settings: Recipe,
    *,
    show_rewards: bool,
    seed: int,
) -> str:
    """Content hash of everything a warm start depends on; a few traces stand for the code that makes them."""
    probe = make_traces(
        env_name,
        _solvable(options),
        chat,
        dataclasses.replace(settings, traces=PROBE_TRACES),
        seed=seed,
        show_rewards=show_rewards,
    )
    full = dataclasses.asdict(env_config(env_name, **options))
    for name in ("split", "locked_share", "unsolvable_share"):
        full.pop(name, None)  # these choose which instances are met, not what a reply to one looks like
    record = {
        "format": FORMAT,
        "env": env_name,
        "options": full,
        # Features that are off are left out, so that a feature which comes later does not change the key.
        "model": {name: value for name, value in dataclasses.asdict(model).items() if value},
        "vocabulary": [chat.tokenizer.token_bytes(token).hex() for token in range(chat.tokenizer.vocab_size)],
        "template": [chat.first_text("task", "state"), chat.next_text("state")],
        "recipe": dataclasses.asdict(settings),
        "show_rewards": show_rewards,
        "seed": seed,
        "traces": [dataclasses.asdict(trace) for trace in probe],
    }
    return content_hash(record)


def warm_start(
    env_name: str,
    options: dict[str, Any],
    model: ModelConfig,
    chat: ChatFormat,
    settings: Recipe,
    *,
    show_rewards: bool,
    seed: int = 0,
    say: Callable[[str], None] = logger.info,
) -> Params:
    """Train, or load from ``policies`` in the cache folder, the warm start of an environment.

    Args:
      env_name: key of ``ragen_jax.envs.ENVS``.
      options: options of the environment; the share of locked or unsolvable instances is set to 0 for the traces.
      model: network.
      chat: chat format (with its tokenizer).
      settings: recipe.
      show_rewards: the traces show rewards between turns, as the rollouts will (in full style).
      seed: of everything random.
      say: is told about the progress in words.

    Returns:
      Parameters as a nested dict of NumPy arrays.
    """
    key = policy_key(env_name, options, model, chat, settings, show_rewards=show_rewards, seed=seed)
    folder = cache_folder() / "policies" / f"{env_name}-{key}"
    if (folder / "policy.safetensors").exists():
        say(f"warm start from the cache: {folder}")
        return load_policy(folder, model)
    try:  # before minutes of training
        folder.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder.parent).close()
    except OSError as error:
        raise ValueError(
            f"the warm start of {env_name} cannot be kept in {folder.parent} ({error.strerror}): set RAGEN_CACHE_DIR "
            "to a folder that can be written, or begin with model.init=random"
        ) from error
    started = time.monotonic()
    traces = make_traces(env_name, _solvable(options), chat, settings, seed=seed, show_rewards=show_rewards)

    def report(step: int, loss: float) -> None:
        say(f"warm start of {env_name}: step {step}/{settings.steps}, {loss:.2f} nats per token")

    vocab_size, pad_id = chat.tokenizer.vocab_size, chat.tokenizer.pad_id
    params = fit(traces, model, settings, vocab_size=vocab_size, pad_id=pad_id, seed=seed, report=report)
    params = jax.tree.map(np.asarray, params)
    facts = {
        "key": key,
        "seed": seed,
        "seconds": round(time.monotonic() - started, 1),
        "recipe": dataclasses.asdict(settings),
    }
    save_policy(folder, params, facts)
    return params


def _solvable(options: dict[str, Any]) -> dict[str, Any]:
    """Options under which every training instance can be solved."""
    return options | {name: 0.0 for name in ("locked_share", "unsolvable_share") if name in options}
