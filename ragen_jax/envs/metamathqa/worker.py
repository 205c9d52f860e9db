"""The program of a checker process: reads pairs of answers, writes whether they are equal.

It is started by its path and imports nothing of the package. Each line of standard input is
``{"gold": text, "answer": text}``, each line of standard output ``{"equal": true}``, ``{"equal": false}``, or
``{"fault": text}`` for a gold answer that cannot be read. The first line it writes says that it is ready. A comparison
that takes longer than the limit kills the process: the timer counts processor time, so a busy machine changes no
verdict, and it also ends a comparison whose parent has died.
"""

from __future__ import annotations

import json
import logging
import resource
import signal
import sys
from typing import Any

MEMORY_BYTES = 2 << 30


def compare(gold: str, answer: str) -> dict[str, Any]:
    """Verdict on one pair. An answer that cannot be read is not equal."""
    from math_verify import LatexExtractionConfig, parse, verify

    forms = [LatexExtractionConfig()]
    # Without dollar signs the first number of a text would count, and the last one of several.
    try:
        wanted = parse(f"${gold}$", forms, parsing_timeout=None, raise_on_error=True)
    except Exception as error:  # whatever the parser does with a gold answer, the caller should hear of it
        return {"fault": f"gold answer {gold!r}: {type(error).__name__}: {error}"}
    if all(isinstance(form, str) for form in wanted):  # the parser gives a text back that it cannot read
        return {"fault": f"gold answer {gold!r} is no formula that can be read"}
    try:
        given = parse(f"${answer}$", forms, parsing_timeout=None, raise_on_error=True)
        equal = verify(wanted, given, timeout_seconds=None, raise_on_error=True) or _same_value(wanted[0], given[:1])
        return {"equal": bool(equal)}
    except Exception:  # model text may break parser and algebra in any way, and is then not shown to be right
        return {"equal": False}


def _same_value(wanted: Any, given: list[Any]) -> bool:
    """True when an answer becomes the gold answer by plain arithmetic; verify compares a lone variable as text only."""
    from sympy import Expr

    both = [wanted, *given]
    return len(both) == 2 and all(isinstance(side, Expr) for side in both) and both[0].doit() == both[1].doit()


def main(cpu_limit_s: float) -> None:
    """Serve until standard input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    logging.disable(logging.CRITICAL)
    compare("2\\sqrt{3}", "\\sqrt{12}")  # the first comparison loads and compiles much
    _write({"ready": True})
    for line in sys.stdin:
        pair = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, cpu_limit_s)
        reply = compare(pair["gold"], pair["answer"])
        signal.setitimer(signal.ITIMER_PROF, 0)
        _write(reply)


def _write(reply: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(float(sys.argv[1]))
