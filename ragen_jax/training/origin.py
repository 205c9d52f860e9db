"""Where a run has its shapes and its tokenizer from, also when it goes on later or another run begins from it.

``model.init`` may name a Hugging Face folder, itself or through a run that began from one. Such a folder is needed as
long as the run is used: for shapes, tokenizer and the length of the context. ``run.json`` keeps the whole paths, so
that neither another working folder nor a folder that is gone makes a run take something else in silence.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from ragen_jax.config.schema import Config
from ragen_jax.config.validate import INIT_WORDS
from ragen_jax.files import read_json_object
from ragen_jax.rollout.tokenizer import TINY_FOLDER
from ragen_jax.training.run_folder import RunFolder

_KEYS = ("init", "model", "tokenizer")


def is_hf_folder(path: str | Path) -> bool:
    """True for a folder with the ``config.json`` of a Hugging Face model (a run folder has one of another kind).

    Raises:
      ValueError: ``config.json`` cannot be read as JSON.
    """
    file = Path(path) / "config.json"
    return file.is_file() and "model_type" in read_json_object(file)


def hf_folder(init: str) -> Path | None:
    """The Hugging Face folder that a value of ``model.init`` names, or that the run began from which it names.

    None for a word, for a policy folder and for a run that began from either: their shapes are a preset's.

    Raises:
      ValueError: there is no such folder, it is of no kind that a run can begin from, or it is a run whose own folder
        is gone.
    """
    place = _place(init)
    if isinstance(place, RunFolder):
        return hf_folder(continued(place.config(), place).model.init)
    return place


def tokenizer_folder(config: Config) -> Path:
    """``model.tokenizer``, else the tokenizer of the Hugging Face folder or run in ``model.init``, else the tiny one.

    Raises:
      ValueError: see :func:`hf_folder`.
    """
    if config.model.tokenizer:
        return Path(config.model.tokenizer)
    place = _place(config.model.init)
    if isinstance(place, RunFolder):
        return tokenizer_folder(continued(place.config(), place))
    return place or TINY_FOLDER


def recorded(config: Config) -> dict[str, str | None]:
    """What ``run.json`` keeps as ``origin`` of a run that begins.

    Returns:
      ``init``: a word, or the whole path of the folder; ``model``: of the Hugging Face folder with the shapes, None for
      a preset; ``tokenizer``: of its folder, None for the packaged one.

    Raises:
      ValueError: see :func:`hf_folder`.
    """
    init, model, tokenizer = config.model.init, hf_folder(config.model.init), tokenizer_folder(config)
    return {
        "init": init if init in INIT_WORDS else str(Path(init).absolute()),
        "model": None if model is None else str(model.absolute()),
        "tokenizer": None if tokenizer == TINY_FOLDER else str(tokenizer.absolute()),
    }


def continued(config: Config, run: RunFolder, *, first_params: bool = False) -> Config:
    """The configuration by which the parts of a saved run are built anew; its parameters come from a checkpoint.

    Args:
      config: that of the run, perhaps with keys changed that may.
      run: the run.
      first_params: what the run began with is needed too; otherwise only its Hugging Face folder, if there is one.

    Returns:
      The configuration with the places of the first start.

    Raises:
      ValueError: a folder that is needed is gone (it is named), or ``run.json`` is damaged.
    """
    origin = run.facts().get("origin")
    if origin is None:  # written before runs kept it
        needed = first_params or config.model.init not in INIT_WORDS
        return config if needed else _change(config, init="random", tokenizer=config.model.tokenizer)
    if not _is_record(origin):
        raise ValueError(f"{run.run_file} is damaged (origin={origin!r}): restore it")
    model, tokenizer = origin["model"], origin["tokenizer"]
    init = origin["init"] if first_params else model or "random"
    places = (
        (init, init in INIT_WORDS or Path(init).is_dir()),
        (model, model is None or is_hf_folder(model)),
        (tokenizer, tokenizer is None or (Path(tokenizer) / "tokenizer.json").is_file()),
    )
    gone = dict.fromkeys(place for place, is_there in places if not is_there)
    if gone:
        raise ValueError(
            f"{run.path} began from {' and '.join(gone)}, which it still needs and which is not there any more: put it "
            f"back, or write its new place into {run.run_file} (origin: {', '.join(_KEYS)})"
        )
    return _change(config, init=init, tokenizer=tokenizer or "")


def _place(init: str) -> Path | RunFolder | None:
    """The Hugging Face folder or the run that a value of ``model.init`` names; None for a word and a policy folder."""
    if init in INIT_WORDS:
        return None
    path = Path(init)
    if not path.is_dir():
        raise ValueError(f"model.init={init}: there is no folder {path.absolute()}: put it back, or name its new place")
    if is_hf_folder(path):
        return path
    if (path / "policy.safetensors").is_file():
        return None
    try:
        return RunFolder.open(path)
    except ValueError as error:
        raise ValueError(
            f"{init} is neither a Hugging Face folder (its config.json has model_type) nor a policy folder, and {error}"
        ) from error


def _is_record(origin: Any) -> bool:
    return (
        isinstance(origin, dict)
        and isinstance(origin.get("init"), str)
        and all(key in origin and isinstance(origin[key], str | None) for key in _KEYS)
    )


def _change(config: Config, *, init: str, tokenizer: str) -> Config:
    return dataclasses.replace(config, model=dataclasses.replace(config.model, init=init, tokenizer=tokenizer))
