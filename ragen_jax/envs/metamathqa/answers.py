"""Answers as text: taken out of their wrapping, read as exact numbers, and refused when they hold several answers.

Nothing here is evaluated: an answer is a number as it stands, or it is compared as text or by the symbolic checker.
"""

from __future__ import annotations

import re
from fractions import Fraction

from ragen_jax.envs.metamathqa.problem import closing_brace

MAX_LENGTH = 64
"""Characters of an answer; a gold answer that is longer allows twice its own length."""

_REPLACEMENTS = (
    ("\N{MINUS SIGN}", "-"),
    ("\N{EN DASH}", "-"),
    ("\N{NO-BREAK SPACE}", " "),
    ("\\left", ""),
    ("\\right", ""),
    ("\\displaystyle", ""),
    ("\\dfrac", "\\frac"),
    ("\\tfrac", "\\frac"),
    ("\\cdot", "*"),
    ("\\times", "*"),
    ("\\!", ""),
    ("{,}", ","),
    ("\\,", " "),
    ("\\;", " "),
    ("\\$", "$"),
    ("\\%", "%"),
    ("^{\\circ}", ""),
    ("^\\circ", ""),
    ("\N{DEGREE SIGN}", ""),
)
_WRAPPERS = ("\\boxed", "\\fbox", "\\text", "\\mathrm", "\\textbf", "\\mathbf", "\\mbox")
_FENCES = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"))
_NAMED = re.compile(r"([A-Za-z])\s*=\s*([^=]+)")
_INNER_TEXT = re.compile(r"\\(?:text|mathrm|mbox)\{([^{}]*)\}")

