"""What makes us fast, pinned by counts and by the compiler's own figures; wall time is the benches' business."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from experiments.bench import _rivals, cross_score, device, sampler, startup, step, update
from experiments.bench._rivals import Rival, RivalError
from experiments.bench._workload import SMALL, Timing, random_model, random_prompts, take_turns
from ragen_jax.learner.score import ScoreConfig
from ragen_jax.learner.update import UpdateConfig, actor_terms
from ragen_jax.models.config import ModelConfig
from ragen_jax.models.transformer import init_params
from ragen_jax.sampling.sampler import prefill
from ragen_jax.types import LearnerBatch

# Little vocabulary: the head runs on response tokens only, shared prompt or not.
NARROW = dataclasses.replace(SMALL, vocab_rows=64, layers=1, width=64, heads=4, kv_heads=2, head_dim=16, mlp_width=256)


def flops(groups: int, group_size: int, prompt: int) -> float:
    """Arithmetic of the policy gradient of a batch as it is lowered; nothing is compiled or run."""
    settings = UpdateConfig(
        model=NARROW, critic=None, scoring=ScoreConfig(vocab_size=64), algorithm=update.ALGORITHM, micro_groups=groups
    )

    def shape(*more: int, dtype: Any = np.float32) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((groups, *more), dtype)

    floats = shape(group_size, 64)
    batch = LearnerBatch(
        prompt_tokens=shape(prompt, dtype=np.int32),
        prompt_mask=shape(prompt, dtype=bool),
        tokens=shape(group_size, 64, dtype=np.int32),
        attention_mask=shape(group_size, 64, dtype=bool),
        response_mask=shape(group_size, 64, dtype=bool),
        old_log_probs=floats,
        ref_log_probs=floats,
        values=floats,
        advantages=floats,
        returns=floats,
        weights=shape(group_size),
    )
    params = jax.eval_shape(lambda: init_params(NARROW, jax.random.key(0)))
    gradient = jax.grad(lambda p, b: actor_terms(p, settings, b, np.float32(1))[0].actor)
    return jax.jit(gradient).lower(params, batch).cost_analysis()["flops"]


@pytest.mark.parametrize(("prompt", "least"), [(100, 2.0), (300, 3.5)])
def test_a_shared_prompt_saves_most_of_the_arithmetic_of_the_update(prompt: int, least: float):
    assert flops(16, 1, prompt) / flops(1, 16, prompt) > least


def test_the_prompt_is_cached_once_for_its_group():
    prompts = random_prompts(20, prompts=3)
    cache, rows = jax.eval_shape(
        lambda p: prefill(p, NARROW, prompts.tokens, prompts.mask, "float32", 16, 8), random_model(NARROW)
    )
    assert cache.keys.shape == (NARROW.layers, 3, NARROW.kv_heads, NARROW.head_dim, 20)
    assert rows.keys[0].shape == (48, NARROW.kv_heads, NARROW.head_dim, 8)


@pytest.mark.parametrize("size", sorted(cross_score.SIZES))
def test_cross_scoring_runs_few_more_tokens_than_it_must(size: tuple[int, int]):
    counts = cross_score.token_counts(cross_score.ragged_pairs(*size))
    assert counts["tokens_over_minimum"] < 1.25
    assert counts["padded_tokens_over_minimum"] > 6


def test_cross_scoring_never_holds_the_logits_of_all_tokens():
    config = ModelConfig(
        name="wide vocabulary",
        vocab_rows=60_000,
        width=32,
        layers=1,
        heads=2,
        kv_heads=1,
        head_dim=16,
        mlp_width=32,
    )
    whole = 8 * 16 * 128 * config.vocab_rows * 4  # of the reasonings under one context
    assert cross_score.temporary_bytes(config) < whole / 2


def test_turns_are_taken_in_rounds_and_ratios_are_within_them(monkeypatch: pytest.MonkeyPatch):
    order: list[str] = []
    timing = take_turns({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, rounds=2)
    assert order == ["a", "b", "a", "b", "a", "b"]
    assert {way: len(taken) for way, taken in timing.seconds.items()} == {"a": 2, "b": 2}
    timing = Timing({"slow": [4.0, 9.0, 5.0], "fast": [2.0, 3.0, 5.0]})
    assert timing.ratio("slow", "fast") == 2.0 and timing.spread("slow", "fast") == [1.0, 3.0]
    assert timing.median("slow") == 5.0


def test_a_rival_that_fails_is_named_with_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RAGEN_RIVALS", str(tmp_path))
    monkeypatch.setitem(_rivals.WORKERS, "trl", "no_such_worker.py")
    python = tmp_path / "trl" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho 'ValueError: no luck' >&2\nexit 1\n")
    python.chmod(0o755)
    with Rival("trl", {}) as rival, pytest.raises(RivalError, match="trl ended without an answer: ValueError: no luck"):
        rival.turn()
    assert _rivals.installed("trl") == ""
    (tmp_path / "trl" / "packages.txt").write_text("numpy==2.0\ntrl==1.16.0\ntorch==2.13.0\n")
    assert _rivals.installed("trl") == "trl==1.16.0 torch==2.13.0"


def test_without_rivals_the_command_that_installs_them_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RAGEN_RIVALS", str(tmp_path))
    with pytest.raises(ValueError, match=r"no rival is installed in .*: .*sh experiments/bench/rivals\.sh"):
        step.main(["--quick"])
    with pytest.raises(RivalError, match=r"trl is not installed in .*sh experiments/bench/rivals\.sh"):
        Rival("trl", {})


@pytest.mark.slow
def test_our_step_learns_what_the_rivals_are_paid_for():
    prompts = random_prompts(10)
    ours = step.OurStep(random_model(), prompts)
    tokens, log_probs = ours.rollout()
    assert tokens.shape == log_probs.shape == (128, 64) and (log_probs < 0).all()
    metrics = ours.update(tokens, log_probs)
    assert metrics["update/finite"] == metrics["update/applied"] == 1
    assert abs(metrics["loss/task"]) < 1e-4 and metrics["policy/max_ratio_gap"] < 1e-4
    assert set(ours.turn()) == {"rollout", "update"}


def test_every_target_has_a_place_in_the_record():
    benches = (
        cross_score.TARGETS,
        sampler.TARGETS,
        sampler.LARGE_TARGET,
        step.TARGETS,
        update.TARGETS,
        startup.TARGETS,
    )
    for targets in benches:
        assert all((target.at_least is None) != (target.at_most is None) for target in targets.values())


@pytest.mark.slow
def test_the_device_bench_runs_on_a_cpu_with_a_tiny_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    device.main(["--tiny", "--out", str(tmp_path / "device.json")])
    record = json.loads((tmp_path / "device.json").read_text(encoding="utf-8"))
    numbers = record["models"]["tiny"]
    for name in ("decode_tokens_per_second", "update_seconds", "cross_score_seconds", "full_forward_over_ours"):
        assert math.isfinite(numbers[name])
    assert numbers["decode_bandwidth_share"] is None and numbers["update_mfu"] is None  # limits of a CPU are not known
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == record


@pytest.mark.slow
def test_a_start_is_timed(tmp_path: Path):
    run = startup.first_step(tmp_path / "cache", startup.BARE)
    assert 0 < run["imports"] < run["wall"] and run["cpu"] > 0
