"""The verdict on answers: a table of pairs, cases C28 to C30, the worker process."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragen_jax.envs.metamathqa import answers, symbolic
from ragen_jax.envs.metamathqa.checker import Verdict, judge
from ragen_jax.envs.metamathqa.problem import boxed

RIGHT, WRONG, NOT_SINGLE, EMPTY = Verdict.RIGHT, Verdict.WRONG, Verdict.NOT_SINGLE, Verdict.EMPTY

NUMBERS = [  # (gold, answer, verdict), decided without algebra
    ("5", "5", RIGHT),
    ("5", " 5 ", RIGHT),
    ("5", "5.", RIGHT),
    ("5", "5.0", RIGHT),
    ("5", "+5", RIGHT),
    ("5", "05", RIGHT),
    ("5", "$5", RIGHT),
    ("5", "$5$", RIGHT),
    ("5", "\\$5", RIGHT),
    ("5", "5 apples", RIGHT),
    ("5", "5\\text{ apples}", RIGHT),
    ("5", "5 cm^2", RIGHT),
    ("5", "x = 5", RIGHT),
    ("5", "\\boxed{5}", RIGHT),
    ("5", "$\\boxed{5}$", RIGHT),
    ("5", "\\(5\\)", RIGHT),
    ("5", "10/2", RIGHT),
    ("1000", "1,000", RIGHT),
    ("1,000", "1000", RIGHT),
    ("1234567", "1,234,567", RIGHT),
    ("-3", "\N{MINUS SIGN}3", RIGHT),
    ("-3", "-$3", RIGHT),
    ("1/2", "\\frac{1}{2}", RIGHT),
    ("\\frac{1}{2}", "\\dfrac12", RIGHT),
    ("\\frac{1}{2}", "0.5", RIGHT),
    ("\\frac{1}{2}", ".5", RIGHT),
    ("\\frac{1}{2}", "2/4", RIGHT),
    ("3/2", "1 1/2", RIGHT),
    ("3/2", "1\\frac{1}{2}", RIGHT),
    ("-\\frac{3}{2}", "-1.5", RIGHT),
    ("50\\%", "50", RIGHT),
    ("50", "50%", RIGHT),
    ("90^\\circ", "90", RIGHT),
    ("5", "6", WRONG),
    ("5", "-5", WRONG),
    ("5", "5 dozen", NOT_SINGLE),
    ("5", "5 million", NOT_SINGLE),
    ("5", "5 pi", NOT_SINGLE),
    ("5", "5x", NOT_SINGLE),
    ("5", "5 x", NOT_SINGLE),
    ("5", "five", NOT_SINGLE),
    ("0.5", "50%", WRONG),
    ("1/3", "0.333333", WRONG),
    ("1/3", "0.33", WRONG),
    ("1000", "1,00", NOT_SINGLE),
    ("1000", "1.000", WRONG),
    ("1/2", "1/0", NOT_SINGLE),
    ("12", "\u0661\u0662", NOT_SINGLE),  # Arabic digits
    ("4", "3 or 4", NOT_SINGLE),
    ("4", "3, 4", NOT_SINGLE),
    ("4", "4 or more", NOT_SINGLE),
    ("4", "1 2 3 4 5 6 7 8 9", NOT_SINGLE),
    ("4", "\\boxed{3}\\boxed{4}", NOT_SINGLE),
    ("4", "{3, 4}", NOT_SINGLE),
    ("4", "3 < 4", NOT_SINGLE),
    ("4", "2+2", NOT_SINGLE),
    ("4", "2^2", NOT_SINGLE),
    ("4", "2 * 2", NOT_SINGLE),
    ("4", "2+2=4", NOT_SINGLE),
    ("4", "x = 4 = 3", NOT_SINGLE),
    ("4", "\\pm 4", NOT_SINGLE),
    ("4", "4\n5", NOT_SINGLE),
    ("4", "4" + " " * 70, NOT_SINGLE),
    ("4", "The answer is 4", NOT_SINGLE),
    ("4", "1e400", NOT_SINGLE),
    ("11/2", "1 1/2", WRONG),
    ("11", "1 1", NOT_SINGLE),
    ("12", "1 2", NOT_SINGLE),
    ("1000", "1 000", RIGHT),
    ("1000", "1 00 0", NOT_SINGLE),
    *(
        ("5", f"5 {words}", NOT_SINGLE)
        for words in ("tenths", "fifths", "hundredths", "tens", "pairs", "lakh", "factorial", "six", "less than")
    ),
    ("5", "5 degrees below zero", NOT_SINGLE),
    ("5", "5 months", RIGHT),
    ("5", "5 miles per hour", RIGHT),
    *(
        ("5", f"5 {words}", NOT_SINGLE)
        for words in ("quadrillion", "quintillions", "milliard", "grand", "vs other", "apples pears", "then", "M")
    ),
    ("5", "5 square feet", RIGHT),
    ("5", "5 degrees Celsius", RIGHT),
    ("5", "5 L", RIGHT),
    ("5", "101_2", NOT_SINGLE),
    ("1,000", "1 000", RIGHT),
    ("10,\\!100", "10100", RIGHT),
    ("10{,}100", "10100", RIGHT),
    ("\\$10,100", "10100", RIGHT),
    ("10100", "10,100", RIGHT),
    ("10,100", "10100", NOT_SINGLE),  # perhaps a list
    ("10,100", "10, 100", RIGHT),
    ("-10,100", "-10100", NOT_SINGLE),
    ("x=3", "y=3", WRONG),
    ("x=3", "x=3", RIGHT),
    ("x=3", "3", RIGHT),
    ("4", "", EMPTY),
    ("4", " \n", EMPTY),
]
TEXTS = [
    ("Monday", "monday", RIGHT),
    ("\\text{Monday}", "Monday", RIGHT),
    ("Monday", "dayMon", WRONG),  # the same letters
    ("\\text{E}", "E", RIGHT),
    ("\\text{(E)}", "(E)", RIGHT),
    ("even", "odd", WRONG),
    ("even", "even or odd", WRONG),
    ("(1,2)", "(1, 2)", RIGHT),
    ("no", "No", RIGHT),
    ("(A)", "(a)", RIGHT),
    *(("12:30", wrong, WRONG) for wrong in ("12/30", "2/5", "24/60", "24:60", "0.4", "12.30", "1230")),
    ("12:30", "12 : 30", RIGHT),
    ("3:2", "3/2", WRONG),
    ("10:30 a.m.", "10:30 p.m.", WRONG),
    ("10:30 a.m.", "10:30 A.M.", WRONG),
    ("101_2", "101_2", RIGHT),
]
EXPRESSIONS = [  # need algebra
    ("2\\sqrt{3}", "\\sqrt{12}", RIGHT),
    ("2\\sqrt{3}", "2√3", RIGHT),
    ("2\\sqrt{3}", "2sqrt(3)", RIGHT),
    ("\\frac{\\pi}{2}", "pi/2", RIGHT),
    ("x^2+2x+1", "(x+1)^2", RIGHT),
    ("2x+3", "3+2x", RIGHT),
    ("y=2x+1", "1+2x", RIGHT),
    ("3+4i", "4i+3", RIGHT),
    ("1,2", "2,1", RIGHT),
    ("(\\frac{1}{2},3)", "(0.5,3)", NOT_SINGLE),  # a decimal where the gold answer is exact
    ("(\\frac{1}{2},3)", "(2/4,3)", RIGHT),
    ("[0,1)", "[0,1]", NOT_SINGLE),
    ("(1,2)", "(2,1)", WRONG),
    ("(1,2)", "1,2", NOT_SINGLE),
    ("(1,2)", "(1,2,3)", NOT_SINGLE),
    ("2\\sqrt{3}", "3.4641016", NOT_SINGLE),
    ("2\\sqrt{3}", "\\pm 2\\sqrt{3}", NOT_SINGLE),
    ("2\\sqrt{3}", "\\sqrt{3} or 2\\sqrt{3}", NOT_SINGLE),
    ("2\\sqrt{3}", "\\sqrt{3}, 2\\sqrt{3}", NOT_SINGLE),
    ("2\\sqrt{3}", "\\sqrt{13}", WRONG),
    ("x", "y", WRONG),
    ("y=2x+3", "x=2x+3", WRONG),
    ("\\sqrt{3}", "\\sqrt{2} $ $\\sqrt{3}", NOT_SINGLE),
    ("z", "x$ $y$ $z", NOT_SINGLE),
    ("z", "\\(y\\) \\(z\\)", NOT_SINGLE),
    ("x^2", "\\frac{", WRONG),
    ("x^2", "}{", WRONG),
    ("101_2", "101 2", NOT_SINGLE),
    ("101_2", "101_{2}", RIGHT),
    ("101_2", "5_{10}", WRONG),
    ("ba", "ab", RIGHT),
    ("ba", "AB", NOT_SINGLE),
    ("y^2", "Y^2", NOT_SINGLE),
    ("\\Delta", "\\delta", NOT_SINGLE),
    ("A-a", "a-A", NOT_SINGLE),
    ("x", "x+0", RIGHT),
    ("x", "1x", RIGHT),
    ("x", "x^2", WRONG),
    ("x", "x+1", WRONG),
    ("n", "1\\cdot n", RIGHT),
    ("n", "x+0", WRONG),
    ("x^1", "x", RIGHT),
]

needs_algebra = pytest.mark.skipif(
    not importlib.util.find_spec("math_verify"), reason="needs the extra: pip install 'ragen_jax[math]'"
)


@pytest.mark.parametrize(("gold", "answer", "verdict"), [*NUMBERS, *TEXTS])
def test_numbers_and_texts(gold: str, answer: str, verdict: Verdict) -> None:
    assert judge(answer, gold, checker="exact") is verdict


@needs_algebra
def test_expressions() -> None:
    found = [(gold, answer, judge(answer, gold, time_limit_s=5.0)) for gold, answer, _ in EXPRESSIONS]
    assert found == EXPRESSIONS


@needs_algebra
def test_numbers_and_texts_never_reach_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(limit: float) -> None:
        raise AssertionError("a worker was asked")

    monkeypatch.setattr("ragen_jax.envs.metamathqa.checker.shared_checker", fail)
    assert [judge(answer, gold) for gold, answer, _ in (*NUMBERS, *TEXTS)] == [v for *_, v in (*NUMBERS, *TEXTS)]


def test_without_algebra_an_expression_is_equal_text_or_wrong() -> None:
    assert judge("2\\sqrt{ 3 }", "2\\sqrt{3}", checker="exact") is RIGHT
    assert judge("\\sqrt{12}", "2\\sqrt{3}", checker="exact") is WRONG


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("so \\boxed{\\frac{5}{8}}.", "\\frac{5}{8}"),
        ("<answer>\\boxed{42}</answer>", "42"),
        ("\\boxed{\\text{E}}", "\\text{E}"),
        ("first \\boxed{1}, then \\boxed{2}", "2"),
        ("\\boxed{\\{1, 2\\}}", "\\{1, 2\\}"),
        ("\\boxed{5", None),
        ("\\boxed{}", None),
        ("no box", None),
    ],
)
def test_c28_boxes_are_read_with_their_braces(text: str, inside: str | None) -> None:
    assert boxed(text) == inside


def test_c28_boxed_answers_are_right() -> None:
    assert judge("\\boxed{42}", "42", checker="exact") is RIGHT
    assert judge("\\boxed{\\frac{5}{8}}", "5/8", checker="exact") is RIGHT
    assert judge("\\boxed{\\text{E}}", "E", checker="exact") is RIGHT


IN_A_PROCESS = r"""
import os
from ragen_jax.envs.metamathqa.checker import judge
pairs = (("\\boxed{\\frac{3}{4}}", "3/4"), ("\\frac{6}{8}x", "\\frac{3}{4}x"))
print(*(judge(answer, gold, time_limit_s=5.0) for answer, gold in pairs), flush=True)
child = os.fork()
print(*(judge(answer, gold, time_limit_s=5.0) for answer, gold in pairs), flush=True)
if child:
    os.waitpid(child, 0)
