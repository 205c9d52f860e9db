"""The work that the benches of sampler, scoring and update share, and how its rivals are timed against each other."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ragen_jax.models.config import ModelConfig, model_config
from ragen_jax.models.convert import save_model
from ragen_jax.models.transformer import init_params
from ragen_jax.rollout.tokenizer import TINY_FOLDER
from ragen_jax.types import LearnerBatch, Params

PROMPTS, GROUP, NEW_TOKENS = 8, 16, 64
VOCAB = 1024
SMALL = dataclasses.replace(model_config("small"), vocab_rows=VOCAB)  # 4 layers, width 256
NEVER = VOCAB - 1  # an end token for rivals that need one; nothing here is made to stop


def pin_to_one_core() -> int:
    """Give this process one core and one thread for XLA and torch; call it before either does any work.

    A process that has one core already (``taskset``) keeps it.

    Returns:
      The core.
    """
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    os.environ["OMP_NUM_THREADS"] = "1"
    return core


@dataclasses.dataclass(frozen=True)
class Prompts:
    """First prompts, left padded: ``tokens`` [P, Lx] int32 and ``mask`` [P, Lx] bool."""

    tokens: np.ndarray
    mask: np.ndarray

    def tiled(self, times: int) -> Prompts:
        """Every prompt ``times`` in a row."""
        return Prompts(np.repeat(self.tokens, times, axis=0), np.repeat(self.mask, times, axis=0))


def random_prompts(length: int, *, ragged: bool = False, prompts: int = PROMPTS, seed: int = 0) -> Prompts:
    """Random prompts of ``length`` tokens, or of 80 to 100 % of it."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(-(-length * 4 // 5), length + 1, prompts) if ragged else np.full(prompts, length)
    mask = np.arange(length) >= length - lengths[:, None]
    tokens = rng.integers(3, VOCAB - 1, (prompts, length)).astype(np.int32)
    return Prompts(np.where(mask, tokens, 0).astype(np.int32), mask)


def full_batch(
    prompts: Prompts, tokens: np.ndarray, *, old_log_probs: np.ndarray, advantages: np.ndarray
) -> LearnerBatch:
    """A batch for the update whose responses have full length; every token counts, and every row alike.

    Args:
      prompts: P of them.
      tokens: [P, G, N], sampled.
      old_log_probs: [P, G, N], nats.
      advantages: [P, G].
    """
    zeros, everywhere = np.zeros(tokens.shape, np.float32), np.ones(tokens.shape, bool)
    return LearnerBatch(
        prompt_tokens=prompts.tokens,
        prompt_mask=prompts.mask,
        tokens=tokens,
        attention_mask=everywhere,
        response_mask=everywhere,
        old_log_probs=old_log_probs,
        ref_log_probs=zeros,
        values=zeros,
        advantages=np.broadcast_to(advantages[..., None], tokens.shape).astype(np.float32),
        returns=zeros,
        weights=np.ones(tokens.shape[:2], np.float32),
    )


def random_model(config: ModelConfig = SMALL, *, seed: int = 0) -> Params:
    """Random parameters."""
    return init_params(config, jax.random.key(seed))


@contextlib.contextmanager
def hugging_face_folder(config: ModelConfig, params: Params) -> Iterator[Path]:
    """The same weights in a folder that transformers loads."""
    with tempfile.TemporaryDirectory() as base:
        yield save_model(
            Path(base) / "model",
            config,
            params,
            tokenizer_folder=TINY_FOLDER,
            eos_token_id=min(NEVER, config.vocab_rows - 1),
            pad_token_id=0,
        )


def torch_model(folder: Path) -> Any:
    """The model of a folder in transformers, with torch's own fused attention, on one thread.

    Raises:
      ValueError: torch is not installed.
    """
    if importlib.util.find_spec("torch") is None:
        raise ValueError("this bench compares with torch, which is not installed: pip install 'ragen_jax[parity]'")
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(
        str(folder), dtype=torch.float32, attn_implementation="sdpa", local_files_only=True
    )
    return model.eval()


@dataclasses.dataclass(frozen=True)
class Timing:
    """Times of the same work done in several ways, taken in turns.

    They are CPU seconds of this process. With one thread on every side that is the wall time of a quiet machine, and
    other programs on the same core do not count.

    Attributes:
      seconds: by way, in the order they were taken.
    """

    seconds: Mapping[str, list[float]]

    def median(self, way: str) -> float:
        """Median seconds of a way."""
        return statistics.median(self.seconds[way])

    def ratio(self, slow: str, fast: str) -> float:
        """How many times the second way goes into the first: the median of the ratios within a round.

        Both sides of a round meet nearly the same load of the machine.
        """
        return statistics.median(a / b for a, b in zip(self.seconds[slow], self.seconds[fast], strict=True))

    def spread(self, slow: str, fast: str) -> list[float]:
        """Smallest and largest ratio of a round."""
        ratios = [a / b for a, b in zip(self.seconds[slow], self.seconds[fast], strict=True)]
        return [float(f"{min(ratios):.3g}"), float(f"{max(ratios):.3g}")]

    def details(self) -> dict[str, dict[str, float]]:
        """Median, least and most seconds of every way."""
        return {
            way: {
                name: float(f"{value:.3g}")
                for name, value in (("median_s", statistics.median(t)), ("min_s", min(t)), ("max_s", max(t)))
            }
            for way, t in self.seconds.items()
        }


def take_turns(ways: Mapping[str, Callable[[], Any]], *, rounds: int, warm_up: int = 1) -> Timing:
    """Time every way ``rounds`` times, one after the other in each round; calls that compile are left out."""
    for call in ways.values():
        for _ in range(warm_up):
            jax.block_until_ready(call())
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, call in ways.items():
            began = time.process_time()
            jax.block_until_ready(call())
            seconds[way].append(time.process_time() - began)
    return Timing(seconds)
