"""The memory plan: exact for what stays, near the compiler's figure for what comes and goes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import plan as plan_module
from ragen_jax.config import Config, compose
from ragen_jax.learner.cross_score import _score_items, plan_work
from ragen_jax.learner.gradient_probe import PARAMETER_BUFFERS
from ragen_jax.learner.optimizer import adam, with_master
from ragen_jax.learner.score import ScoreConfig, score
from ragen_jax.learner.state import build_state
from ragen_jax.learner.update import UpdateConfig, build_update
from ragen_jax.models.config import ModelConfig
from ragen_jax.models.lora import with_adapters
from ragen_jax.models.sharding import make_mesh
from ragen_jax.models.transformer import init_params
from ragen_jax.sampling.sampler import Sampler, SamplerConfig, prefill
from ragen_jax.training import build as build_module
from ragen_jax.training.batch_parts import default_micro_groups, micro_group_choices, validation_chunk
from ragen_jax.training.memory_plan import (
    MemoryPlan,
    Part,
    check_memory,
    described_mesh,
    device_memory,
    memory_plan,
)
from ragen_jax.training.policies import in_dtype, with_new_adapters
from ragen_jax.types import LearnerBatch, ReasoningPairs

BASE: dict[str, Any] = {
    "name": "m",
    "vocab_rows": 4096,
    "width": 128,
    "layers": 4,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 32,
    "mlp_width": 352,
}


def _config(*, tokens: int, dtype: str, micro_groups: int, **rollout: int) -> Config:
    config = compose("frozen_lake_tiny", "grpo")
    return dataclasses.replace(
        config,
        micro_groups=micro_groups,
        model=dataclasses.replace(config.model, compute_dtype=dtype, param_dtype=dtype),
        rollout=dataclasses.replace(config.rollout, max_new_tokens=tokens, max_context=tokens, **rollout),
    )


def _plan(config: Config, model: ModelConfig, *, prompt_tokens: int, critic: ModelConfig | None = None) -> MemoryPlan:
    """The plan of episodes of one turn on one device."""
    return memory_plan(
        config,
        model,
        critic,
        prompt_tokens=prompt_tokens,
        observation_tokens=16,
        max_turns=1,
        mesh=make_mesh(data=1),
    )


def _compiled(model: ModelConfig, config: Config, *, prompt: int, tokens: int) -> Any:
    """The compiler's memory figures of the update on one device."""
    dtype = config.model.param_dtype
    optimizer = adam(lr=1e-4, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, grad_clip=1.0, warmup_updates=0)
    optimizer = optimizer if dtype == "float32" else with_master(optimizer)
    mesh = make_mesh(data=1)
    params = with_new_adapters(in_dtype(init_params(model, jax.random.key(0)), config), config)
    state = build_state(params, None, optimizer, None, mesh=mesh)
    settings = UpdateConfig(
        model=model,
        critic=None,
        scoring=ScoreConfig(vocab_size=model.vocab_rows, dtype=dtype),
        algorithm=config.algorithm,
        micro_groups=config.micro_groups,
    )
    update = build_update(settings, optimizer, None, state, mesh=mesh)
    prompts, group = config.rollout.prompts, config.rollout.group_size

    def zeros(kind: Any, *shape: int) -> jax.Array:
        return jnp.zeros(shape, kind)

    rows = (prompts, group, tokens)
    batch = LearnerBatch(
        prompt_tokens=zeros(jnp.int32, prompts, prompt),
        prompt_mask=zeros(bool, prompts, prompt),
        tokens=zeros(jnp.int32, *rows),
        attention_mask=zeros(bool, *rows),
        response_mask=zeros(bool, *rows),
        old_log_probs=zeros(jnp.float32, *rows),
        ref_log_probs=zeros(jnp.float32, *rows),
        values=zeros(jnp.float32, *rows),
        advantages=zeros(jnp.float32, *rows),
        returns=zeros(jnp.float32, *rows),
        weights=zeros(jnp.float32, prompts, group),
    )
    scalars = (zeros(jnp.int32, prompts), jnp.int32(1), *(jnp.float32(1),) * 3)
    return update.lower(state, batch, *scalars).compile().memory_analysis()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "prompt", "tokens", "dtype", "micro_groups"),
    [
        ({}, 300, 256, "float32", 1),
        ({}, 128, 128, "bfloat16", 2),
        ({"vocab_rows": 32_000, "tied": False}, 64, 300, "float32", 1),
        ({}, 1024, 64, "float32", 1),
    ],
)
def test_the_plan_is_near_the_compilers_figures(
    shape: dict[str, Any], prompt: int, tokens: int, dtype: str, micro_groups: int
) -> None:
    model = ModelConfig(**BASE | shape)
    config = _config(tokens=tokens, dtype=dtype, micro_groups=micro_groups, prompts=4, group_size=16)
    plan = memory_plan(
        config, model, None, prompt_tokens=prompt, observation_tokens=16, max_turns=1, mesh=make_mesh(data=1)
    )
    found = _compiled(model, config, prompt=prompt, tokens=tokens)
    assert plan.phase("resident") == pytest.approx(found.argument_size_in_bytes, rel=0.06)  # the batch is small
    peak = plan.phase("resident") + max(plan.phase("gradients"), plan.phase("optimiser"))
    assert 0.65 < peak / (found.argument_size_in_bytes + found.temp_size_in_bytes) < 1.5


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [64, 200])
def test_the_plan_knows_the_logits_of_short_rows_under_a_large_vocabulary(tokens: int) -> None:
    """With adapters hardly anything but the head is large: one array of the vocabulary's size more or less shows."""
    config = _config(tokens=tokens, dtype="float32", micro_groups=1, prompts=4, group_size=16)
    config = dataclasses.replace(config, model=dataclasses.replace(config.model, lora_rank=8))
    model = with_adapters(ModelConfig(**BASE | {"vocab_rows": 64_000}), rank=8, alpha=16.0)
    plan = _plan(config, model, prompt_tokens=64)
    found = _compiled(model, config, prompt=64, tokens=tokens)
    assert 0.9 < plan.phase("gradients") / found.temp_size_in_bytes < 1.3


