"""What a module does when it is run as a program: a mistake of the user is one sentence, not a traceback."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence

from experiments._runner import RunFailedError
from ragen_jax.training.disk_errors import DiskError
from ragen_jax.training.loop import NonFiniteUpdateError, TooManyFailuresError

FAILED, WRONG_INPUT, INTERRUPTED = 1, 2, 130


def run_main(main: Callable[[Sequence[str]], None]) -> None:
    """Call ``main`` with the command line; where that fails, leave with ``error: <sentence>`` on standard error.

    The exit code is 2 for input that cannot be used (a value, a name, a file, a missing package), 1 for a run that
    failed, and 130 after Ctrl-C. With ``RAGEN_TRACEBACK=1`` the exception goes through, with its traceback.
    """
    if main.__module__ == "__main__":
        gc.freeze()  # looking for garbage among what was imported takes a twelfth of the way to the first step
    if os.environ.get("RAGEN_TRACEBACK") == "1":
        main(sys.argv[1:])
        return
    try:
        main(sys.argv[1:])
    except (RunFailedError, NonFiniteUpdateError, TooManyFailuresError, DiskError) as error:
        _leave(sentence(error), FAILED)
    except (ValueError, KeyError, OSError, ModuleNotFoundError) as error:
        _leave(sentence(error), WRONG_INPUT)
    except KeyboardInterrupt:
        _leave("interrupted", INTERRUPTED)


def sentence(error: BaseException) -> str:
    """The words of an exception, without the quotes of a KeyError or the number of an OSError."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, KeyError) and error.args:
        return str(error.args[0])
    return str(error)


def _leave(text: str, code: int) -> None:
    sys.stderr.write(f"error: {text}\n")
    sys.exit(code)
