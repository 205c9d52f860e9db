"""Our decoder against transformers on torch: one checkpoint folder, the same logits, and controls that must fail."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest

from ragen_jax.models.config import ModelConfig
from ragen_jax.models.convert import load_model, save_model
from ragen_jax.rollout.tokenizer import TINY_FOLDER
from ragen_jax.types import Params
from tests.models.hf_fixtures import (
    KINDS,
    LLAMA3,
    ROPE_AS_TRANSFORMERS,
    our_logits,
    random_checkpoint,
    some_tokens,
    tensors,
    write_checkpoint,
)

torch = pytest.importorskip("torch", reason="needs the extra parity")
pytestmark = pytest.mark.parity

PROMPT = 30
FP32 = 2e-5


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def _torch_model(folder: Path, dtype: str = "float32"):
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        str(folder), dtype=getattr(torch, dtype), attn_implementation="eager", local_files_only=True
    )
    return model.eval()


def _torch_logits(model, tokens: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        out = model(input_ids=torch.tensor(tokens, dtype=torch.long)).logits
    return out.float().numpy()[:, PROMPT - 1 :]


def _gap(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max())


@pytest.mark.parametrize("pad", [0, 7])
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_logits_equal_those_of_transformers(tmp_path: Path, kind: str, pad: int) -> None:
    folder = random_checkpoint(tmp_path / kind, kind)
    config, params = load_model(folder)
    tokens = some_tokens()
    theirs = _torch_logits(_torch_model(folder), tokens)
    assert np.abs(theirs).max() > 2  # logits near zero would hide any fault
    assert _gap(our_logits(config, params, tokens, prompt=PROMPT, pad=pad), theirs) < FP32


@pytest.mark.parametrize(("kind", "stated"), [("llama3_scaled", False), ("llama3_scaled", True), ("qwen2_tied", True)])
def test_without_a_number_of_key_value_heads_logits_equal_those_of_transformers(
    tmp_path: Path, kind: str, stated: bool
) -> None:
    fields = KINDS[kind] | {"num_key_value_heads": KINDS[kind]["num_attention_heads"]}
    weights = tensors(fields, seed=4)
    fields = {**fields, "num_key_value_heads": None}
    if not stated:
        del fields["num_key_value_heads"]
    folder = write_checkpoint(tmp_path / kind, fields, weights)
    config, params = load_model(folder)
    theirs = _torch_logits(_torch_model(folder), some_tokens())
    assert _gap(our_logits(config, params, some_tokens(), prompt=PROMPT), theirs) < FP32


@pytest.mark.parametrize("kind", ["qwen2_tied", "llama3_scaled", "qwen3"])
def test_bfloat16_is_as_good_as_torch(tmp_path: Path, kind: str) -> None:
    folder = random_checkpoint(tmp_path / kind, kind)
    config, params = load_model(folder, dtype="bfloat16")
    tokens = some_tokens()
    exact = _torch_logits(_torch_model(folder), tokens)
    theirs = np.abs(_torch_logits(_torch_model(folder, "bfloat16"), tokens) - exact)
    ours = np.abs(our_logits(config, params, tokens, prompt=PROMPT, dtype="bfloat16") - exact)
    assert ours.mean() <= 1.5 * theirs.mean()
    assert ours.max() <= 1.5 * theirs.max()


def _wrong_rotation(config: ModelConfig, params: Params) -> tuple[ModelConfig, Params]:
    """Queries and keys in the interleaved order of GGUF files, not undone."""
    half = config.head_dim // 2
    order = np.stack([np.arange(half), np.arange(half) + half], axis=1).reshape(-1)
    layers = {**params["layers"]}
    for name in ("query", "key"):
        layers[name] = layers[name][..., order]
    return config, {**params, "layers": layers}


CONTROLS = {
    "theta": ("qwen2_tied", lambda c, p: (dataclasses.replace(c, rope_theta=1e4), p)),
    "no_scaling": ("llama3_scaled", lambda c, p: (dataclasses.replace(c, rope_scaling=None), p)),
    "eps": ("llama3_scaled", lambda c, p: (dataclasses.replace(c, norm_eps=1e-3), p)),
    "rotation_order": ("llama_head_dim", _wrong_rotation),
    "no_qk_norm": ("qwen3", lambda c, p: (dataclasses.replace(c, qk_norm=False), p)),
    "no_bias": ("qwen2_untied", lambda c, p: (dataclasses.replace(c, qkv_bias=False), p)),
}


@pytest.mark.parametrize("control", sorted(CONTROLS))
def test_a_wrong_model_is_seen(tmp_path: Path, control: str) -> None:
    kind, spoil = CONTROLS[control]
    folder = random_checkpoint(tmp_path / kind, kind)
    config, params = spoil(*load_model(folder))
    theirs = _torch_logits(_torch_model(folder), some_tokens())
    assert _gap(our_logits(config, params, some_tokens(), prompt=PROMPT), theirs) > 100 * FP32


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_saved_model_loads_in_transformers(tmp_path: Path, kind: str) -> None:
    folder = random_checkpoint(tmp_path / kind, kind)
    config, params = load_model(folder)
    saved = save_model(
        tmp_path / "saved",
        config,
        params,
        tokenizer_folder=TINY_FOLDER,
        eos_token_id=1,
        pad_token_id=0,
        shard_bytes=100_000,
    )
    assert len(list(saved.glob("model-*-of-*.safetensors"))) > 1
    tokens = some_tokens()
    np.testing.assert_array_equal(
        _torch_logits(_torch_model(saved), tokens), _torch_logits(_torch_model(folder), tokens)
    )


def _both(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Our logits of a folder, and those of transformers."""
    config, params = load_model(folder)
    tokens = some_tokens()
    return our_logits(config, params, tokens, prompt=PROMPT), _torch_logits(_torch_model(folder), tokens)


