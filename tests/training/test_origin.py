"""A run keeps to the folder that it began from: where that is gone it says so, and never takes something else."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from experiments import evaluate, export
from ragen_jax.config import Config, compose, to_json
from ragen_jax.models.convert import load_model
from ragen_jax.rollout.tokenizer import TINY_FOLDER
from ragen_jax.training.build import build
from ragen_jax.training.loop import train
from ragen_jax.training.origin import continued, hf_folder, recorded, tokenizer_folder
from ragen_jax.training.policies import chat_format, check_fit, network
from ragen_jax.training.run_folder import RunFolder
from tests.models.hf_fixtures import KINDS, tensors, write_checkpoint

GONE = "which it still needs and which is not there any more: put it back, or write its new place into"


def _hf_folder(path: Path, **fields: object) -> Path:
    """A small random model with the tiny tokenizer, whose own chat template marks what it writes."""
    fields = KINDS["qwen2_tied"] | {"vocab_size": 512, "num_hidden_layers": 2, "max_position_embeddings": 256} | fields
    write_checkpoint(path, fields, tensors(fields, seed=1))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(TINY_FOLDER / name, path / name)
    return path


def _config(init: Path | str, **model: object) -> Config:
    config = compose("bandit_tiny", "grpo", "hf", "cpu_debug")
    return dataclasses.replace(
        config, steps=1, micro_groups=4, model=dataclasses.replace(config.model, init=str(init), **model)
    )


def _begun(path: Path, config: Config) -> RunFolder:
    """The folder of a run as it stands before its first step."""
    return RunFolder.create(path, to_json(config), metadata={"origin": recorded(config)})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return _hf_folder(tmp_path / "hf")


def test_a_run_of_a_folder_needs_it_and_says_when_it_is_gone(tmp_path: Path, folder: Path) -> None:
    config = _config(folder)
    run = _begun(tmp_path / "run", config)
    assert network(continued(config, run)).name == "hf"
    moved = folder.rename(tmp_path / "elsewhere")
    for first_params in (False, True):
        with pytest.raises(ValueError) as caught:
            continued(config, run, first_params=first_params)
        assert f"{run.path} began from {folder}, {GONE} {run.run_file}" in str(caught.value)
    facts = json.loads(run.run_file.read_text())
    assert facts["origin"] == {"init": str(folder), "model": str(folder), "tokenizer": str(folder)}
    facts["origin"] = dict.fromkeys(facts["origin"], str(moved))
    run.run_file.write_text(json.dumps(facts))
    assert tokenizer_folder(continued(config, run)) == moved == hf_folder(continued(config, run).model.init)


@pytest.mark.parametrize("what", ["config.json", "tokenizer.json"])
def test_a_folder_that_has_lost_a_file_counts_as_gone(tmp_path: Path, folder: Path, what: str) -> None:
    run = _begun(tmp_path / "run", _config(folder))
    (folder / what).unlink()
    with pytest.raises(ValueError, match=GONE):
        continued(run.config(), run)


def test_another_working_folder_changes_nothing(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = _config("hf", tokenizer="hf")
    run = _begun(tmp_path / "run", config)
    other = tmp_path / "other"
    _hf_folder(other / "hf", max_position_embeddings=64)  # of the same name, and another model
    monkeypatch.chdir(other)
    assert hf_folder(continued(config, run).model.init) == folder == tokenizer_folder(continued(config, run))
    assert network(continued(config, run, first_params=True)).max_context == 256
    shutil.rmtree(folder)
    with pytest.raises(ValueError, match=f"began from {folder}, which"):
        continued(config, run)


def test_a_run_that_took_nothing_of_its_first_policy_does_not_need_it(tmp_path: Path) -> None:
    policy = tmp_path / "policy"
    policy.mkdir()
    (policy / "policy.safetensors").touch()
    config = _config(policy, preset="tiny")
    run = _begun(tmp_path / "run", config)
    shutil.rmtree(policy)
    assert continued(config, run).model.init == "random"
    with pytest.raises(ValueError, match=f"began from {policy}, which"):
        continued(config, run, first_params=True)


@pytest.mark.parametrize("word", ["random", "bundled", "warm_start"])
def test_a_word_is_a_word_also_where_a_folder_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    _hf_folder(tmp_path / word)
    monkeypatch.chdir(tmp_path)
    config = _config(word, preset="tiny")
    assert hf_folder(word) is None and tokenizer_folder(config) == TINY_FOLDER
    run = _begun(tmp_path / "run", config)
    assert continued(config, run).model.init == "random"
    assert continued(config, run, first_params=True).model.init == word


def test_what_is_no_folder_to_begin_from_is_never_taken_for_random(tmp_path: Path) -> None:
    for place in (tmp_path / "nowhere", "nowhere", "Qwen/Qwen2.5-3B"):
        for read in (network, tokenizer_folder, recorded):
            with pytest.raises(ValueError, match=rf"model\.init={place}: there is no folder /.*put it back, or name"):
                read(_config(place, preset="tiny"))
    (tmp_path / "empty").mkdir()
    for read in (network, tokenizer_folder, recorded):
        with pytest.raises(
            ValueError, match=r"empty is neither a Hugging Face folder .* is not a run folder: it has no"
        ):
            read(_config(tmp_path / "empty", preset="tiny"))


def test_runs_from_runs_keep_to_the_first_folder(tmp_path: Path, folder: Path) -> None:
    first = _begun(tmp_path / "first", _config(folder))
    config = _config(first.path)
    second = _begun(tmp_path / "second", config)
    assert (hf_folder(str(second.path)), tokenizer_folder(config)) == (folder, folder)
    assert network(config).max_context == 256
    shutil.rmtree(first.path)  # the second one took its parameters, which its checkpoints have
    assert continued(config, second).model.init == str(folder)
    assert hf_folder(str(second.path)) == folder
    shutil.rmtree(folder)
    for read in (network, tokenizer_folder):
        with pytest.raises(ValueError, match=f"{second.path} began from {folder}, which"):
            read(_config(second.path, preset="tiny"))


def test_a_run_from_a_run_takes_the_tokenizer_that_run_had(tmp_path: Path) -> None:
    own = Path(shutil.copytree(TINY_FOLDER, tmp_path / "own"))
    first = _begun(tmp_path / "first", _config("random", preset="tiny", tokenizer=str(own)))
    config = _config(first.path, preset="tiny")
    assert tokenizer_folder(config) == own
    second = _begun(tmp_path / "second", config)
    shutil.rmtree(first.path)
    assert continued(config, second).model.tokenizer == str(own)
    shutil.rmtree(own)
    with pytest.raises(ValueError, match=f"began from {own}, which"):
        continued(config, second)


def test_runs_without_a_record_need_every_folder_that_they_name(tmp_path: Path, folder: Path) -> None:
    word = RunFolder.create(tmp_path / "word", to_json(_config("bundled", preset="tiny")), metadata={})
    assert continued(word.config(), word).model.init == "random"
    assert continued(word.config(), word, first_params=True).model.init == "bundled"
    named = RunFolder.create(tmp_path / "named", to_json(_config(folder)), metadata={})
    shutil.rmtree(folder)
    with pytest.raises(ValueError, match=rf"model\.init={folder}: there is no folder"):
        network(continued(named.config(), named))


@pytest.mark.parametrize("origin", [[], {}, {"init": None, "model": None, "tokenizer": None}, {"init": "random"}, 3])
def test_a_damaged_record_is_named(tmp_path: Path, origin: object) -> None:
    config = _config("random", preset="tiny")
    run = RunFolder.create(tmp_path / "run", to_json(config), metadata={"origin": origin})
    with pytest.raises(ValueError, match=r"run\.json is damaged \(origin="):
        continued(config, run)


def test_a_named_preset_leaves_the_context_to_the_folder(tmp_path: Path) -> None:
    tiny = network(_config("random", preset="tiny"))
    fields = {
        "hidden_size": tiny.width,
        "num_hidden_layers": tiny.layers,
        "num_attention_heads": tiny.heads,
        "num_key_value_heads": tiny.kv_heads,
        "intermediate_size": tiny.mlp_width,
        "rope_theta": tiny.rope_theta,
        "rms_norm_eps": tiny.norm_eps,
    }
    config = _config(_hf_folder(tmp_path / "hf", **fields), preset="tiny")
    model = network(config)
    assert (model.name, model.max_context, tiny.max_context) == ("hf", 256, 0)
    longer = dataclasses.replace(config, rollout=dataclasses.replace(config.rollout, max_context=256))
    with pytest.raises(ValueError, match=r"max_context=256 leaves no room for a prompt in the 256 positions of model"):
        check_fit(longer, chat_format(longer), model)


@pytest.mark.slow
def test_resume_evaluate_export_and_a_new_run_stop_where_the_folder_is_gone(tmp_path: Path, folder: Path) -> None:
    config = dataclasses.replace(_config(folder), folder=str(tmp_path / "run"))
    run = train(config, writers=()).folder
    export.main([f"run={run.path}", f"to={tmp_path / 'exported'}"])
    assert json.loads((tmp_path / "exported" / "config.json").read_text())["max_position_embeddings"] == 256
    away = folder.rename(tmp_path / "away")
    attempts = {
        "resume": lambda: train(dataclasses.replace(config, steps=2, folder="", resume=str(run.path)), writers=()),
        "evaluate": lambda: evaluate.main([f"run={run.path}"]),
        "export": lambda: export.main([f"run={run.path}", f"to={tmp_path / 'again'}"]),
        "new run": lambda: build(_config(run.path, preset="tiny")),
    }
    for name, attempt in attempts.items():
        with pytest.raises(ValueError) as caught:
            attempt()
        assert f"began from {folder}, {GONE}" in str(caught.value), name
    assert not (tmp_path / "again").exists()
    away.rename(folder)
    resumed = attempts["resume"]()
    for name in ("evaluate", "export"):
        attempts[name]()
    parts = build(_config(run.path))
    parts.close()
    for embedding in (parts.state.params["embedding"], load_model(tmp_path / "again")[1]["embedding"]):
        np.testing.assert_array_equal(embedding, resumed.state.params["embedding"])
