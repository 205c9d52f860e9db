"""A GGUF file as a Hugging Face folder: the same logits as a forward pass on the file itself, and its tokenizer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ragen_jax.models.convert import load_model
from ragen_jax.models.gguf import gguf_to_folder, halves
from ragen_jax.rollout.prompting import ChatFormat
from ragen_jax.rollout.tokenizer import Tokenizer
from tests.models.gguf_fixtures import HD, HEADS, TOKENS, numpy_logits, read_gguf, write_gguf
from tests.models.hf_fixtures import our_logits

pytest.importorskip("gguf", reason="needs the extra realmodel")


@pytest.fixture(scope="module")
def gguf_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "m.gguf")


@pytest.fixture(scope="module")
def folder(gguf_file: Path) -> Path:
    return gguf_to_folder(gguf_file, gguf_file.with_name("folder"))


def _tokens(length: int = 64) -> np.ndarray:
    return np.random.default_rng(0).integers(3, len(TOKENS), (1, length)).astype(np.int32)


def test_logits_are_those_of_the_file(gguf_file: Path, folder: Path) -> None:
    config, params = load_model(folder)
    expected = numpy_logits(*read_gguf(gguf_file), _tokens()[0])[19:]
    assert np.abs(expected).max() > 1
    np.testing.assert_allclose(our_logits(config, params, _tokens(), prompt=20)[0], expected, atol=2e-5)


def test_without_undoing_the_order_of_rows_they_are_not(gguf_file: Path, folder: Path) -> None:
    config, params = load_model(folder)
    layers = dict(params["layers"])
    pairs = np.arange(HD).reshape(2, HD // 2).T.reshape(-1)
    for name in ("query", "key"):
        layers[name] = layers[name][..., pairs]
    expected = numpy_logits(*read_gguf(gguf_file), _tokens()[0])[19:]
    assert np.abs(our_logits(config, {**params, "layers": layers}, _tokens(), prompt=20)[0] - expected).max() > 1e-2


def test_halves_is_a_permutation_within_each_head() -> None:
    weight = np.arange(HEADS * HD * 3).reshape(HEADS * HD, 3)
    turned = halves(weight, heads=HEADS)
    np.testing.assert_array_equal(turned[:HD, 0], weight[[0, 2, 4, 6, 1, 3, 5, 7], 0])
    np.testing.assert_array_equal(np.sort(turned[:, 0]), weight[:, 0])


def test_the_tokenizer_is_rebuilt(folder: Path) -> None:
    tokenizer = Tokenizer.from_folder(folder)
    assert tokenizer.vocab_size == len(TOKENS)
    assert tokenizer.encode("hell42") == [TOKENS.index("hell"), TOKENS.index("4"), TOKENS.index("2")]
    assert tokenizer.decode(tokenizer.encode("<|im_start|>he ll<|im_end|>")) == "<|im_start|>he ll<|im_end|>"
    assert tokenizer.stop_ids == (2,)
    assert ChatFormat(tokenizer).first_text("", "hell").endswith("<|im_start|>assistant\n<think>")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [({"architecture": "mamba"}, "architecture 'mamba'"), ({"pre": "tekken"}, r"kind \('gpt2', 'tekken'\)")],
)
def test_other_files_are_refused(tmp_path: Path, options: dict[str, str], sentence: str) -> None:
    file = write_gguf(tmp_path / "m.gguf", **options)
    with pytest.raises(ValueError, match=sentence):
        gguf_to_folder(file, tmp_path / "folder")


def test_broken_and_missing_files_are_refused(tmp_path: Path, gguf_file: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(gguf_file.read_bytes()[:200])
    with pytest.raises(ValueError, match=r"broken\.gguf is no complete GGUF file"):
        gguf_to_folder(broken, tmp_path / "folder")
    with pytest.raises(ValueError, match="is no file"):
        gguf_to_folder(tmp_path / "none.gguf", tmp_path / "folder")
