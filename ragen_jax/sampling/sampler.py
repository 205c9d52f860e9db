"""Sampling P x G rollouts: the prompt is run once a group, the cache is carried across turns.

Three programs per shape: ``prefill``, ``decode`` (a whole turn in one loop) and ``extend`` (the next observation).
``Sampler`` and ``SamplerSession`` drive them for the rollout code, which sees NumPy arrays only.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh

from ragen_jax.core.log_probs import log_probs_and_entropy
from ragen_jax.models.cache import PromptCache, RowCache, empty_rows, grow_rows, lay_out_rows
from ragen_jax.models.config import ModelConfig
from ragen_jax.models.head import logits
from ragen_jax.models.sharding import activations_on, put_rows, replicated
from ragen_jax.models.transformer import cached_pass, prompt_pass
from ragen_jax.sampling.logits import draw, truncate
from ragen_jax.types import Params, Responses

LEAST_TEMPERATURE = 1e-3  # here the rounding of a float32 logit of 20 moves a log-prob by 0.001 nats

# On a CPU, XLA orders operations breadth first: every layer's weights were sliced from their stack, a second copy of
# the parameters, before the first layer ran. This order takes a slice when it is used. Other devices do not read it.
_ORDER = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SamplerConfig:
    """Static settings of the sampling programs.

    Attributes:
      vocab_size: ids below this can be drawn.
      stop_ids: tokens that end a turn.
      max_new_tokens: N, tokens per turn.
      temperature: divides the logits, ``LEAST_TEMPERATURE`` or more; 0 takes the likeliest token.
      top_p: nucleus mass, 1 = off.
      top_k: likeliest tokens, 0 = off.
      dtype: of activations and caches.
      observation_room: slots set aside for each observation; more are added when they do not suffice.

    Raises:
      ValueError: a value outside its range.
    """

    vocab_size: int
    stop_ids: tuple[int, ...]
    max_new_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    dtype: str = "float32"
    observation_room: int = 16

    def __post_init__(self) -> None:
        """Refuse what no program can be made of."""
        for name, least in (("vocab_size", 1), ("max_new_tokens", 1), ("top_k", 0), ("observation_room", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)} is too small; use {least} or more")
        if self.temperature != 0 and not LEAST_TEMPERATURE <= self.temperature < math.inf:
            raise ValueError(
                f"temperature={self.temperature} must be a number from {LEAST_TEMPERATURE} on; 0 takes the likeliest "
                "token"
            )
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p={self.top_p} must be above 0 and at most 1; 1 switches it off")


def row_capacity(*, max_turns: int, max_new_tokens: int, observation_room: int, max_context: int) -> int:
    """Slots that the row cache of a session begins with.

    Every turn of full length and an observation after each but the last, or ``max_context`` if that is less. Rows share
    their slots, so a turn takes as many as its longest reply: where replies differ in length, or observations are
    longer than ``observation_room``, the session doubles its cache.
    """
    return min(max_turns * max_new_tokens + (max_turns - 1) * observation_room, max_context)


@functools.partial(jax.jit, static_argnums=(1, 4, 5, 6), static_argnames=("mesh",))
def prefill(
    params: Params,
    config: ModelConfig,
    tokens: Array,
    mask: Array,
    dtype: str,
    group_size: int,
    capacity: int,
    *,
    mesh: Mesh | None = None,
) -> tuple[PromptCache, RowCache]:
    """Run first prompts [P, Lx] once and make room for the rows of their groups."""
    with activations_on(mesh):
        prompts = prompt_pass(params, config, tokens, mask, dtype=dtype)
        return prompts, lay_out_rows(empty_rows(config, prompts, group_size=group_size, capacity=capacity))


@functools.partial(
    jax.jit, static_argnums=(1,), static_argnames=("mesh",), donate_argnums=(3,), compiler_options=_ORDER
)
def extend(
    params: Params,
    config: ModelConfig,
    prompts: PromptCache,
    rows: RowCache,
    tokens: Array,
    mask: Array,
    *,
    mesh: Mesh | None = None,
) -> RowCache:
    """Append observations [B, n] to the rows."""
    with activations_on(mesh):
        return lay_out_rows(cached_pass(params, config, prompts, rows, tokens, mask))


@functools.partial(
    jax.jit, static_argnums=(1, 2), static_argnames=("mesh",), donate_argnums=(4,), compiler_options=_ORDER
)
def decode(
    params: Params,
    config: ModelConfig,
    settings: SamplerConfig,
    prompts: PromptCache,
    rows: RowCache,
    active: Array,
    seed: Array,
    *,
    mesh: Mesh | None = None,
) -> tuple[RowCache, Array, Array, Array, Array]:
    """Sample one turn.

    Args:
      params: parameters.
      config: static shapes.
      settings: static sampling settings.
      prompts: cache of the first prompts.
      rows: cache of the rows, consumed.
      active: [B] bool, rows that answer.
      seed: [n] uint32, numbers that make the key of this turn; row b draws from ``fold_in(key, b)``, whatever the
        other rows do.
      mesh: devices over which the rows' cache stays split; None: XLA decides.

    Returns:
      The rows' cache, tokens [B, N], log-probs [B, N] (nats, tempered, before any truncation), lengths [B],
      ended [B] (stopped at a stop token).
    """
    count, new = active.shape[0], settings.max_new_tokens
    key = functools.reduce(jax.random.fold_in, seed, jax.random.key(0))
    row_keys = jax.vmap(functools.partial(jax.random.fold_in, key))(jnp.arange(count))
    uniforms = jax.vmap(lambda k: jax.random.uniform(k, (new,)))(row_keys)
    stops = jnp.asarray(settings.stop_ids, jnp.int32)
    scale = settings.temperature if settings.temperature > 0 else 1.0

    def sample(hidden: Array, uniform: Array) -> tuple[Array, Array]:
        # All rows of the table, then those that can be drawn: a part of the table would be copied for every token.
        scores = logits(params, config, hidden, vocab_size=config.vocab_rows)[..., : settings.vocab_size]
        if settings.temperature == 0:
            token = scores.argmax(-1).astype(jnp.int32)
        else:
            probabilities = jax.nn.softmax(scores / scale, axis=-1)
            token = draw(truncate(probabilities, top_p=settings.top_p, top_k=settings.top_k), uniform)
        return token, log_probs_and_entropy(scores, token, temperature=scale)[0]

    def unfinished(carry: tuple) -> Array:
        step, _, done, *_ = carry
        return (step < new) & ~done.all()

    def advance(carry: tuple) -> tuple:
        step, cache, done, ended, tokens, log_probs, lengths = carry
        token, log_prob = sample(cache.last_hidden, uniforms[:, step])
        tokens = tokens.at[:, step].set(jnp.where(done, 0, token))
        log_probs = log_probs.at[:, step].set(jnp.where(done, 0.0, log_prob))
        lengths = lengths + ~done
        cache = cached_pass(params, config, prompts, cache, token[:, None], ~done[:, None])
        stopped = ~done & (token[:, None] == stops).any(-1)
        return step + 1, cache, done | stopped, ended | stopped, tokens, log_probs, lengths

    nothing = jnp.zeros((count,), bool)
    carry = (
        jnp.zeros((), jnp.int32),
        rows,
        ~active,
        nothing,
        jnp.zeros((count, new), jnp.int32),
        jnp.zeros((count, new), jnp.float32),
        jnp.zeros((count,), jnp.int32),
    )
    _, rows, _, ended, tokens, log_probs, lengths = jax.lax.while_loop(unfinished, advance, carry)
    with activations_on(mesh):
        return lay_out_rows(rows), tokens, log_probs, lengths, ended


class SamplerSession:
    """One conversation of P x G rows (the ``Session`` protocol of ``rollout.policy``)."""

    def __init__(
        self,
        sampler: Sampler,
        prompt_tokens: np.ndarray,
        prompt_mask: np.ndarray,
        *,
        group_size: int,
        capacity: int,
        seed: tuple[int, ...],
    ) -> None:
        """Run the prompts; ``capacity`` is what the rows' cache begins with (slots)."""
        self._sampler = sampler
        self._seed = seed
        self._turn = 0
        tokens, mask = put_rows((prompt_tokens, prompt_mask), sampler.mesh)
        self._used = 0
        self._prompts, self._rows = prefill(
            sampler.params,
            sampler.config,
            tokens,
            mask,
            sampler.settings.dtype,
            group_size,
            capacity,
            mesh=sampler.mesh,
        )

    def respond(self, active: np.ndarray) -> Responses:
        """Sample one turn for the active rows, [B] bool."""
        sampler = self._sampler
        self._reserve(sampler.settings.max_new_tokens)
        seed = np.asarray((*self._seed, self._turn), np.uint32)
        self._turn += 1
        self._rows, *outputs = decode(
            sampler.params,
            sampler.config,
            sampler.settings,
            self._prompts,
            self._rows,
            put_rows(np.asarray(active, bool), sampler.mesh),
            jax.device_put(seed, replicated(sampler.mesh)),
            mesh=sampler.mesh,
        )
        tokens, log_probs, lengths, ended = jax.device_get(outputs)
        self._used += int(lengths.max(initial=0))
        return Responses(tokens=tokens, lengths=lengths, log_probs=log_probs, ended=ended)

    def observe(self, tokens: np.ndarray, mask: np.ndarray) -> None:
        """Append the next observation, [B, To]."""
        sampler = self._sampler
        self._reserve(tokens.shape[1] + sampler.settings.max_new_tokens)
        tokens, mask = put_rows((np.asarray(tokens, np.int32), np.asarray(mask, bool)), sampler.mesh)
        self._used += tokens.shape[1]
        self._rows = extend(sampler.params, sampler.config, self._prompts, self._rows, tokens, mask, mesh=sampler.mesh)

    def _reserve(self, slots: int) -> None:
        """Make room. Doubling keeps the number of sizes, and so of compiled programs, small in a long run."""
        capacity = self._rows.capacity
        while capacity < self._used + slots:
            capacity *= 2
        if capacity > self._rows.capacity:
            self._rows = grow_rows(self._rows, capacity=capacity)


