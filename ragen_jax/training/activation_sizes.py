"""Bytes of caches, activations and logits on each device, from shapes alone: the terms of a memory plan."""

from __future__ import annotations

import jax.numpy as jnp

from ragen_jax.config.schema import Config
from ragen_jax.models.config import ModelConfig
from ragen_jax.models.head import CHUNK
from ragen_jax.models.layers import SCORES
from ragen_jax.models.sharding import group_parts
from ragen_jax.sampling.sampler import row_capacity
from ragen_jax.training.batch_parts import default_micro_groups


class Sizes:
    """Shapes of one step on each device.

    Attributes:
      shards: parts that rows are split into.
      longest: tokens of the longest reasoning.
      chunk: reasonings that are cross-scored together.
      model: shapes of the policy.
      itemsize: bytes of an activation.
      prompt_tokens: padded tokens of a first prompt.
      row_tokens: slots of a row behind its prompt.
      group_size: rollouts of a prompt.
      micro: groups per gradient call, on all devices together.
      micro_groups: prompts that a device runs in such a call.
      micro_rows: rows that a device runs in such a call.
    """

    def __init__(
        self,
        config: Config,
        model: ModelConfig,
        *,
        prompt_tokens: int,
        observation_tokens: int,
        max_turns: int,
        shards: int,
    ) -> None:
        """Settle the shapes; see ``memory_plan``. ``shards`` is the number of parts that rows are split into."""
        rollout = config.rollout
        self.shards = shards
        self.longest, self.chunk = rollout.max_new_tokens, config.collapse.reasonings_per_chunk
        self.model, self.itemsize = model, jnp.dtype(config.model.compute_dtype).itemsize
        self.prompt_tokens = prompt_tokens
        self.row_tokens = row_capacity(
            max_turns=max_turns,
            max_new_tokens=rollout.max_new_tokens,
            observation_room=observation_tokens,
            max_context=rollout.max_context,
        )
        self.group_size = rollout.group_size
        self.micro = default_micro_groups(config, shards=shards)
        parts = group_parts(self.micro, group_size=rollout.group_size, shards=shards)
        self.micro_groups = self.micro * parts // shards  # or parts of groups
        self.micro_rows = self.micro_groups * rollout.group_size // parts

    def cache(self, rows: int, length: int) -> int:
        """Keys and values."""
        return 2 * self.model.layers * rows * length * self.model.kv_heads * self.model.head_dim * self.itemsize

    def logits(self, tokens: int, *, copies: int) -> int:
        """Float32 arrays over the vocabulary that are alive at once."""
        return copies * 4 * min(tokens, CHUNK) * self.model.vocab_rows

    def scores(self, rows: int, length: int, *, keys: int, copies: int) -> int:
        """Float32 attention scores of one layer that are alive at once."""
        return copies * 4 * min(rows * self.model.heads * length * keys, SCORES)

    def layer(self, tokens: int) -> int:
        """Activations inside one layer: norms, queries, keys, values, attention output and the gated MLP."""
        model = self.model
        width = 4 * model.width + 2 * (model.heads + 2 * model.kv_heads) * model.head_dim + 3 * model.mlp_width
        return tokens * width * self.itemsize

    def prompt_layer(self, prompts: int, length: int) -> int:
        """One layer of the forward pass over prompts or contexts."""
        return self.forward_layer(prompts, length, keys=length)

    def forward_layer(self, rows: int, length: int, *, keys: int) -> int:
        """One layer of a forward pass: its attention, then its MLP."""
        model = self.model
        stream, heads = 2 * model.width, 2 * (model.heads + 2 * model.kv_heads) * model.head_dim
        attention, mlp = (
            rows * length * width * self.itemsize for width in (stream + heads, stream + 3 * model.mlp_width)
        )
        return max(attention + self.scores(rows, length, keys=keys, copies=2), mlp)

    def kept_activations(self, groups: int, rows: int) -> int:
        """Inputs of every layer, and keys and values of the prompts with their gradients."""
        tokens = rows * self.row_tokens + groups * self.prompt_tokens
        kept = self.model.layers * tokens * self.model.width * self.itemsize
        return kept + 2 * self.cache(groups, self.prompt_tokens)

    def layer_activations(self, groups: int, rows: int) -> int:
        """One layer computed again, with its gradients."""
        tokens = rows * self.row_tokens + groups * self.prompt_tokens
        of_rows = self.scores(rows, self.row_tokens, keys=self.prompt_tokens + self.row_tokens, copies=2)
        of_prompts = self.scores(groups, self.prompt_tokens, keys=self.prompt_tokens, copies=3)
        return 2 * self.layer(tokens) + max(of_rows, of_prompts)
