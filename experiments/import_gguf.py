"""Write the model in a GGUF file as a Hugging Face folder, which every other command takes as ``model.init``.

python -m experiments.import_gguf file=SmolLM2-135M-Instruct.Q4_1.gguf to=smollm2     # needs the extra realmodel
python -m experiments.train preset=frozen_lake,grpo,hf model.init=smollm2
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from experiments._logging import log_to_stderr
from experiments._main import run_main
from experiments._options import read_options
from ragen_jax.models.gguf import gguf_to_folder

OPTIONS = {"file": "GGUF file of a llama model", "to": "new folder", "dtype": "of the weights: float32 or bfloat16"}


def main(argv: Sequence[str]) -> None:
    """Convert, say where.

    Raises:
      ValueError: an unknown or missing option, or a file that cannot be read.
    """
    log_to_stderr()
    values = read_options(argv, options=OPTIONS, required=("file", "to"), doc=__doc__)
    dtype = values.get("dtype", "float32")
    sys.stdout.write(f"written to {gguf_to_folder(values['file'], values['to'], dtype=dtype)}\n")


if __name__ == "__main__":
    run_main(main)