def _long_pairs(contexts: int, group: int, *, prompt: int, reasoning: int) -> ReasoningPairs:
    rng = np.random.default_rng(0)
    return ReasoningPairs(
        prompt_tokens=rng.integers(0, 4096, (contexts, prompt)).astype(np.int32),
        prompt_mask=np.ones((contexts, prompt), bool),
        reasoning_tokens=rng.integers(0, 4096, (contexts, group, reasoning)).astype(np.int32),
        reasoning_mask=np.ones((contexts, group, reasoning), bool),
        column_class=np.arange(contexts, dtype=np.int32),
    )


def _scoring_bytes(model: ModelConfig, pairs: ReasoningPairs, *, chunk: int, columns: np.ndarray | None = None) -> int:
    """The compiler's figure of cross-scoring."""
    work = plan_work(pairs, chunk=chunk, columns=columns)
    program = _score_items.lower(
        jax.eval_shape(lambda: init_params(model, jax.random.key(0))),
        model,
        ScoreConfig(vocab_size=model.vocab_rows),
        *work.arrays,
        work.at_once,
        work.contexts_at_once,
        mesh=make_mesh(data=1),
    )
    return int(program.compile().memory_analysis().temp_size_in_bytes)


@pytest.mark.parametrize(("contexts", "group", "prompt"), [(8, 4, 1024), (64, 1, 1536)], ids=["first", "trajectory"])
def test_the_plan_is_near_the_compilers_figure_of_cross_scoring(contexts: int, group: int, prompt: int) -> None:
    model, reasoning = ModelConfig(**BASE), 64
    config = _config(tokens=reasoning, dtype="float32", micro_groups=1, prompts=8, group_size=4)
    section = dataclasses.replace(config.collapse, trajectory=contexts == 64, trajectory_samples=64)
    config = dataclasses.replace(config, collapse=section)
    first = prompt - reasoning * (contexts == 64)  # the context of a trajectory holds its responses
    plan = _plan(config, model, prompt_tokens=first)
    pairs = _long_pairs(contexts, group, prompt=prompt, reasoning=reasoning)
    found = _scoring_bytes(model, pairs, chunk=section.reasonings_per_chunk)
    assert 0.9 < plan.phase("cross-scoring") / found < 1.5


