"""Train any composition of presets.

python -m experiments.train preset=paper,frozen_lake_tiny,grpo,top_p steps=50 seed=1
python -m experiments.train config=runs/<run>/config.json        # the same run again
python -m experiments.train resume=runs/<run>                    # go on after its newest checkpoint
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from experiments._logging import log_to_stderr
from ragen_jax.config import parse
from ragen_jax.training.loop import train


def main(argv: Sequence[str]) -> None:
    """Parse, train, say where the results are."""
    log_to_stderr()
    tokens = list(argv)
    resumed = [token.partition("=")[2] for token in tokens if token.startswith("resume=")]
    if resumed:
        tokens.insert(0, f"config={resumed[-1]}/config.json")
    parsed = parse(tokens, default_presets=("paper", "frozen_lake_tiny", "grpo"))
    outcome = train(parsed.config)
    sys.stdout.write(f"results in {outcome.folder.path}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
