"""A GGUF file as a Hugging Face folder: the same logits as a forward pass on the file itself, and its tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragen_jax.models.convert import load_model
from ragen_jax.models.gguf import gguf_to_folder, halves
from ragen_jax.rollout.prompting import ChatFormat
from ragen_jax.rollout.tokenizer import Tokenizer
from tests.models.gguf_fixtures import HD, HEADS, TOKENS, numpy_logits, read_gguf, write_gguf
from tests.models.hf_fixtures import largest_file, our_logits

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


def test_ids_go_along(folder: Path) -> None:
    ids = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
    assert json.loads((folder / "generation_config.json").read_text()) == ids
    assert ids.items() <= json.loads((folder / "config.json").read_text()).items()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"architecture": "mamba"}, "architecture 'mamba'"),
        ({"header": {"tokenizer_pre": "tekken"}}, r"kind \('gpt2', 'tekken'\)"),
        ({"header": {"head_count": None}}, r"llama\.attention\.head_count must be int, found no such field"),
        ({"header": {"head_count_kv": [2, 2]}}, r"head_count_kv must be int, found '\[2, 2\]'"),
        ({"header": {"head_count_kv": 3}}, r"m\.gguf: heads=4 must be a multiple of kv_heads=3"),
        ({"header": {"rope_dimension_count": 4}}, r"rope\.dimension_count=4 is not supported, only .* 8"),
        ({"header": {"value_length": 4}}, r"attention\.value_length=4 is not supported"),
        ({"header": {"eos_token_id": 500}}, r"eos_token_id=500 is none of the \d+ tokens"),
        ({"header": {"chat_template": None}}, r"tokenizer\.chat_template must be str"),
        ({"header": {"token_merges": ["h e", "x y"]}}, r"broken tokenizer .*first merge without a token: \('x', 'y'\)"),
        ({"header": {"token_merges": ["h"]}}, r"broken tokenizer .*\('h',\)"),
        ({"header": {"token_types": [3]}}, "broken tokenizer .*, 1 token types"),
        (
            {"shapes": {"blk.1.attn_q.weight": None}},
            r"1 tensors are missing, first model\.layers\.1\.self_attn\.q_proj",
        ),
        ({"shapes": {"blk.0.attn_v.bias": (16,)}}, r"tensor blk\.0\.attn_v\.bias has no place"),
        ({"shapes": {"rope_freqs.weight": (4,)}}, r"tensor rope_freqs\.weight has no place"),
        ({"shapes": {"blk.2.attn_norm.weight": (32,)}}, r"tensor blk\.2\.attn_norm\.weight has no place"),
        (
            {"shapes": {"blk.0.attn_v.weight": (8, 32)}},
            r"attn_v\.weight has shape \(8, 32\), its header needs \(16, 32\)",
        ),
    ],
)
def test_other_files_are_refused(tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    file = write_gguf(tmp_path / "m.gguf", **options)
    with pytest.raises(ValueError, match=sentence):
        gguf_to_folder(file, tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["m.gguf"]


def test_a_disk_that_fills_up_leaves_nothing_and_the_same_call_works_again(tmp_path: Path, gguf_file: Path) -> None:
    with largest_file(40_000), pytest.raises(OSError, match="cannot be written"):
        gguf_to_folder(gguf_file, tmp_path / "folder")
    assert list(tmp_path.iterdir()) == []
    assert (gguf_to_folder(gguf_file, tmp_path / "folder") / "model.safetensors").stat().st_size > 40_000


def test_a_full_folder_is_refused_before_the_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("x")
    with pytest.raises(ValueError, match="is not empty: name a new folder"):
        gguf_to_folder(tmp_path / "none.gguf", tmp_path)


def test_broken_and_missing_files_are_refused(tmp_path: Path, gguf_file: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(gguf_file.read_bytes()[:200])
    with pytest.raises(ValueError, match=r"broken\.gguf is no complete GGUF file"):
        gguf_to_folder(broken, tmp_path / "folder")
    with pytest.raises(ValueError, match="is no file"):
        gguf_to_folder(tmp_path / "none.gguf", tmp_path / "folder")