def test_the_plan_is_near_the_compilers_figure_of_sampled_columns() -> None:
    model, reasoning, prompt = ModelConfig(**BASE), 64, 256
    config = _config(tokens=reasoning, dtype="float32", micro_groups=1, prompts=8, group_size=16)
    config = dataclasses.replace(config, collapse=dataclasses.replace(config.collapse, columns=4))
    columns = (np.arange(8)[:, None] + np.arange(4)).astype(np.int32) % 8
    pairs = _long_pairs(8, 16, prompt=prompt, reasoning=reasoning)
    found = _scoring_bytes(model, pairs, chunk=config.collapse.reasonings_per_chunk, columns=columns)
    assert 0.9 < _plan(config, model, prompt_tokens=prompt).phase("cross-scoring") / found < 1.5


def test_only_what_is_scored_is_planned() -> None:
    model = ModelConfig(**BASE)
    config = _config(tokens=64, dtype="float32", micro_groups=1, prompts=8, group_size=4)
    never = dataclasses.replace(config, collapse=dataclasses.replace(config.collapse, every=0))
    assert _plan(never, model, prompt_tokens=64).phase("cross-scoring") == 0
    probe = dataclasses.replace(config.probe, every=2, mi_columns=4)
    probed = _plan(dataclasses.replace(never, probe=probe), model, prompt_tokens=64).phase("cross-scoring")
    assert 0 < probed < _plan(config, model, prompt_tokens=64).phase("cross-scoring")


def _prefill_bytes(model: ModelConfig, prompts: int, length: int, *, samples: int, capacity: int) -> int:
    """The compiler's figure of the first program of a session."""
    params = jax.eval_shape(lambda: init_params(model, jax.random.key(0)))
    tokens, mask = (jax.ShapeDtypeStruct((prompts, length), kind) for kind in (jnp.int32, jnp.bool_))
    found = prefill.lower(params, model, tokens, mask, "float32", samples, capacity).compile().memory_analysis()
    return int(found.temp_size_in_bytes + found.output_size_in_bytes)


def test_the_plan_is_near_the_compilers_figure_of_the_prompts_of_the_sampler() -> None:
    model, prompts, length = ModelConfig(**BASE), 8, 1024
    config = _config(tokens=64, dtype="float32", micro_groups=1, prompts=prompts, group_size=16)
    found = _prefill_bytes(model, prompts, length, samples=16, capacity=64)
    assert 0.9 < _plan(config, model, prompt_tokens=length).phase("sampling") / found < 1.5


def test_whole_groups_are_scored_where_their_gradients_are_split() -> None:
    """Two groups on four devices: half a group each in the update, a whole one each when values are scored."""
    model, length, group, tokens = ModelConfig(**BASE), 64, 16, 128
    config = _config(tokens=tokens, dtype="float32", micro_groups=2, prompts=4, group_size=group)
    shapes = {"prompt_tokens": length, "observation_tokens": 16, "max_turns": 1}
    plan = memory_plan(config, model, model, **shapes, mesh=described_mesh(data=4, fsdp=1, tensor=1))
    assert plan.phase("scoring") == memory_plan(
        dataclasses.replace(config, micro_groups=1), model, model, **shapes, mesh=make_mesh(data=1)
    ).phase("scoring")
    params = jax.eval_shape(lambda: init_params(model, jax.random.key(0)))
    prompts, mask = (jax.ShapeDtypeStruct((1, length), kind) for kind in (jnp.int32, jnp.bool_))
    rows = jax.ShapeDtypeStruct((1, group, tokens), jnp.int32)
    settings = ScoreConfig(vocab_size=model.vocab_rows)
    found = score.lower(params, model, settings, prompts, mask, rows, 1).compile().memory_analysis()
    assert 0.8 < plan.phase("scoring") / found.temp_size_in_bytes < 1.5
    assert _plan(config, model, prompt_tokens=length).phase("scoring") == 0


