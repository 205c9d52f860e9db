"""Messages of experiment modules: plain lines on standard error, without the chatter of libraries."""

from __future__ import annotations

import logging


def log_to_stderr() -> None:
    """Show our own messages and other people's warnings, whatever a library has set up before."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", force=True)
    for name in ("ragen_jax", "experiments"):
        logging.getLogger(name).setLevel(logging.INFO)
    for name in ("absl", "orbax", "jax"):
        logging.getLogger(name).setLevel(logging.ERROR)
