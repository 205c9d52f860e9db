"""How much memory a run needs on each device, from shapes alone: before anything is allocated.

Resident parts are exact (sizes and shardings of every leaf). Working memory is an estimate of each phase's largest
moment; a test holds it against the compiler's own figure.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import TypedDict

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, Mesh

from ragen_jax.config.schema import Config
from ragen_jax.core.scores import SCORES
from ragen_jax.learner.cross_score import contexts_together, pieces
from ragen_jax.learner.gradient_probe import PARAMETER_BUFFERS
from ragen_jax.models.config import ModelConfig
from ragen_jax.models.lora import trainable
from ragen_jax.models.sharding import AXES, row_shards, shardings
from ragen_jax.models.transformer import init_params
from ragen_jax.models.value_head import init_critic
from ragen_jax.training.activation_sizes import Sizes
from ragen_jax.training.batch_parts import validation_chunk
from ragen_jax.training.policies import has_reference, with_new_adapters
from ragen_jax.types import Params

GIB = 1024**3


@dataclasses.dataclass(frozen=True)
class Part:
    """One line of a plan.

    Attributes:
      phase: "resident", "sampling", "cross-scoring", "scoring", "probe", "gradients", "optimiser", "validation
        sampling" or "validation cross-scoring"; phases follow one another, resident parts stay.
      name: what it is.
      size: bytes on each device.
    """

    phase: str
    name: str
    size: int


@dataclasses.dataclass(frozen=True)
class MemoryPlan:
    """All parts, and the largest sum of the resident parts and one phase."""

    parts: tuple[Part, ...]

    def phase(self, name: str) -> int:
        """Bytes of one phase."""
        return sum(part.size for part in self.parts if part.phase == name)

    @property
    def peak(self) -> int:
        """Resident bytes and the largest phase."""
        phases = {part.phase for part in self.parts} - {"resident"}
        return self.phase("resident") + max((self.phase(name) for name in phases), default=0)

    def table(self) -> list[str]:
        """The plan as lines of text, GiB on each device."""
        lines = [f"{part.phase:<26}{part.name:<56}{part.size / GIB:>9.2f} GiB" for part in self.parts if part.size]
        return [*lines, f"{'peak':<26}{'resident and the largest phase':<56}{self.peak / GIB:>9.2f} GiB"]


def memory_plan(
    config: Config,
    model: ModelConfig,
    critic: ModelConfig | None,
    *,
    prompt_tokens: int,
    observation_tokens: int,
    max_turns: int,
    mesh: Mesh | AbstractMesh,
) -> MemoryPlan:
    """Plan a run.

    Args:
      config: the configuration.
      model: shapes of the policy.
      critic: shapes of the critic, or None.
      prompt_tokens: Lx, padded tokens of a first prompt.
      observation_tokens: padded tokens of a later observation.
      max_turns: turns of an episode.
      mesh: devices, real or only described.
    """
    shards = row_shards(mesh)
    width = jnp.dtype(config.model.param_dtype).itemsize
    policy = _Network(lambda: with_new_adapters(init_params(model, jax.random.key(0)), config), width, mesh)
    parts = [*_resident(config, "policy", policy)]
    if critic is not None:
        network = _Network(lambda: init_critic(critic, jax.random.key(0)), width, mesh)
        parts += _resident(config, "critic", network)
    if has_reference(config) or config.collapse.scorer == "initial":
        parts.append(Part("resident", "first parameters (reference, scorer)", policy.parameters))
    if config.collapse.scorer not in ("current", "initial"):
        parts.append(Part("resident", "parameters of the frozen scorer", policy.parameters))
    if config.rollout.max_staleness:
        parts.append(Part("resident", "parameters that the actor samples from", policy.parameters))
    sizes = Sizes(
        config,
        model,
        prompt_tokens=prompt_tokens,
        observation_tokens=observation_tokens,
        max_turns=max_turns,
        shards=shards,
    )
    rollout, section = config.rollout, config.validation
    parts += _sampling("sampling", sizes, prompts=rollout.prompts, samples=rollout.group_size)
    parts += max(
        (_cross_scoring("cross-scoring", sizes, **family) for family in _families(config, sizes)),
        key=lambda family: sum(part.size for part in family),
        default=[],
    )
    entropies = SCORES[config.filter.score].needs == "entropies"
    if critic is not None or config.algorithm.kl_coef or config.probe.every or entropies:
        parts += _scoring(sizes, groups=math.lcm(sizes.micro, shards) // shards)
    parts += [
        Part("gradients", "gradient sums and one gradient", policy.trained * (4 + 4)),
        *_backward("gradients", sizes, groups=sizes.micro_groups, rows=sizes.micro_rows),
        Part("optimiser", "gradient, changes and the state before", policy.trained * 4 * 4),
    ]
    if config.probe.every:  # one prompt at a time, half a group in a backward pass, the same on every device
        parts.append(Part("probe", "gradients by term and bucket, float32", PARAMETER_BUFFERS * policy.entries * 4))
        parts += _backward("probe", sizes, groups=1, rows=rollout.group_size // 2)
    if critic is not None:
        parts.append(Part("gradients", "critic: gradient sums and one gradient", network.trained * (4 + 4)))
        parts.append(Part("optimiser", "critic: gradient, changes and the state before", network.trained * 4 * 4))
    # Every run ends with a validation.
    chunk = validation_chunk(config, shards=shards)
    parts += _sampling("validation sampling", sizes, prompts=chunk, samples=section.samples)
    if section.collapse_samples:
        parts += _cross_scoring(
            "validation cross-scoring",
            sizes,
            contexts=section.prompts,
            group=section.collapse_samples,
            length=prompt_tokens,
            sampled=False,
        )
    return MemoryPlan(tuple(parts))


def device_memory(mesh: Mesh) -> int:
    """Bytes of the smallest device of a mesh; 0 where devices do not say what they have (CPUs)."""
    limits = [stats.get("bytes_limit", 0) for stats in (device.memory_stats() or {} for device in mesh.devices.flat)]
    return min((size for size in limits if size), default=0)


def check_memory(plan: MemoryPlan, limit: int) -> None:
    """Refuse a plan that needs more than ``limit`` bytes on a device.

    Raises:
      ValueError: with the plan.
    """
    if plan.peak > limit:
        table = "\n".join(plan.table())
        raise ValueError(
            f"the run needs about {plan.peak / GIB:.1f} GiB on each device, which has {limit / GIB:.1f} GiB; use more "
            f"devices (mesh.fsdp), fewer micro_groups, shorter rows or a smaller model:\n{table}"
        )


class _Network:
    """Bytes of a network on each device."""

    def __init__(self, init: Callable[[], Params], width: int, mesh: Mesh | AbstractMesh) -> None:
        shapes = jax.eval_shape(init)
        self.trained = _entries(trainable(shapes), mesh)
        self.entries = _entries(shapes, mesh)
        self.parameters = self.entries * width


def _entries(shapes: Params, mesh: Mesh | AbstractMesh) -> int:
    """Entries of all leaves on each device."""
    layout = shardings(shapes, mesh)
    return sum(
        math.prod(where.shard_shape(leaf.shape))
        for leaf, where in zip(jax.tree.leaves(shapes), jax.tree.leaves(layout), strict=True)
    )


def _resident(config: Config, name: str, network: _Network) -> list[Part]:
    parts = [
        Part("resident", f"{name}: parameters", network.parameters),
        Part("resident", f"{name}: two moments", network.trained * 2 * 4),
    ]
    if config.model.param_dtype != "float32":
        parts.append(Part("resident", f"{name}: float32 master copy", network.trained * 4))
    return parts


def _sampling(phase: str, sizes: Sizes, *, prompts: int, samples: int) -> list[Part]:
    """What a session of so many prompts and samples of each holds."""
    of_device = -(-prompts // sizes.shards)
    rows, length = of_device * samples, sizes.prompt_tokens
    return [
        Part(phase, "keys and values of prompts", sizes.cache(of_device, length)),
        Part(phase, "keys and values of rows", sizes.cache(rows, sizes.row_tokens)),
        # The prompts are run before anything is drawn.
        Part(
            phase,
            "logits and probabilities, or one layer of the prompts",
            max(3 * 4 * rows * sizes.model.vocab_rows, sizes.prompt_layer(of_device, length)),
        ),
    ]


class _Family(TypedDict):
    """Contexts, reasonings of each, tokens of a context; whether each prompt reads only some contexts."""

    contexts: int
    group: int
    length: int
    sampled: bool


def _families(config: Config, sizes: Sizes) -> Iterator[_Family]:
    """Pairs that a step may cross-score: first prompts, and contexts that are as long as a trajectory."""
    rollout, section = config.rollout, config.collapse
    first = sizes.prompt_tokens
    if section.every:
        group = section.rollouts or rollout.group_size
        yield _Family(
            contexts=rollout.prompts, group=group, length=first, sampled=0 < section.columns < rollout.prompts
        )
    if section.every and (section.trajectory or section.turn_uniform):
        yield _Family(
            contexts=section.trajectory_samples,
            group=1,
            length=first + sizes.row_tokens,
            sampled=0 < section.columns < section.trajectory_samples,
        )
    if config.probe.every and config.probe.mi_columns:
        yield _Family(contexts=config.probe.mi_columns, group=rollout.group_size, length=first, sampled=False)


def _cross_scoring(phase: str, sizes: Sizes, *, contexts: int, group: int, length: int, sampled: bool) -> list[Part]:
    """What the program of a family of pairs holds (see ``_Family``)."""
    chunk, longest = sizes.chunk, sizes.longest
    piece = pieces(reasonings=contexts * group, longest=longest, chunk=chunk, sampled=sampled)
    together = contexts_together(-(-contexts // sizes.shards), length=length, longest=longest, chunk=chunk)
    rows, tokens = piece.items * piece.rows, piece.items * piece.rows * piece.width
    activations = sizes.layer(tokens) + sizes.scores(rows, piece.width, keys=length + piece.width, copies=2)
    return [
        # All contexts, and those of a chunk once more.
        Part(phase, "keys and values of contexts", sizes.cache(contexts + piece.items, length)),
        Part(
            phase,
            "one layer of the contexts, or of a chunk and its logits",
            max(sizes.prompt_layer(together, length), activations + sizes.logits(tokens, copies=1)),
        ),
    ]


def _scoring(sizes: Sizes, *, groups: int) -> list[Part]:
    """What a forward pass over whole groups holds: log-probs of a reference, values of a critic, entropies."""
    rows, length = groups * sizes.group_size, sizes.row_tokens
    layer = sizes.forward_layer(rows, length, keys=sizes.prompt_tokens + length)
    return [
        Part("scoring", "keys and values of prompts", sizes.cache(groups, sizes.prompt_tokens)),
        Part("scoring", "states of the last layer", rows * length * sizes.model.width * sizes.itemsize),
        Part(
            "scoring",
            "one layer, or the logits of a chunk",
            max(layer, sizes.logits(rows * length, copies=1), sizes.prompt_layer(groups, sizes.prompt_tokens)),
        ),
    ]


def _backward(phase: str, sizes: Sizes, *, groups: int, rows: int) -> list[Part]:
    """What a backward pass over so many prompts and rows holds."""
    return [
        Part(phase, "activations kept for the backward pass", sizes.kept_activations(groups, rows)),
        # The head and a layer are not at work at the same time. The head holds logits and their gradient.
        Part(
            phase,
            "one layer, or the logits of a chunk, and back",
            max(sizes.layer_activations(groups, rows), sizes.logits(rows * sizes.row_tokens, copies=2)),
        ),
    ]


def described_mesh(*, data: int, fsdp: int, tensor: int) -> AbstractMesh:
    """A mesh of devices that need not be here."""
    return AbstractMesh((data, fsdp, tensor), AXES)