def test_a_validation_has_phases_of_its_own() -> None:
    """A sample of each of 128 prompts is as many rows as 16 of each of 8, but far more prompts."""
    model, length = ModelConfig(**BASE), 512
    config = _config(tokens=64, dtype="float32", micro_groups=1, prompts=8, group_size=16)
    section = dataclasses.replace(config.validation, prompts=256, samples=1, collapse_samples=1)
    config = dataclasses.replace(config, validation=section)
    plan = _plan(config, model, prompt_tokens=length)
    chunk = validation_chunk(config, shards=1)
    assert chunk == 128
    sampling = _prefill_bytes(model, chunk, length, samples=1, capacity=64)
    assert 0.9 < plan.phase("validation sampling") / sampling < 1.5
    pairs = _long_pairs(256, 1, prompt=length, reasoning=64)
    scoring = _scoring_bytes(model, pairs, chunk=config.collapse.reasonings_per_chunk)
    assert 0.9 < plan.phase("validation cross-scoring") / scoring < 1.5
    assert plan.peak == plan.phase("resident") + plan.phase("validation sampling")
    unscored = dataclasses.replace(config, validation=dataclasses.replace(section, collapse_samples=0))
    assert _plan(unscored, model, prompt_tokens=length).phase("validation cross-scoring") == 0


@pytest.mark.parametrize("max_context", [200, 50])
def test_the_rows_that_are_planned_are_those_that_a_session_begins_with(max_context: int) -> None:
    model = ModelConfig(**BASE | {"layers": 1})
    config = _config(tokens=20, dtype="float32", micro_groups=1, prompts=2, group_size=4)
    config = dataclasses.replace(config, rollout=dataclasses.replace(config.rollout, max_context=max_context))
    rollout, mesh = config.rollout, make_mesh(data=1)
    plan = memory_plan(config, model, None, prompt_tokens=8, observation_tokens=48, max_turns=3, mesh=mesh)
    settings = SamplerConfig(
        vocab_size=model.vocab_rows,
        stop_ids=(),
        max_new_tokens=rollout.max_new_tokens,
        observation_room=48,
    )
    sampler = Sampler(init_params(model, jax.random.key(0)), model, settings, mesh)
    prompts = np.ones((2, 8), np.int32)
    session = sampler.begin(prompts, prompts > 0, group_size=4, max_turns=3, max_context=rollout.max_context, seed=(0,))
    held = sum(leaf.nbytes for leaf in jax.tree.leaves((session._rows.keys, session._rows.values)))
    assert held == next(part.size for part in plan.parts if part.name == "keys and values of rows")
    assert session._rows.capacity == min(max_context, 3 * 20 + 2 * 48)


def test_devices_share_the_rows_of_a_group_but_not_its_prompt() -> None:
    """Two groups on eight devices: a quarter of the rows each; on two devices a whole group each."""
    model = ModelConfig(**BASE)

    def kept(shards: int, *, tokens: int, prompt: int) -> int:
        config = _config(tokens=tokens, dtype="float32", micro_groups=0, prompts=8, group_size=4)
        config = dataclasses.replace(config, algorithm=dataclasses.replace(config.algorithm, minibatch_groups=2))
        mesh = described_mesh(data=shards, fsdp=1, tensor=1)
        plan = memory_plan(config, model, None, prompt_tokens=prompt, observation_tokens=16, max_turns=1, mesh=mesh)
        return next(part.size for part in plan.parts if part.name == "activations kept for the backward pass")

    assert kept(8, tokens=4096, prompt=16) / kept(2, tokens=4096, prompt=16) == pytest.approx(1 / 4, rel=0.05)
    assert kept(8, tokens=16, prompt=4096) / kept(2, tokens=16, prompt=4096) == pytest.approx(1, rel=0.05)


