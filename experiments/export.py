"""Write a saved step of a run as a Hugging Face folder: weights (adapters merged), config and tokenizer.

python -m experiments.export run=runs/x to=exported              # the newest complete checkpoint
python -m experiments.export run=runs/x to=exported step=60 dtype=bfloat16
python -m experiments.train preset=frozen_lake_tiny,grpo,hf model.init=exported   # go on from it
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from experiments import _options
from experiments._logging import log_to_stderr
from experiments._main import run_main
from experiments.evaluate import saved_step
from ragen_jax.files import check_new
from ragen_jax.models.convert import save_model
from ragen_jax.rollout.tokenizer import CHAT_TEMPLATES
from ragen_jax.training.build import run_params
from ragen_jax.training.origin import continued, tokenizer_folder
from ragen_jax.training.policies import chat_format, merged, network
from ragen_jax.training.run_folder import RunFolder

OPTIONS = {
    "run": "folder of the run",
    "to": "new folder for the model",
    "step": "saved step (default: the newest complete one)",
    "dtype": "of the saved weights: float32 (default) or bfloat16",
}


def main(argv: Sequence[str]) -> None:
    """Export, say where."""
    log_to_stderr()
    values = read_options(argv)
    run = RunFolder.open(values["run"])
    config = continued(run.config(), run)
    step = saved_step(run, values.get("step", ""))
    chat, model = chat_format(config), network(config)
    dtype = values.get("dtype", "float32")
    folder = save_model(
        values["to"],
        model,
        merged(run_params(run, model, step), model, dtype=dtype, source=str(run.path)),
        tokenizer_folder=tokenizer_folder(config),
        eos_token_id=chat.tokenizer.end_of_turn_id,
        pad_token_id=chat.tokenizer.pad_id,
        chat_template=CHAT_TEMPLATES.get(config.model.chat_template),
        dtype=dtype,
    )
    sys.stdout.write(f"step {step} of {run.path} written to {folder}\n")


def read_options(argv: Sequence[str]) -> dict[str, str]:
    """Options of the command line.

    Raises:
      ValueError: an option that is unknown, missing or cannot be used, or a folder that is not empty.
    """
    values = _options.read_options(argv, options=OPTIONS, required=("run", "to"), doc=__doc__)
    check_new(Path(values["to"]))  # before the checkpoint is read
    return values


if __name__ == "__main__":
    run_main(main)