@dataclasses.dataclass
class Sampler:
    """A policy that samples from parameters on devices (the ``Policy`` protocol of ``rollout.policy``)."""

    params: Params
    config: ModelConfig
    settings: SamplerConfig
    mesh: Mesh
    version: int = 0

    def begin(
        self,
        prompt_tokens: np.ndarray,
        prompt_mask: np.ndarray,
        *,
        group_size: int,
        max_turns: int,
        max_context: int,
        seed: tuple[int, ...],
    ) -> SamplerSession:
        """Open a session on first prompts [P, Lx]; the caller keeps rows within ``max_context`` tokens.

        Raises:
          ValueError: no reply fits in a row, or prompt and row together exceed the positions that the model was made
            for.
        """
        settings = self.settings
        if max_context < settings.max_new_tokens:
            raise ValueError(
                f"rollout.max_new_tokens={settings.max_new_tokens} does not fit in rollout.max_context={max_context}; "
                "raise the latter"
            )
        longest = int(np.asarray(prompt_mask).sum(axis=1).max())
        if 0 < self.config.max_context < longest + max_context:
            raise ValueError(
                f"a prompt of {longest} tokens and rollout.max_context={max_context} exceed the "
                f"{self.config.max_context} positions of model {self.config.name!r}; lower rollout.max_context"
            )
        capacity = row_capacity(
            max_turns=max_turns,
            max_new_tokens=settings.max_new_tokens,
            observation_room=settings.observation_room,
            max_context=max_context,
        )
        return SamplerSession(self, prompt_tokens, prompt_mask, group_size=group_size, capacity=capacity, seed=seed)