def test_sharding_divides_what_is_sharded() -> None:
    model = ModelConfig(**BASE)
    config = _config(tokens=64, dtype="float32", micro_groups=8, prompts=8, group_size=4)
    one, eight = (
        memory_plan(
            config,
            model,
            None,
            prompt_tokens=64,
            observation_tokens=16,
            max_turns=1,
            mesh=described_mesh(data=1, fsdp=fsdp, tensor=tensor),
        )
        for fsdp, tensor in ((1, 1), (4, 2))
    )
    sizes = {part.name: part.size for part in one.parts}
    for part in eight.parts:
        if part.name == "keys and values of rows":
            assert part.size == sizes[part.name] // 4
    assert eight.phase("resident") < one.phase("resident") / 2
    assert eight.peak < one.peak


def test_what_a_run_keeps_shows_up() -> None:
    model = ModelConfig(**BASE)
    config = _config(tokens=64, dtype="bfloat16", micro_groups=1)
    plan = memory_plan(
        config, model, model, prompt_tokens=64, observation_tokens=16, max_turns=1, mesh=make_mesh(data=1)
    )
    names = [part.name for part in plan.parts]
    assert "policy: float32 master copy" in names and "critic: two moments" in names
    assert "first parameters (reference, scorer)" not in names
    with_kl = dataclasses.replace(config, algorithm=dataclasses.replace(config.algorithm, kl_coef=0.1))
    kept = memory_plan(
        with_kl, model, None, prompt_tokens=64, observation_tokens=16, max_turns=1, mesh=make_mesh(data=1)
    )
    assert next(part for part in kept.parts if "reference" in part.name).size == model.parameter_count() * 2


def test_a_probed_run_keeps_a_reference_and_room_for_its_gradients() -> None:
    model = ModelConfig(**BASE)
    config = _config(tokens=64, dtype="float32", micro_groups=1)
    probed = dataclasses.replace(config, probe=dataclasses.replace(config.probe, every=10))
    bare, plan = (_plan(choice, model, prompt_tokens=64) for choice in (config, probed))
    parameters = model.parameter_count() * 4
    assert plan.phase("resident") - bare.phase("resident") == parameters
    assert plan.phase("probe") > PARAMETER_BUFFERS * parameters
    half = dataclasses.replace(probed.model, param_dtype="bfloat16", compute_dtype="bfloat16")
    narrow = _plan(dataclasses.replace(probed, model=half), model, prompt_tokens=64)
    assert narrow.phase("probe") > PARAMETER_BUFFERS * parameters  # the sums are float32 whatever the parameters are
    assert bare.phase("probe") == 0
    assert plan.peak == plan.phase("resident") + plan.phase("probe")  # more than any other phase of this network


def test_a_reference_and_a_scorer_of_its_own_are_two_copies(tmp_path: Path) -> None:
    model = ModelConfig(**BASE)
    config = _config(tokens=64, dtype="float32", micro_groups=1)
    scored = dataclasses.replace(
        config,
        algorithm=dataclasses.replace(config.algorithm, kl_coef=0.1),
        collapse=dataclasses.replace(config.collapse, scorer=str(tmp_path)),
    )
    bare, plan = (_plan(choice, model, prompt_tokens=64) for choice in (config, scored))
    assert plan.phase("resident") - bare.phase("resident") == 2 * model.parameter_count() * 4


class _Device:
    def __init__(self, stats: dict[str, int] | None) -> None:
        self._stats = stats

    def memory_stats(self) -> dict[str, int] | None:
        return self._stats


class _Mesh:
    def __init__(self, *stats: dict[str, int] | None) -> None:
        self.devices = type("Devices", (), {"flat": [_Device(each) for each in stats]})()


