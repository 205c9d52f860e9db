"""A run may begin from a Hugging Face folder, and a run may become one."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import evaluate, export
from ragen_jax.config import Config, compose, validate
from ragen_jax.learner.optimizer import adam, apply_changes, with_master
from ragen_jax.models.convert import load_model
from ragen_jax.models.lora import merge_adapters, without_adapters
from ragen_jax.rollout.tokenizer import TINY_FOLDER
from ragen_jax.training.build import build, run_params
from ragen_jax.training.loop import train
from ragen_jax.training.origin import is_hf_folder
from ragen_jax.training.policies import chat_format, network
from ragen_jax.training.run_folder import RunFolder
from ragen_jax.training.step import learn
from ragen_jax.types import Params
from tests.models.hf_fixtures import KINDS, our_logits, tensors, write_checkpoint


def _hf_folder(path: Path, kind: str = "qwen3") -> Path:
    """A small random model with the tiny tokenizer."""
    fields = KINDS[kind] | {"vocab_size": 512, "num_hidden_layers": 2, "max_position_embeddings": 256}
    write_checkpoint(path, fields, tensors(fields, seed=1))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(TINY_FOLDER / name, path / name)
    return path


def _config(folder: Path, *presets: str, **model: str) -> Config:
    config = compose("bandit_tiny", *(presets or ("grpo",)), "hf", "cpu_debug")
    return dataclasses.replace(
        config, steps=2, micro_groups=4, model=dataclasses.replace(config.model, init=str(folder), **model)
    )


def test_shapes_tokenizer_and_weights_come_from_the_folder(tmp_path: Path) -> None:
    folder = _hf_folder(tmp_path / "hf")
    config = _config(folder, "ppo")
    validate(config)
    assert is_hf_folder(folder) and network(config).qk_norm
    assert chat_format(config).tokenizer.vocab_size == 512
    parts = build(config)
    parts.close()
    np.testing.assert_array_equal(parts.state.params["embedding"], load_model(folder)[1]["embedding"])
    np.testing.assert_array_equal(parts.state.critic_params["decoder"]["embedding"], parts.state.params["embedding"])


@pytest.mark.slow
def test_a_run_becomes_a_folder_and_the_folder_a_run(tmp_path: Path) -> None:
    config = dataclasses.replace(_config(_hf_folder(tmp_path / "hf")), folder=str(tmp_path / "run"))
    outcome = train(config, writers=())
    export.main([f"run={outcome.folder.path}", f"to={tmp_path / 'exported'}"])
    again, params = load_model(tmp_path / "exported")
    assert dataclasses.replace(again, name="hf") == network(config)
    for ours, theirs in zip(jax.tree.leaves(params), jax.tree.leaves(outcome.state.params), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    parts = build(_config(tmp_path / "exported"))
    parts.close()
    np.testing.assert_array_equal(parts.state.params["embedding"], outcome.state.params["embedding"])
    record = evaluate.evaluate(*evaluate.read_arguments([f"run={outcome.folder.path}"])[:3])
    assert record["metrics"]["validation/success"] == outcome.folder.metrics()[-1]["validation/success"]


@pytest.mark.slow
def test_a_resumed_run_still_finds_its_tokenizer_and_shapes(tmp_path: Path) -> None:
    config = dataclasses.replace(_config(_hf_folder(tmp_path / "hf")), folder=str(tmp_path / "run"))
    train(dataclasses.replace(config, steps=1), writers=())
    resumed = train(dataclasses.replace(config, steps=2, folder="", resume=str(tmp_path / "run")), writers=())
    assert int(resumed.state.step) == 2
    run = RunFolder.open(tmp_path / "run")
    np.testing.assert_array_equal(run_params(run, network(config))["embedding"], resumed.state.params["embedding"])


@pytest.mark.slow
def test_bfloat16_parameters_with_a_master_copy_train(tmp_path: Path) -> None:
    config = _config(_hf_folder(tmp_path / "hf"), compute_dtype="bfloat16", param_dtype="bfloat16")
    outcome = train(dataclasses.replace(config, folder=str(tmp_path / "run")), writers=())
    assert {leaf.dtype for leaf in jax.tree.leaves(outcome.state.params)} == {jnp.dtype("bfloat16")}
    master = outcome.state.opt_state.master
    assert {leaf.dtype for leaf in jax.tree.leaves(master)} == {jnp.dtype("float32")}
    for kept, exact in zip(jax.tree.leaves(outcome.state.params), jax.tree.leaves(master), strict=True):
        np.testing.assert_array_equal(kept, exact.astype(jnp.bfloat16))


def test_small_steps_add_up_in_the_master_copy() -> None:
    settings = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0, "grad_clip": 1.0, "warmup_updates": 0}
    optimizer = with_master(adam(lr=1e-4, **settings))
    params = {"w": jnp.ones((1,), jnp.bfloat16)}
    state = optimizer.init(params)
    for _ in range(100):  # each step of 1e-4 is far below the bfloat16 spacing at 1, 0.0039
        changes, state = optimizer.update({"w": jnp.ones((1,), jnp.bfloat16)}, state, params)
        params = apply_changes(params, changes)
    assert state.master["w"].item() == pytest.approx(0.99, abs=1e-5)
    assert params["w"].item() == jnp.bfloat16(0.99)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"preset": "small"}, "another network than model.preset=small"),
        ({"init": "random"}, "model.preset=folder takes the shapes of a Hugging Face folder"),
        ({"tokenizer": "nowhere"}, "model.tokenizer=nowhere has no tokenizer.json"),
        ({"param_dtype": "bfloat16"}, "use model.compute_dtype=bfloat16"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, change: dict[str, str], sentence: str) -> None:
    config = _config(_hf_folder(tmp_path / "hf"))
    config = dataclasses.replace(config, model=dataclasses.replace(config.model, **change))
    with pytest.raises(ValueError, match=sentence):
        build(config)


def test_rows_longer_than_the_model_are_refused(tmp_path: Path) -> None:
    config = _config(_hf_folder(tmp_path / "hf"))
    longer = dataclasses.replace(config, rollout=dataclasses.replace(config.rollout, max_context=300))
    with pytest.raises(ValueError, match=r"max_context=300 leaves no room for a prompt in the 256 positions"):
        build(longer)
    tight = dataclasses.replace(config, rollout=dataclasses.replace(config.rollout, max_context=250))
    parts = build(tight)
    with pytest.raises(ValueError, match=r"exceed the 256 positions of model 'hf'"):
        parts.training_rollout(parts.sampler(parts.state.params, version=0), 0)
    parts.close()


def test_a_tokenizer_larger_than_the_embedding_is_refused(tmp_path: Path) -> None:
    folder = _hf_folder(tmp_path / "hf")
    fields = json.loads((folder / "config.json").read_text()) | {"vocab_size": 500}
    write_checkpoint(folder, fields, tensors(fields, seed=1))
    with pytest.raises(ValueError, match=r"uses 512 ids, model 'hf' has 500 rows: .* do not belong together"):
        build(_config(folder))
    with pytest.raises(ValueError, match=r"500 rows: leave model\.tokenizer empty to take the folder's own"):
        build(_config(folder, tokenizer=str(TINY_FOLDER)))


@pytest.mark.parametrize(("content", "sentence"), [(b"{", "is not JSON"), (b"\xff", "is no text in UTF-8")])
def test_a_broken_config_of_the_folder_is_named(tmp_path: Path, content: bytes, sentence: str) -> None:
    folder = _hf_folder(tmp_path / "hf")
    (folder / "config.json").write_bytes(content)
    with pytest.raises(ValueError, match=rf"config\.json {sentence}"):
        build(_config(folder))


@pytest.mark.slow
def test_an_export_keeps_ids_and_defaults_of_the_folder_and_the_sampler_its_stops(tmp_path: Path) -> None:
    folder = _hf_folder(tmp_path / "hf")
    fields = json.loads((folder / "config.json").read_text()) | {"bos_token_id": 5, "eos_token_id": [507, 505]}
    (folder / "config.json").write_text(json.dumps(fields))
    defaults = {"bos_token_id": 5, "eos_token_id": [505, 507], "pad_token_id": 505, "temperature": 0.6}
    (folder / "generation_config.json").write_text(json.dumps(defaults))
    config = dataclasses.replace(_config(folder), folder=str(tmp_path / "run"), steps=1)
    train(config, writers=())
    export.main([f"run={tmp_path / 'run'}", f"to={tmp_path / 'exported'}"])
    assert json.loads((tmp_path / "exported" / "generation_config.json").read_text()) == defaults
    written = json.loads((tmp_path / "exported" / "config.json").read_text())
    assert (written["bos_token_id"], written["eos_token_id"]) == (5, [507, 505])
    before, after = (chat_format(_config(tmp_path / name)).tokenizer for name in ("hf", "exported"))
    assert (after.stop_ids, after.end_of_turn_id) == (before.stop_ids, before.end_of_turn_id)


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["to=x"], "run= is missing"),
        (["run=x"], "to= is missing"),
        (["run=x", "to=y", "form=z"], "unknown option 'form'"),
        (["run=x", "to=y", "dtype=int8"], "use float32 or bfloat16"),
    ],
)
def test_export_refuses(argv: list[str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        export.read_options(argv)


@pytest.mark.slow
def test_adapters_alone_are_trained_and_merged_on_export(tmp_path: Path) -> None:
    config = _config(_hf_folder(tmp_path / "hf"))
    model = dataclasses.replace(config.model, lora_rank=2, lora_targets=("query", "down"))
    algorithm = dataclasses.replace(config.algorithm, kl_coef=0.1)
    optim = dataclasses.replace(config.optim, lr=1e-2)
    config = dataclasses.replace(
        config, model=model, algorithm=algorithm, optim=optim, folder=str(tmp_path / "run"), steps=3
    )
    outcome = train(config, writers=())
    _, base = load_model(tmp_path / "hf")
    params = outcome.state.params
    for name in ("embedding", "final_norm"):
        np.testing.assert_array_equal(params[name], base[name])
    np.testing.assert_array_equal(params["layers"]["query"], base["layers"]["query"])
    assert set(params["adapters"]) == {"query_a", "query_b", "down_a", "down_b"}
    assert float(jnp.abs(params["adapters"]["query_b"]).max()) > 0
    moments = jax.tree.leaves(outcome.state.opt_state)
    assert max(leaf.size for leaf in moments) < base["embedding"].size
    export.main([f"run={outcome.folder.path}", f"to={tmp_path / 'exported'}"])
    _, merged = load_model(tmp_path / "exported")
    expected = merge_adapters(params, network(config))
    np.testing.assert_array_equal(merged["layers"]["down"], expected["layers"]["down"])
    # A further run begins from the merged parameters of this one.
    again = dataclasses.replace(_config(tmp_path / "hf"), model=dataclasses.replace(model, init=str(tmp_path / "run")))
    parts = build(again)
    parts.close()
    assert parts.chat.tokenizer.vocab_size == 512 and parts.model == network(config)
    np.testing.assert_array_equal(parts.state.params["layers"]["down"], expected["layers"]["down"])
    assert float(jnp.abs(parts.state.params["adapters"]["down_b"]).max()) == 0  # its own adapters are new


@pytest.mark.slow
def test_c37_an_export_computes_what_base_and_adapters_do_also_of_a_bfloat16_base(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = _config(_hf_folder(tmp_path / "hf"), param_dtype="bfloat16", compute_dtype="bfloat16")
    model = dataclasses.replace(config.model, lora_rank=2)
    optim = dataclasses.replace(config.optim, lr=1e-4)
    config = dataclasses.replace(config, model=model, optim=optim, folder=str(tmp_path / "run"))
    outcome = train(config, writers=())
    trained, rng = outcome.state.params, np.random.default_rng(0)
    tokens = rng.integers(0, 512, (2, 40)).astype(np.int32)

    def log_probs(params: Params) -> np.ndarray:
        logits = our_logits(network(config), params, tokens, prompt=20)
        return logits - np.asarray(jax.nn.logsumexp(logits, axis=-1, keepdims=True))

    wanted = log_probs(trained)
    assert np.abs(log_probs(without_adapters(trained)) - wanted).max() > 100 * 2e-5
    export.main([f"run={outcome.folder.path}", f"to={tmp_path / 'exported'}"])  # messages go to standard error now
    np.testing.assert_allclose(log_probs(load_model(tmp_path / "exported")[1]), wanted, atol=2e-5)
    # A new run begins from the same sum where it keeps its parameters in float32.
    parts = build(_config(tmp_path / "run"))
    parts.close()
    np.testing.assert_allclose(log_probs(parts.state.params), wanted, atol=2e-5)
    warning = f"the adapters of {outcome.folder.path} are rounded"
    assert warning not in capsys.readouterr().err
    export.main([f"run={outcome.folder.path}", f"to={tmp_path / 'halves'}", "dtype=bfloat16"])
    build(_config(tmp_path / "run", param_dtype="bfloat16", compute_dtype="bfloat16")).close()
    assert capsys.readouterr().err.count(warning) == 2
    assert np.abs(log_probs(load_model(tmp_path / "halves")[1]) - wanted).max() > 100 * 2e-5


@pytest.mark.slow
def test_a_kl_to_the_base_is_zero_at_first(tmp_path: Path) -> None:
    config = _config(_hf_folder(tmp_path / "hf"))
    model = dataclasses.replace(config.model, lora_rank=2)
    config = dataclasses.replace(config, model=model, algorithm=dataclasses.replace(config.algorithm, kl_coef=0.1))
    parts = build(config)
    assert parts.reference is None
    reference = parts.reference_params(parts.state)
    assert reference is not None and "adapters" not in reference
    rollout = parts.training_rollout(parts.sampler(parts.state.params, version=0), 0)
    metrics = learn(parts, parts.state, rollout).metrics
    parts.close()
    assert metrics["policy/reference_k3_token_nats"] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"lora_alpha": 3.0}, "lora_alpha=3.0 has no effect with model.lora_rank=0"),
        ({"lora_rank": -1}, "lora_rank=-1"),
        ({"lora_rank": 2, "lora_targets": ("attention",)}, "choose from query"),
        ({"lora_rank": 2, "lora_alpha": 0.0}, "must be above 0"),
    ],
)
def test_wrong_adapters_are_refused(tmp_path: Path, change: dict[str, object], sentence: str) -> None:
    config = _config(_hf_folder(tmp_path / "hf"))
    with pytest.raises(ValueError, match=sentence):
        validate(dataclasses.replace(config, model=dataclasses.replace(config.model, **change)))