@pytest.mark.parametrize("name", sorted(ROPE_AS_TRANSFORMERS))
def test_rotary_fields_in_two_places_count_as_in_transformers(tmp_path: Path, name: str) -> None:
    fields = KINDS["llama3_scaled"] | {"rope_theta": None, "rope_scaling": None}
    fields = {key: value for key, value in fields.items() if value is not None} | ROPE_AS_TRANSFORMERS[name][0]
    assert _gap(*_both(write_checkpoint(tmp_path / name, fields, tensors(fields, seed=0)))) < FP32


def test_a_base_that_does_not_count_is_refused_and_is_not_what_transformers_reads(tmp_path: Path) -> None:
    written = KINDS["llama3_scaled"]
    fields = {key: value for key, value in written.items() if key != "rope_theta"}
    fields |= {"rope_parameters": {"rope_theta": written["rope_theta"]}, "rope_scaling": LLAMA3}
    weights = tensors(written, seed=0)
    split = write_checkpoint(tmp_path / "split", fields, weights)
    with pytest.raises(ValueError, match="no rope_theta"):
        load_model(split)
    together = _torch_model(write_checkpoint(tmp_path / "together", written, weights))
    assert _gap(_torch_logits(_torch_model(split), some_tokens()), _torch_logits(together, some_tokens())) > 100 * FP32


def test_a_tied_model_with_a_head_of_its_own_is_refused_as_transformers_reads_the_head(tmp_path: Path) -> None:
    fields = KINDS["qwen2_tied"]
    weights = tensors(fields, seed=0)
    weights["lm_head.weight"] = np.random.default_rng(5).permutation(weights["model.embed_tokens.weight"])
    folder = write_checkpoint(tmp_path / "m", fields, weights)
    with pytest.raises(ValueError, match="set tie_word_embeddings=false"):
        load_model(folder)
    theirs = _torch_logits(_torch_model(folder), some_tokens())
    untied = write_checkpoint(tmp_path / "untied", fields | {"tie_word_embeddings": False}, weights)  # the fix
    config, params = load_model(untied)
    assert _gap(our_logits(config, params, some_tokens(), prompt=PROMPT), theirs) < FP32


def test_a_tied_tensor_under_the_name_of_the_head_is_the_embedding(tmp_path: Path) -> None:
    weights = tensors(KINDS["qwen2_tied"], seed=0)
    weights["lm_head.weight"] = weights.pop("model.embed_tokens.weight")
    assert _gap(*_both(write_checkpoint(tmp_path / "m", KINDS["qwen2_tied"], weights))) < FP32


def test_one_file_counts_before_an_index_beside_it(tmp_path: Path) -> None:
    config, params = load_model(random_checkpoint(tmp_path / "other", "qwen2_tied", seed=7))
    folder = save_model(
        tmp_path / "m",
        config,
        params,
        tokenizer_folder=TINY_FOLDER,
        eos_token_id=1,
        pad_token_id=0,
        shard_bytes=100_000,
    )
    sharded, _ = _both(folder)
    shutil.copyfile(
        random_checkpoint(tmp_path / "one", "qwen2_tied") / "model.safetensors", folder / "model.safetensors"
    )
    ours, theirs = _both(folder)
    assert _gap(ours, theirs) < FP32
    assert _gap(ours, sharded) > 100 * FP32