def test_the_smallest_device_counts_and_a_cpu_says_nothing() -> None:
    assert device_memory(_Mesh({"bytes_limit": 5}, {"bytes_limit": 3})) == 3  # type: ignore[arg-type]
    assert device_memory(_Mesh(None, {})) == 0  # type: ignore[arg-type]
    assert device_memory(make_mesh(data=1)) == 0


def test_a_plan_that_does_not_fit_is_refused_with_its_table() -> None:
    plan = MemoryPlan((Part("resident", "parameters", 6 * 1024**3), Part("sampling", "caches", 3 * 1024**3)))
    check_memory(plan, 10 * 1024**3)
    with pytest.raises(ValueError, match=r"about 9\.0 GiB on each device, which has 8\.0 GiB(.|\n)*caches"):
        check_memory(plan, 8 * 1024**3)


@pytest.mark.parametrize(
    ("batch", "group", "shards", "choices", "default"),
    [
        (8, 16, 1, [8, 4, 2, 1], 1),
        (8, 16, 2, [8, 4, 2, 1], 2),  # one group can be shared by two devices, but each would run its prompt
        (8, 4, 8, [8, 4, 2], 8),
        (2, 16, 8, [2, 1], 2),  # no whole groups for all
        (6, 4, 4, [6, 3, 2, 1], 6),
    ],
)
def test_whole_groups_stand_before_groups_that_are_split(
    batch: int, group: int, shards: int, choices: list[int], default: int
) -> None:
    config = _config(tokens=8, dtype="float32", micro_groups=0, prompts=batch, group_size=group)
    assert micro_group_choices(config, shards=shards) == choices
    assert default_micro_groups(config, shards=shards) == default
    fixed = dataclasses.replace(config, micro_groups=choices[-1])
    assert micro_group_choices(fixed, shards=shards) == [choices[-1]]
    assert default_micro_groups(fixed, shards=shards) == choices[-1]


def _chosen(monkeypatch: pytest.MonkeyPatch, limit: int, **changes: Any) -> int:
    config = dataclasses.replace(compose("frozen_lake_tiny", "grpo", "cpu_debug"), **{"micro_groups": 0, **changes})
    config = dataclasses.replace(config, model=dataclasses.replace(config.model, init="random", warm_start=""))
    monkeypatch.setattr(build_module, "device_memory", lambda mesh: limit)
    parts = build_module.build(config)
    parts.close()
    return parts.config.micro_groups


def test_the_largest_micro_batch_that_fits_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _chosen(monkeypatch, 10**12) == 4  # the whole batch of four prompts
    assert _chosen(monkeypatch, 0) == 1  # nothing is known: the fewest
    assert _chosen(monkeypatch, 10**12, micro_groups=2) == 2
    with pytest.raises(ValueError, match="the run needs about"):
        _chosen(monkeypatch, 10**5)


def test_the_command_prints_a_plan_of_absent_devices(capsys: pytest.CaptureFixture[str]) -> None:
    plan_module.main(["preset=paper,sokoban,ppo,qwen2.5-3b", "devices=8", "mesh.fsdp=8", "micro_groups=8", "json=1"])
    record = json.loads(capsys.readouterr().out)
    parameters = next(part["bytes"] for part in record["parts"] if part["name"] == "policy: parameters")
    embedding = 151_936 * 2048  # split over the tensor axis only
    assert parameters == pytest.approx(2 * ((3_085_938_688 - embedding) / 8 + embedding), rel=1e-3)
    assert record["peak_bytes"] > sum(part["bytes"] for part in record["parts"] if part["phase"] == "resident")
    plan_module.main([])
    assert "peak" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["devices=0"], "devices=0: use a whole number"),
        (["prompt_tokens=x"], "prompt_tokens=x"),
        (["observation_tokens=0"], "observation_tokens=0: use a whole number"),
        (["devices=4", "mesh.fsdp=8"], "mesh.fsdp=8"),
    ],
)
def test_wrong_requests_are_refused(argv: list[str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        plan_module.main(argv)
