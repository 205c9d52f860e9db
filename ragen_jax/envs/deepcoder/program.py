"""From the text of an answer to a program."""

from __future__ import annotations

_FENCE = "```"


def program_of(answer: str, *, max_bytes: int) -> str | None:
    """The program in an answer: all of it, without one fence around it; None when there is none to run.

    Indentation is kept. Nothing else is repaired: words around the code make it another program.

    Args:
      answer: text of the answer block.
      max_bytes: a longer program is not run.
    """
    program = _without_fence(answer)
    try:
        size = len(program.encode("utf-8"))
    except UnicodeEncodeError:  # lone surrogates
        return None
    return program if program.strip() and size <= max_bytes and "\x00" not in program else None


def _without_fence(answer: str) -> str:
    text = answer.strip()
    first, _, rest = text.partition("\n")
    fenced = first.startswith(_FENCE) and rest.endswith(_FENCE) and _FENCE not in first.removeprefix(_FENCE)
    return rest.removesuffix(_FENCE) if fenced else answer
