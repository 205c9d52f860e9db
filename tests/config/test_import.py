"""Configuration code is light: a command line is parsed before jax is loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_composing_and_parsing_load_no_jax():
    program = (
        "import sys\n"
        "from ragen_jax.config import compose, parse, to_json\n"
        "to_json(compose('paper', 'frozen_lake_tiny', 'grpo'))\n"
        "parse(['preset=sokoban_tiny,ppo', 'env.boxes=2', 'optim.lr=1e-4'])\n"
        "assert 'jax' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
