"""Print how much memory a run needs on each device of a mesh, without allocating anything.

python -m experiments.plan preset=paper,sokoban,grpo,qwen2.5-3b devices=8 mesh.fsdp=8
python -m experiments.plan preset=paper,sokoban,ppo,qwen2.5-7b devices=16 mesh.fsdp=8 mesh.tensor=2 prompt_tokens=1024
python -m experiments.plan preset=paper,sokoban,grpo,qwen2.5-3b prompt_tokens=768 observation_tokens=256

There is no tokenizer here: say how long the messages are. ``python -m experiments.train`` measures them itself.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from experiments._main import run_main
from experiments._options import whole_number
from ragen_jax.config import Config, parse
from ragen_jax.config.validate import check_mesh
from ragen_jax.envs import env_config
from ragen_jax.training.memory_plan import MemoryPlan, described_mesh, memory_plan
from ragen_jax.training.policies import critic_network, network

OWN = {
    "devices": "devices of the mesh (default 1); they need not be here",
    "prompt_tokens": "padded tokens of a first prompt (default 512)",
    "observation_tokens": "padded tokens of a later observation (default rollout.observation_bucket)",
    "json": "print one JSON object instead of the table",
}


def main(argv: Sequence[str]) -> None:
    """Print the plan."""
    parsed = parse(argv, default_presets=("paper", "sokoban", "grpo", "qwen2.5-3b"), own=OWN)
    devices = whole_number(parsed.rest, "devices", default=1, least=1)
    prompt_tokens = whole_number(parsed.rest, "prompt_tokens", default=512, least=1)
    observation_tokens = whole_number(
        parsed.rest, "observation_tokens", default=parsed.config.rollout.observation_bucket, least=1
    )
    result = plan(parsed.config, devices=devices, prompt_tokens=prompt_tokens, observation_tokens=observation_tokens)
    if "json" in parsed.rest:
        parts = [{"phase": part.phase, "name": part.name, "bytes": part.size} for part in result.parts]
        sys.stdout.write(json.dumps({"parts": parts, "peak_bytes": result.peak}) + "\n")
    else:
        sys.stdout.write("\n".join(result.table()) + "\n")


def plan(config: Config, *, devices: int, prompt_tokens: int, observation_tokens: int) -> MemoryPlan:
    """The plan of a configuration on so many devices.

    Raises:
      ValueError: a mesh that does not fit the devices or the batch.
    """
    data = check_mesh(config, devices)
    model = network(config)
    return memory_plan(
        config,
        model,
        critic_network(config, model),
        prompt_tokens=prompt_tokens,
        observation_tokens=observation_tokens,
        max_turns=env_config(config.env.name, **config.env.options).max_turns,
        mesh=described_mesh(data=data, fsdp=config.mesh.fsdp, tensor=config.mesh.tensor),
    )


if __name__ == "__main__":
    run_main(main)
