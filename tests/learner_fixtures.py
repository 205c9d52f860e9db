"""A learner batch with everything in it that may go wrong, and the update programs on the small network."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh

from ragen_jax.config.schema import AlgorithmSection
from ragen_jax.core.masking import aggregation_denominator
from ragen_jax.learner.score import ScoreConfig, score
from ragen_jax.learner.state import build_state
from ragen_jax.learner.update import UpdateConfig, accumulate, build_update
from ragen_jax.models.sharding import make_mesh
from ragen_jax.models.value_head import init_critic
from ragen_jax.types import LearnerBatch, TrainState
from tests.device_fixtures import MODEL, VOCAB, ragged_prompts, random_params

SCORING = ScoreConfig(vocab_size=VOCAB, temperature=0.7)
SETTINGS = UpdateConfig(
    model=MODEL,
    critic=None,
    scoring=SCORING,
    micro_groups=1,
    algorithm=AlgorithmSection(
        clip_low=0.2,
        clip_high=0.28,
        clip_dual=3.0,
        aggregation="token-mean",
        entropy_coef=0.01,
        kl_coef=0.1,
        kl_estimator="k3",
        value_clip=0.3,
    ),
)
ONE = make_mesh(data=1)
accumulated = jax.jit(accumulate, static_argnums=(1,), static_argnames=("mesh",))


def with_algorithm(settings: Any, **changes: Any) -> Any:
    """Settings of the update or of the preparation with some algorithm fields changed."""
    return dataclasses.replace(settings, algorithm=dataclasses.replace(settings.algorithm, **changes))


def learner_batch(*, groups: int, group_size: int, seed: int = 0, width: int = 7, spread: float = 0.4) -> LearnerBatch:
    """Ragged prompts and rows, an observation inside some rows, old and reference log-probs near the current ones."""
    rng = np.random.default_rng(seed)
    prompts = ragged_prompts(rng.integers(1, 6, groups).tolist(), width=6, seed=seed)
    shape = (groups, group_size, width)
    tokens = rng.integers(3, VOCAB, shape).astype(np.int32)
    attention = np.arange(width) < rng.integers(2, width + 1, shape[:2])[..., None]
    observed = (np.arange(width) == 1) & (rng.random(shape[:2]) < 0.5)[..., None]
    now = np.asarray(score(random_params(), MODEL, SCORING, prompts.tokens, prompts.mask, tokens, 1))

    def noise(scale: float) -> np.ndarray:
        return (scale * rng.normal(size=shape)).astype(np.float32)

    return LearnerBatch(
        prompt_tokens=prompts.tokens,
        prompt_mask=prompts.mask,
        tokens=tokens,
        attention_mask=attention,
        response_mask=attention & ~observed,
        old_log_probs=now + noise(spread),
        ref_log_probs=now + noise(spread),
        values=noise(0.3),
        advantages=noise(0.5),
        returns=noise(0.3),
        weights=np.ones(shape[:2], np.float32),
    )


def fresh_state(
    *, critic: bool = False, mesh: Mesh = ONE, optimizer: optax.GradientTransformation | None = None
) -> TrainState:
    """State around the random parameters; plain descent at rate 1, so that an update is its gradient."""
    optimizer = optax.sgd(1.0) if optimizer is None else optimizer
    critic_params = init_critic(MODEL, jax.random.key(5)) if critic else None
    if critic:
        weight = (0.1 * np.random.default_rng(4).normal(size=MODEL.width)).astype(np.float32)
        critic_params = {"decoder": random_params(3), "value": critic_params["value"] | {"weight": weight}}
    return build_state(random_params(), critic_params, optimizer, optimizer if critic else None, mesh=mesh)


def denominator(batch: LearnerBatch, mode: str = "token-mean", constant: float | None = None) -> np.float32:
    """Of the rows that have weight."""
    mask = np.asarray(batch.response_mask)
    counted = jnp.asarray(batch.weights).reshape(-1)
    return np.float32(
        aggregation_denominator(mask.reshape(-1, mask.shape[-1]), counted, mode=mode, constant_length=constant)
    )


def gradients(
    batch: LearnerBatch,
    *,
    settings: UpdateConfig = SETTINGS,
    order: Any = None,
    count: int | None = None,
    constant: float | None = None,
    scale: float = 1.0,
    divide_by: float | None = None,
) -> tuple[Any, Any, Any]:
    """``accumulate`` on one device, over all groups unless told otherwise."""
    groups = batch.tokens.shape[0]
    divisor = (
        denominator(batch, settings.algorithm.aggregation, constant) if divide_by is None else np.float32(divide_by)
    )
    return accumulated(
        fresh_state(critic=settings.critic is not None),
        settings,
        batch,
        np.arange(groups, dtype=np.int32) if order is None else np.asarray(order, np.int32),
        np.int32(groups if count is None else count),
        divisor,
        denominator(batch),
        np.float32(scale),
        mesh=ONE,
    )


@functools.cache
def update_program(mesh: Mesh = ONE, micro_groups: int = 1, critic: bool = False, optimizer: str = "sgd") -> Any:
    """The compiled update, shared by the tests of a process."""
    settings = dataclasses.replace(SETTINGS, micro_groups=micro_groups, critic=MODEL if critic else None)
    rule = optimizers()[optimizer]
    state = fresh_state(critic=critic, mesh=mesh, optimizer=rule)
    return build_update(settings, rule, rule if critic else None, state, mesh=mesh)


@functools.cache
def optimizers() -> dict[str, optax.GradientTransformation]:
    """By name."""
    return {"sgd": optax.sgd(1.0), "adam": optax.adam(1e-2)}


def assert_trees_close(first: Any, second: Any, *, atol: float) -> None:
    """Leaf by leaf."""
    assert jax.tree.structure(first) == jax.tree.structure(second)
    for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(first), jax.tree.leaves(second), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=0, atol=atol, err_msg=str(path))


def assert_trees_equal(first: Any, second: Any) -> None:
    """Bit by bit."""
    assert_trees_close(first, second, atol=0.0)
