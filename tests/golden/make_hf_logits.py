"""Records logits of transformers (torch, CPU) for the random checkpoints of ``tests/models/hf_fixtures.py``.

python -m tests.golden.make_hf_logits     # needs the extra parity; rewrites hf_logits.json
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import torch
import transformers
from transformers import AutoModelForCausalLM

from tests.models.hf_fixtures import KINDS, random_checkpoint, some_tokens

POSITIONS = (29, 45, 79)
IDS = tuple(range(0, 160, 13))


def main() -> None:
    """Write the file."""
    torch.set_num_threads(1)
    tokens = some_tokens()
    kinds = {}
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            path = random_checkpoint(Path(folder) / kind, kind)
            model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
            with torch.no_grad():
                logits = model(input_ids=torch.tensor(tokens, dtype=torch.long)).logits
            kinds[kind] = [[[round(float(logits[r, t, i]), 6) for i in IDS] for t in POSITIONS] for r in range(3)]
    record = {
        "made_with": {"torch": torch.__version__, "transformers": transformers.__version__},
        "command": "python -m tests.golden.make_hf_logits",
        "positions": POSITIONS,
        "ids": IDS,
        "logits": kinds,
    }
    path = Path(__file__).with_name("hf_logits.json")
    path.write_text(json.dumps(record) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
