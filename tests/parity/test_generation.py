"""Our sampler against ``generate`` of transformers: greedy tokens, and the log-probs of what was drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragen_jax.models.convert import load_model
from ragen_jax.models.sharding import make_mesh
from ragen_jax.sampling.sampler import Sampler, SamplerConfig
from ragen_jax.types import Responses
from tests.models.hf_fixtures import KINDS, random_checkpoint

torch = pytest.importorskip("torch", reason="needs the extra parity")
pytestmark = pytest.mark.parity

GROUP, NEW = 3, 24
LENGTHS = [4, 17, 9, 31]


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def _prompts() -> tuple[np.ndarray, np.ndarray]:
    width = max(LENGTHS)
    mask = np.arange(width) >= width - np.array(LENGTHS)[:, None]
    tokens = np.random.default_rng(3).integers(2, 160, mask.shape)
    return np.where(mask, tokens, 0).astype(np.int32), mask


def _torch_model(folder: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32, local_files_only=True).eval()


def _respond(folder: Path, temperature: float) -> Responses:
    config, params = load_model(folder)
    settings = SamplerConfig(
        vocab_size=config.vocab_rows, stop_ids=(), max_new_tokens=NEW, temperature=temperature, observation_room=0
    )
    tokens, mask = _prompts()
    session = Sampler(params, config, settings, make_mesh(data=1)).begin(
        tokens, mask, group_size=GROUP, max_turns=1, max_context=NEW, seed=(0, 0)
    )
    return session.respond(np.ones(len(tokens) * GROUP, bool))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_greedy_tokens_of_ragged_prompts_in_groups_equal_those_of_transformers(tmp_path: Path, kind: str) -> None:
    folder = random_checkpoint(tmp_path / kind, kind)
    ours = _respond(folder, temperature=0.0).tokens.reshape(len(LENGTHS), GROUP, NEW)
    tokens, mask = (torch.tensor(x, dtype=torch.long) for x in _prompts())
    with torch.inference_mode():
        theirs = (
            _torch_model(folder)
            .generate(
                input_ids=tokens,
                attention_mask=mask,
                do_sample=False,
                min_new_tokens=NEW,
                max_new_tokens=NEW,
                eos_token_id=None,
                pad_token_id=0,
            )[:, tokens.shape[1] :]
            .numpy()
        )
    assert len({tuple(row) for row in theirs}) == len(LENGTHS)  # every prompt has an answer of its own
    for member in range(GROUP):
        np.testing.assert_array_equal(ours[:, member], theirs)


@pytest.mark.parametrize("kind", ["qwen2_tied", "llama3_scaled"])
def test_c11_drawn_log_probs_equal_a_full_pass_of_transformers_row_by_row(tmp_path: Path, kind: str) -> None:
    folder = random_checkpoint(tmp_path / kind, kind)
    replies = _respond(folder, temperature=1.0)
    model = _torch_model(folder)
    tokens, mask = _prompts()
    for row in range(len(replies.tokens)):
        prompt = tokens[row // GROUP][mask[row // GROUP]]
        whole = torch.tensor(np.concatenate([prompt, replies.tokens[row]])[None], dtype=torch.long)
        with torch.inference_mode():
            scores = torch.log_softmax(model(input_ids=whole).logits[0, len(prompt) - 1 : -1], dim=-1)
        expected = scores.gather(1, whole[0, len(prompt) :, None])[:, 0].numpy()
        np.testing.assert_allclose(replies.log_probs[row], expected, atol=1e-4)
