"""The verdict on an answer: equal text, equal number, or equal expression; and one answer only."""

from __future__ import annotations

import enum
from fractions import Fraction

from ragen_jax.envs.metamathqa import answers
from ragen_jax.envs.metamathqa.symbolic import OutOfTimeError, shared_checker

CHECKERS = ("symbolic", "exact")


class Verdict(enum.StrEnum):
    """What an answer is. Only ``RIGHT`` is paid."""

    RIGHT = "right"
    WRONG = "wrong"
    NOT_SINGLE = "not_single"  # too long, or another form than the gold answer: it could hold several answers
    EMPTY = "empty"
    TIMEOUT = "timeout"  # the comparison took too long


def needs_algebra(gold: str) -> bool:
    """True when a gold answer is neither a number nor words, so that ``judge`` may ask the symbolic checker."""
    wanted = answers.normalise(gold)
    return _number_of(gold) is None and not answers.is_words(wanted) and ":" not in wanted


def judge(answer: str, gold: str, *, checker: str = "symbolic", time_limit_s: float = 0.5) -> Verdict:
    """Compare an answer with the gold answer.

    1. Where both name a variable, as in ``x = 3``, it must be the same one.
    2. Equal texts, after both are normalised, are equal.
    3. Where the gold answer is a number, the answer must be one number of exactly the same value. A gold answer that
       may also be a list, such as 10,100, is no number.
    4. Where the gold answer is words, a time or a ratio such as 12:30, nothing else is equal.
    5. Else the answer must have the shape of the gold answer, and math-verify decides.

    Args:
      answer: text of the answer block; data, never code.
      gold: the gold answer.
      checker: "symbolic"; or "exact", which ends with step 4 and needs no package.
      time_limit_s: processor time of step 5.

    Raises:
      CheckerError: the checker itself failed, so nothing is known about the answer.
    """
    if not answer.strip():
        return Verdict.EMPTY
    if len(answer) > max(answers.MAX_LENGTH, 2 * len(gold)):
        return Verdict.NOT_SINGLE
    named = answers.variable(answer), answers.variable(gold)
    if all(named) and named[0] != named[1]:
        return Verdict.WRONG
    given, wanted = answers.normalise(answer), answers.normalise(gold)
    if answers.squeeze(given) == answers.squeeze(wanted):
        return Verdict.RIGHT
    value = _number_of(gold)
    if value is not None:
        given_value = answers.number(given)
        if given_value is None:
            return Verdict.NOT_SINGLE
        return Verdict.RIGHT if given_value == value else Verdict.WRONG
    if answers.is_words(wanted) or ":" in wanted:
        return Verdict.WRONG
    if not answers.same_shape(given, wanted):
        return Verdict.NOT_SINGLE
    if checker == "exact":
        return Verdict.WRONG
    try:
        equal = shared_checker(time_limit_s).equal(answers.to_latex(given), answers.to_latex(wanted))
    except OutOfTimeError:
        return Verdict.TIMEOUT
    return Verdict.RIGHT if equal else Verdict.WRONG


def _number_of(gold: str) -> Fraction | None:
    return None if answers.may_be_list(gold) else answers.number(answers.normalise(gold))