"""


@needs_algebra
def test_c29_main_thread_worker_thread_and_process_agree() -> None:
    pairs = [("\\boxed{\\frac{3}{4}}", "3/4"), ("\\frac{6}{8}x", "\\frac{3}{4}x")]
    verdicts: list[list[Verdict]] = []

    def work() -> None:
        verdicts.append([judge(answer, gold, time_limit_s=5.0) for answer, gold in pairs])

    work()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert verdicts == [[RIGHT, RIGHT]] * 5
    run = subprocess.run([sys.executable, "-c", IN_A_PROCESS], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["right"] * 6, "before the fork, in the parent and in the child"


@needs_algebra
def test_c30_answers_are_never_executed(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    attack = f'__import__("pathlib").Path("{marker}").touch()'
    for gold in ("1", "x^2", "x" * 100):  # the last one is long, so that the length limit lets the attack through
        assert judge(attack, gold, time_limit_s=5.0) is not RIGHT
        assert judge("9**9**9", gold) is not RIGHT
    assert not marker.exists()
    assert judge("1", "1") is RIGHT


@needs_algebra
def test_c30_a_comparison_without_end_is_a_timeout_and_the_worker_is_replaced() -> None:
    checker = symbolic.SymbolicChecker(time_limit_s=0.3)
    try:
        with pytest.raises(symbolic.OutOfTimeError):
            checker.equal("9^{9^{9^{9}}}+x", "x^2")
        assert checker._workers[0]._process is None, "the worker was killed"
        assert checker.equal("x \\cdot x", "x^2")
        process = checker._workers[0]._process
        assert process is not None
        process.kill()  # a worker may also die between two comparisons
        process.wait()
        assert not checker.equal("x+x", "x^2")
    finally:
        checker.close()
    assert all(worker._process is None for worker in checker._workers)


def test_a_timeout_is_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow:
        def equal(self, answer: str, gold: str) -> bool:
            raise symbolic.OutOfTimeError

    monkeypatch.setattr("ragen_jax.envs.metamathqa.checker.shared_checker", lambda limit: Slow())
    assert judge("x+x", "x^2") is Verdict.TIMEOUT


@needs_algebra
def test_c29_a_failing_checker_is_not_a_wrong_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "worker.py"
    broken.write_text("raise SystemExit(3)")
    monkeypatch.setattr(symbolic, "_WORKER", broken)
    checker = symbolic.SymbolicChecker(time_limit_s=0.3)
    with pytest.raises(symbolic.CheckerError, match=r"died twice at 'x\+x'.*exit code 3"):
        checker.equal("x+x", "2x")
    checker.close()


@needs_algebra
@pytest.mark.parametrize("gold", ["\\frac{", "))((", "?"])
def test_c29_a_gold_answer_that_cannot_be_read_says_nothing_about_the_answer(gold: str) -> None:
    assert judge(gold, gold) is RIGHT
    with pytest.raises(symbolic.CheckerError, match="is no formula that can be read"):
        judge("x", gold, time_limit_s=5.0)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'ragen_jax\[math\]'"):
        symbolic.require_package()


@given(value=st.fractions(min_value=-10_000, max_value=10_000, max_denominator=999))
@settings(max_examples=25, deadline=None)
def test_every_spelling_of_a_number_has_its_value(value: Fraction) -> None:
    spellings = [f"{value.numerator}/{value.denominator}"]
    sign = "-" if value < 0 else ""
    spellings.append(f"{sign}\\frac{{{abs(value.numerator)}}}{{{value.denominator}}}")
    if value.denominator == 1:
        spellings += [f"{value.numerator:,}", f"{value.numerator}.00"]
    for text in spellings:
        assert answers.number(answers.normalise(f"${text}$ km")) is None  # the unit stands outside of the formula
        assert answers.number(answers.normalise(f"\\boxed{{{text}}}")) == value
        assert answers.number(f"{text} km") == value


@given(text=st.text(alphabet=st.sampled_from("0123456789.,$%/ \\{}fracboxedtx=-^+or"), max_size=80))
@settings(max_examples=25, deadline=None)
def test_any_text_has_a_verdict(text: str) -> None:
    for gold in ("7", "x^2", "(1,2)"):
        assert judge(text, gold, checker="exact") in Verdict