_DIGITS = r"[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,3}(?: [0-9]{3})+|[0-9]+"
_DECIMAL = rf"(?:{_DIGITS})(?:\.[0-9]+)?|\.[0-9]+"
_FRACTION = r"\\frac\s*(?:\{\s*([0-9]+)\s*\}|([0-9]))\s*(?:\{\s*([0-9]+)\s*\}|([0-9]))|([0-9]+)\s*/\s*([0-9]+)"
_SIGN = r"[$€£]?\s*([+-]?)\s*[$€£]?\s*"
_UNIT = (
    r"(?:\s+(?:(?:square|cubic|fluid|nautical|metric|US)\s+)?[A-Za-z]+(?:\^\{?[23]\}?)?"
    r"(?:\s+(?:per\s+[A-Za-z]+|Celsius|Fahrenheit))?)?"
)
_PLAIN = re.compile(rf"{_SIGN}({_DECIMAL})({_UNIT})\s*")
_RATIO = re.compile(rf"{_SIGN}(?:([0-9]+)\s*(?=\\frac)|([0-9]+)\s+(?=[0-9]+\s*/))?(?:{_FRACTION})({_UNIT})\s*")
_CARDINALS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion trillion
dozen score gross pair couple trio lakh crore myriad half
"""
_ORDINALS = """
third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth
seventeenth eighteenth nineteenth twentieth thirtieth fortieth fiftieth sixtieth seventieth eightieth ninetieth
hundredth thousandth millionth billionth trillionth quarter
"""
_NO_UNITS = frozenset(
    (
        *_CARDINALS.split(),
        *_ORDINALS.split(),
        *(f"{word}s" for word in (*_CARDINALS.split(), *_ORDINALS.split())),
        *("halves", "sixes", "twenties", "thirties", "forties", "fifties", "sixties", "seventies", "eighties"),
        *("nineties", "percent", "permille", "bps", "k", "mil", "mio", "mn", "bn", "tn", "mrd", "kilo", "mega", "giga"),
        *("grand", "googol", "googols", "vs", "versus", "vice", "then", "other", "others", "another", "else"),
        *("double", "triple", "quadruple", "twice", "thrice", "fold", "factorial", "reciprocal", "inverse", "opposite"),
        *("root", "roots", "power", "powers", "squared", "cubed", "base", "remainder"),
        *("negative", "below", "above", "under", "less", "fewer", "more", "than", "least", "most", "debt", "loss"),
        *(
            "and",
            "or",
            "to",
            "not",
            "nor",
            "but",
            "no",
            "through",
            "minus",
            "plus",
            "times",
            "over",
            "divided",
            "point",
        ),
        *("pi", "sqrt", "sin", "cos", "tan", "log", "ln", "exp", "mod", "infinity"),
    )
)
_LARGE = re.compile(r"[a-z]*illi(?:on|ard)s?")
_LETTER_UNITS = frozenset("mgshlL")
_THOUSANDS = re.compile(r"-?[1-9][0-9]{0,2}(?:,[1-9][0-9]{2})+")
_ONLY_LETTERS = re.compile(r"[A-Za-z() ]+")
_SYMBOL = re.compile(r"\\[A-Za-z]+|[A-Za-z]")


def normalise(text: str) -> str:
    """Take an answer out of its wrapping: boxes, dollar signs, text commands, ``x =``, a full stop or % at the end.

    A percent sign is a unit, so 50% is 50 and not one half. Signs that look alike become one sign. Case and inner
    blanks stay.
    """
    text = _bare(text)
    named = _NAMED.fullmatch(text)
    return (named.group(2) if named else text).strip()


def variable(text: str) -> str:
    """The letter that an answer such as ``x = 3`` speaks about, in lower case; "" when it names none."""
    named = _NAMED.fullmatch(_bare(text))
    return named.group(1).lower() if named else ""


def squeeze(text: str) -> str:
    """Text without differences of blanks and, in words, of case: two normalised answers that agree in it are equal.

    A blank between two digits stays, since 1 1/2 is not 11/2; capitals in a formula stay, since N is not n there.
    """
    text = _INNER_TEXT.sub(r" \1", text)
    text = re.sub(r"(?<![0-9])\s+|\s+(?![0-9])", "", re.sub(r"\s+", " ", text))
    return text.lower() if is_words(text) or _ONLY_LETTERS.fullmatch(text) else text


def number(text: str) -> Fraction | None:
    """Exact value of a normalised answer that is one number; None for anything else.

    A number is whole, decimal, a fraction or a mixed number, in ASCII digits, with commas or blanks between thousands,
    a currency sign, and a unit behind a blank: one word, or a few such as "square feet" and "miles per hour". Words
    that change the value ("dozen", "tenths", "below") are no unit, and arithmetic that is left to do is no number.
    """
    text = _INNER_TEXT.sub(r" \1", text).strip()
    if len(text) > MAX_LENGTH:
        return None
    plain = _PLAIN.fullmatch(text)
    if plain:
        sign, digits, unit = plain.groups()
        value = Fraction(digits.replace(",", "").replace(" ", ""))
    else:
        ratio = _RATIO.fullmatch(text)
        if not ratio:
            return None
        sign, *parts, unit = ratio.groups()
        whole = next((part for part in parts[:2] if part), "0")
        above, below = (int(part) for part in parts[2:] if part)
        if below == 0:
            return None
        value = int(whole) + Fraction(above, below)
    if not _is_unit(unit):
        return None
    return -value if sign == "-" else value


def may_be_list(gold: str) -> bool:
    r"""True for a gold answer such as 10,100, which is one number with a comma or a list of two.

    A group of three digits that begins with 0 is no number of its own, so 1,000 is one number. A currency sign or a
    comma of LaTeX between thousands, as in ``10,\!100`` and ``10{,}100``, makes it one number too.
    """
    surely_one = any(sign in gold for sign in ("\\!", "{,}", "\\$"))
    return not surely_one and bool(_THOUSANDS.fullmatch(normalise(gold)))


def is_words(text: str) -> bool:
    """True for a normalised answer of plain words, such as a name; short letters are variables or choices."""
    words = re.split(r"[' -]+", _INNER_TEXT.sub(r" \1", text).strip())
    return all(re.fullmatch("[A-Za-z]{2,}", word) for word in words) and max(map(len, words)) > 2


def same_shape(answer: str, gold: str) -> bool:
    """True when a normalised answer has the form of the gold answer, so that no second answer stands beside it.

    As many commas, semicolons, colons, underscores, equals signs, plus-minus signs, lines and signs of a formula's
    begin, the same brackets around a list, no "or" or "and" that the gold answer lacks, no decimal point where the gold
    answer is exact, and no symbol that the gold answer has in the other case only.
    """
    counts_agree = all(
        sum(answer.count(sign) for sign in signs) == sum(gold.count(sign) for sign in signs)
        for signs in (*((sign,) for sign in ",;:_="), ("\\pm", "\\mp", "±"), ("\n",), ("\\boxed",), ("$", "\\(", "\\["))
    )
    words = [set(re.findall(r"(?<![A-Za-z])(?:or|and|not|vee|lor|cup)(?![A-Za-z])", side)) for side in (answer, gold)]
    rounded = bool(re.search(r"\.[0-9]", answer)) and "." not in gold
    enclosed_alike = "," not in gold or _enclosure(answer) == _enclosure(gold)
    return counts_agree and enclosed_alike and words[0] == words[1] and not rounded and _same_case(answer, gold)


def to_latex(text: str) -> str:
    """A normalised answer with plain spellings of roots, pi and powers as LaTeX."""
    text = re.sub(r"(?<![\\A-Za-z])sqrt\s*\(([^()]*)\)", r"\\sqrt{\1}", text)
    text = re.sub(r"√\s*(?:\(([^()]*)\)|([A-Za-z0-9]+))", lambda root: f"\\sqrt{{{root[1] or root[2]}}}", text)
    text = re.sub(r"(?<![\\A-Za-z])pi(?![A-Za-z])|π", r"\\pi ", text)
    return text.replace("**", "^")


def _bare(text: str) -> str:
    """A text with alike signs made one and all its wrapping taken off."""
    for old, new in _REPLACEMENTS:
        text = text.replace(old, new)
    while True:
        bare = _unwrap(text.strip().removesuffix(".").removesuffix("%"))
        if bare == text:
            return text
        text = bare


def _unwrap(text: str) -> str:
    """Take off one layer."""
    text = text.strip()
    for left, right in _FENCES:
        inside = text[len(left) : -len(right)]
        if len(text) > len(left) + len(right) and text.startswith(left) and text.endswith(right) and left not in inside:
            return inside.strip()
    for name in _WRAPPERS:
        if text.startswith(name + "{") and closing_brace(text, len(name)) == len(text) - 1:
            return text[len(name) + 1 : -1].strip()
    return text


def _enclosure(text: str) -> str:
    """The two brackets around the whole of a text, such as ``(]``; "" when there are none."""
    text = text.replace("\\", "").strip()
    depth = 0
    for index, sign in enumerate(text):
        depth += (sign in "([{") - (sign in ")]}")
        if depth == 0:
            return text[0] + text[-1] if index and index == len(text) - 1 else ""
    return ""


def _same_case(answer: str, gold: str) -> bool:
    """False when a letter or command stands in both cases, which the symbolic checker does not tell apart."""
    symbols = {*_SYMBOL.findall(answer), *_SYMBOL.findall(gold)}
    return len({symbol.lower() for symbol in symbols}) == len(symbols)


def _is_unit(unit: str) -> bool:
    words = re.findall(r"[A-Za-z]+", unit)
    return all(
        word.lower() not in _NO_UNITS
        and not _LARGE.fullmatch(word.lower())
        and (len(word) > 1 or word in _LETTER_UNITS)
        for word in words
    )


def numbers_in(text: str) -> list[str]:
    """The whole and decimal numbers that stand in a text, in order, without commas between thousands."""
    return [digits.replace(",", "") for digits in re.findall(r"[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?", text)]
