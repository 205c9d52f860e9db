"""Time of the environments: 128 of them through the thread pool, and one step or search of the heavy ones.

    python -m experiments.bench.envs [--quick] [--save]

A batch is 8 groups of 16 environments with 4 worker threads: a reset on new seeds, then up to 5 turns of the random
player; only reset and step count. Targets on two processors: Sokoban within 2 s; FrozenLake, Countdown and Bandit
within 0.3 s; a WebShop step within 5 ms; a BM25 query of SearchQA within 5 ms. All are medians of wall time; the
processor time of the batches stands in the details. The judge of DeepCoder has ``experiments.bench.judge``.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

import numpy as np

from experiments._env_policies import sheet
from experiments.bench._report import Target, finish, options, run_bench
from ragen_jax.envs import env_config, make_env
from ragen_jax.envs.pool import EnvPool
from ragen_jax.envs.search_qa.index import Bm25Index
from ragen_jax.envs.search_qa.world import make_world

GROUPS, GROUP_SIZE, TURNS, WORKERS = 8, 16, 5, 4
TARGETS = {
    "sokoban_batch_s": Target(at_most=2.0),
    "frozen_lake_batch_s": Target(at_most=0.3),
    "countdown_batch_s": Target(at_most=0.3),
    "bandit_batch_s": Target(at_most=0.3),
    "webshop_step_ms": Target(at_most=5.0),
    "search_qa_query_ms": Target(at_most=5.0),
}


def main(argv: Sequence[str]) -> bool:
    """Measure, print, and say whether the targets hold."""
    chosen = options(__doc__, argv)
    batches = 5 if chosen.quick else 25
    ratios, processor = {}, {}
    for name in ("sokoban", "frozen_lake", "countdown", "bandit"):
        ratios[f"{name}_batch_s"], processor[f"{name}_batch_cpu_s"] = batch_seconds(name, batches)
    ratios["webshop_step_ms"] = 1e3 * shop_step_seconds(200 if chosen.quick else 2000)
    ratios["search_qa_query_ms"] = 1e3 * query_seconds(100 if chosen.quick else 1000)
    details = {name: float(f"{value:.4g}") for name, value in processor.items()} | {
        "batch": f"{GROUPS} x {GROUP_SIZE}, reset and up to {TURNS} turns, {WORKERS} threads"
    }
    return finish("envs", ratios, TARGETS, argv=argv, save=chosen.save, details=details)


def batch_seconds(name: str, batches: int) -> tuple[float, float]:
    """Median wall and processor seconds of a reset and up to five turns in 128 environments."""
    act = sheet(name).random.act
    rng = np.random.default_rng(0)
    wall, processor = [], []
    with EnvPool(name, env_config(name), groups=GROUPS, group_size=GROUP_SIZE, workers=WORKERS) as pool:
        for batch in range(batches + 1):  # the first one warms up
            began = time.perf_counter(), time.process_time()
            shown = pool.reset([10_000 + GROUPS * batch + group for group in range(GROUPS)])
            taken = time.perf_counter() - began[0], time.process_time() - began[1]
            seen: list[str | None] = [None if observation is None else observation.text for observation in shown]
            for _ in range(TURNS):
                answers = [
                    None if text is None else act(env, text, rng) for env, text in zip(pool.envs, seen, strict=True)
                ]
                began = time.perf_counter(), time.process_time()
                results = pool.step(answers)
                taken = taken[0] + time.perf_counter() - began[0], taken[1] + time.process_time() - began[1]
                seen = [None if result is None or result.done else result.observation.text for result in results]
            if any(pool.errors):
                raise RuntimeError(f"{name}: a row failed: {next(filter(None, pool.errors))}")
            if batch:
                wall.append(taken[0])
                processor.append(taken[1])
    return statistics.median(wall), statistics.median(processor)


def shop_step_seconds(steps: int) -> float:
    """Median seconds of one WebShop step of the random player, over 128 environments that share a shop."""
    act = sheet("webshop").random.act
    rng = np.random.default_rng(0)
    envs = [make_env("webshop") for _ in range(GROUPS * GROUP_SIZE)]
    shown = [env.reset(10_000 + number).text for number, env in enumerate(envs)]
    taken = []
    for step in range(steps):
        number = step % len(envs)
        answer = act(envs[number], shown[number], rng)
        began = time.perf_counter()
        result = envs[number].step(answer)
        taken.append(time.perf_counter() - began)
        shown[number] = envs[number].reset(20_000 + step).text if result.done else result.observation.text
    return statistics.median(taken)


def query_seconds(queries: int) -> float:
    """Median seconds of one search for a whole question among the invented passages."""
    world = make_world()
    index = Bm25Index(world.passages)
    texts = [world.questions[number % len(world.questions)].text for number in range(0, 7 * queries, 7)]
    taken = []
    for text in texts:
        began = time.perf_counter()
        index.search(text, 5)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


if __name__ == "__main__":
    run_bench(main)
