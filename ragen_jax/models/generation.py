"""What a Hugging Face folder says about generating: ids of special tokens, and defaults of sampling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ragen_jax.files import read_json_object

GENERATION = "generation_config.json"
_END, _PAD = "eos_token_id", "pad_token_id"
_IDS = ("bos_token_id", _END, _PAD)


def generation_fields(folder: Path, *, eos_token_id: int, pad_token_id: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Token ids for the ``config.json`` of a saved model, and the content of its ``generation_config.json``.

    What the folder of its tokenizer says is kept: begin, every end, padding, and the defaults of sampling.

    Args:
      folder: where the tokenizer comes from; it need not hold ``config.json`` or ``generation_config.json``.
      eos_token_id: ends a turn of the trained model; the first of the ends where the folder does not name it.
      pad_token_id: taken where the folder names no padding.

    Raises:
      ValueError: one of the two files is broken, or an end in it is no id.
    """
    config = _stated(folder / "config.json")
    ids = {key: config[key] for key in _IDS if key in config}
    defaults = ids | _stated(folder / GENERATION)
    for fields in (ids, defaults):
        ends = _ends(fields, folder)
        ends = ends if eos_token_id in ends else [eos_token_id, *ends]
        fields[_END] = ends if len(ends) > 1 else ends[0]
        fields.setdefault(_PAD, pad_token_id)
    return ids, defaults


def _stated(path: Path) -> dict[str, Any]:
    """Fields of a JSON file that have a value; none without the file."""
    fields = read_json_object(path) if path.is_file() else {}
    return {key: value for key, value in fields.items() if value is not None}


def _ends(fields: dict[str, Any], folder: Path) -> list[int]:
    """One end, several, or none, as a list."""
    value = fields.get(_END, [])
    ends = value if isinstance(value, list) else [value]
    if not all(type(end) is int and end >= 0 for end in ends):
        raise ValueError(f"{folder}: {_END}={value!r} in config.json or {GENERATION} must be an id or a list of ids")
    return ends
