"""Into how many parts a batch is cut: groups of a gradient call, prompts that are validated at once."""

from __future__ import annotations

from ragen_jax.config.schema import Config


def micro_group_choices(config: Config, *, shards: int) -> list[int]:
    """What ``micro_groups`` may be: what the config says, or for 0 every divisor of the optimiser batch that fits.

    Sizes that give every device whole groups stand first, since of a group that is split each device runs the prompt;
    then those whose rows divide over the devices. Both are largest first.

    Args:
      config: the configuration.
      shards: parts that rows are split into, one for each device of the data and fsdp axes.
    """
    if config.micro_groups:
        return [config.micro_groups]
    batch, group = config.algorithm.minibatch_groups or config.rollout.prompts, config.rollout.group_size
    legal = [size for size in range(batch, 0, -1) if batch % size == 0 and size * group % shards == 0]
    return sorted(legal, key=lambda size: size % shards != 0)


def default_micro_groups(config: Config, *, shards: int) -> int:
    """``micro_groups`` where devices do not say what they have: the fewest whole groups, or else the whole batch."""
    choices = micro_group_choices(config, shards=shards)
    return min((size for size in choices if size % shards == 0), default=choices[0])


def validation_chunk(config: Config, *, shards: int) -> int:
    """Prompts validated at once: they divide all prompts and the devices, with no more rows than a training step.

    Args:
      config: the configuration.
      shards: see ``micro_group_choices``.

    Raises:
      ValueError: the validation prompts do not divide over the devices.
    """
    rows, prompts = config.rollout.prompts * config.rollout.group_size, config.validation.prompts
    largest = min(max(rows // config.validation.samples, shards), prompts)
    chunks = [n for n in range(shards, largest + 1, shards) if prompts % n == 0]
    if not chunks:
        raise ValueError(
            f"validation.prompts={prompts} does not divide over mesh data x fsdp = {shards}; use a multiple of {shards}"
        )
    return chunks[-1]
