"""Problems about text."""

from __future__ import annotations

from ragen_jax.envs.deepcoder.problems.draft import Draft

TEXT = (
    Draft(
        name="flip_words",
        function="flip_words",
        level=1,
        idea="split at spaces, reverse each, join",
        statement="""\
Return the text with every word reversed, the words in their old order. Words are separated by single
spaces.""",
        solution="""\
def flip_words(text):
    return " ".join(word[::-1] for word in text.split(" "))
""",
        broken="""\
def flip_words(text):
    return text[::-1]
""",
        tests=(
            (("hello world",), "olleh dlrow"),
            (("one",), "eno"),
            (("",), ""),
            (("a bc def",), "a cb fed"),
            (("level up",), "level pu"),
            (("red green blue",), "der neerg eulb"),
            (("noon civic",), "noon civic"),
            (("x y",), "x y"),
            (("open the door now",), "nepo eht rood won"),
        ),
    ),
    Draft(
        name="top_letter_count",
        function="top_letter_count",
        level=1,
        idea="count letters in lower case, take the largest count",
        statement="""\
Return how often the most frequent letter occurs in the text. Capital and small letters are the same;
other characters do not count. Without a letter the answer is 0.""",
        solution="""\
def top_letter_count(text):
    letters = [c for c in text.lower() if c.isalpha()]
    return max((letters.count(c) for c in letters), default=0)
""",
        broken="""\
def top_letter_count(text):
    return max((text.count(c) for c in text), default=0)
""",
        tests=(
            (("Banana",), 3),
            (("Tt t",), 3),
            (("",), 0),
            (("12 34",), 0),
            (("abc",), 1),
            (("Mississippi",), 4),
            (("a  b   c",), 1),
            (("zZzZ!",), 4),
            (("Hello, World",), 3),
        ),
    ),
    Draft(
        name="is_mirror",
        function="is_mirror",
        level=1,
        idea="keep letters and digits, compare with the reverse",
        statement="""\
Return True when the text reads the same from both ends, ignoring everything but letters and digits, and
ignoring capitals.""",
        solution="""\
def is_mirror(text):
    kept = [c.lower() for c in text if c.isalnum()]
    return kept == kept[::-1]
""",
        broken="""\
def is_mirror(text):
    return text == text[::-1]
""",
        tests=(
            (("Never odd or even",), True),
            (("hello",), False),
            (("",), True),
            (("12 321",), True),
            (("1221",), True),
            (("No lemon, no melon",), True),
            (("ab",), False),
            (("Was it a car",), False),
            (("A1b2B1a",), True),
        ),
    ),
    Draft(
        name="squeeze",
        function="squeeze",
        level=1,
        idea="walk along runs of equal letters",
        statement="""\
Compress the text: a letter that stands n >= 2 times in a row becomes the letter and n; a single letter
stays.""",
        solution="""\
from itertools import groupby


def squeeze(text):
    result = ""
    for letter, run in groupby(text):
        count = len(list(run))
        result += letter + (str(count) if count > 1 else "")
    return result
""",
        broken="""\
from itertools import groupby


def squeeze(text):
    return "".join(letter + str(len(list(run))) for letter, run in groupby(text))
""",
        tests=(
            (("aaab",), "a3b"),
            (("abc",), "abc"),
            (("",), ""),
            (("zz",), "z2"),
            (("aabbaa",), "a2b2a2"),
            (("xyyyyyyyyyyyy",), "xy12"),
            (("k",), "k"),
            (("aaabbbccc",), "a3b3c3"),
            (("abab",), "abab"),
        ),
    ),
    Draft(
        name="initials",
        function="initials",
        level=1,
        idea="first letter of each word",
        statement="""\
Return the initials of a name: the first letter of every word, as capitals, each followed by a full stop.""",
        solution="""\
def initials(name):
    return "".join(word[0].upper() + "." for word in name.split())
""",
        broken="""\
def initials(name):
    return "".join(c + "." for c in name if c.isupper())
""",
        tests=(
            (("ada lovelace",), "A.L."),
            (("Alan Turing",), "A.T."),
            (("grace",), "G."),
            (("john von neumann",), "J.V.N."),
            (("Emmy  Noether",), "E.N."),
            (("",), ""),
            (("a b c",), "A.B.C."),
            (("Katherine coleman johnson",), "K.C.J."),
        ),
    ),
    Draft(
        name="shift_letters",
        function="shift_letters",
        level=2,
        idea="shift modulo 26 within each case",
        statement="""\
Move every letter of the text by k places in the alphabet, from z on to a. Capitals stay capitals; other
characters stay as they are. k may be negative or large.""",
        solution="""\
def shift_letters(text, k):
    def move(c):
        for first in "aA":
            if first <= c <= chr(ord(first) + 25):
                return chr((ord(c) - ord(first) + k) % 26 + ord(first))
        return c

    return "".join(map(move, text))
""",
        broken="""\
def shift_letters(text, k):
    return "".join(chr(ord(c) + k) if c.isalpha() else c for c in text)
""",
        tests=(
            (("abc", 1), "bcd"),
            (("Zoo!", 2), "Bqq!"),
            (("", 5), ""),
            (("xyz", 3), "abc"),
            (("Hello, World", 13), "Uryyb, Jbeyq"),
            (("b", -2), "z"),
            (("A-z", 52), "A-z"),
            (("Quiz 42", -27), "Pthy 42"),
            (("middle", 100), "iezzha"),
        ),
    ),
    Draft(
        name="brackets_match",
        function="brackets_match",
        level=2,
        idea="keep a stack of open brackets",
        statement="""\
A text holds round, square and curly brackets and other characters. Return True when every bracket is
closed by its own kind in the right order, else False.""",
        solution="""\
def brackets_match(text):
    closing = {")": "(", "]": "[", "}": "{"}
    stack = []
    for c in text:
        if c in "([{":
            stack.append(c)
        elif c in closing and (not stack or stack.pop() != closing[c]):
            return False
    return not stack
""",
        broken="""\
def brackets_match(text):
    return all(text.count(a) == text.count(b) for a, b in ("()", "[]", "{}"))
""",
        tests=(
            (("(a[b]{c})",), True),
            (("(]",), False),
            (("",), True),
            ((")(",), False),
            (("([)]",), False),
            (("((())",), False),
            (("x = {y: [1, (2)]}",), True),
            (("}",), False),
            (("[[]]{}",), True),
        ),
    ),
    Draft(
        name="longest_single",
        function="longest_single",
        level=2,
        idea="count words, then the first longest among those with count one",
        statement="""\
Return the longest word of the text that occurs in it exactly once (words are separated by spaces). Of
equally long ones take the first. Return an empty text when there is none.""",
        solution="""\
def longest_single(text):
    words = text.split()
    best = ""
    for word in words:
        if words.count(word) == 1 and len(word) > len(best):
            best = word
    return best
""",
        broken="""\
def longest_single(text):
    return max(text.split(), key=len, default="")
""",
        tests=(
            (("to be or not to be",), "not"),
            (("aa bb aa",), "bb"),
            (("",), ""),
            (("same same",), ""),
            (("tree house tree garden house",), "garden"),
            (("one four five",), "four"),
            (("long longer longest longest",), "longer"),
            (("x",), "x"),
            (("banana apple banana pears apple",), "pears"),
        ),
    ),
    Draft(
        name="numbers_in",
        function="numbers_in",
        level=2,
        idea="collect runs of digits",
        statement="""\
Return the numbers that stand in the text, in their order: each longest run of decimal digits is one
number. A sign is no part of a number.""",
        solution="""\
import re


def numbers_in(text):
    return [int(run) for run in re.findall("[0-9]+", text)]
""",
        broken="""\
def numbers_in(text):
    return [int(c) for c in text if c.isdigit()]
""",
        tests=(
            (("3 cats and 14 dogs",), [3, 14]),
            (("none",), []),
            (("",), []),
            (("007",), [7]),
            (("a1b22c333",), [1, 22, 333]),
            (("-5",), [5]),
            (("10.25",), [10, 25]),
            (("2026-11-29",), [2026, 11, 29]),
            (("x9",), [9]),
        ),
    ),
    Draft(
        name="ranges",
        function="ranges",
        level=2,
        idea="find runs of neighbours and write each",
        statement="""\
Return the whole numbers of a sorted list as a text of ranges: consecutive numbers a, a+1, ..., b become
"a-b" when there are at least three of them; everything is separated by commas. The numbers are positive
and all different.""",
        solution="""\
def ranges(numbers):
    parts = []
    start = 0
    while start < len(numbers):
        end = start
        while end + 1 < len(numbers) and numbers[end + 1] == numbers[end] + 1:
            end += 1
        if end - start >= 2:
            parts.append(f"{numbers[start]}-{numbers[end]}")
        else:
            parts += map(str, numbers[start : end + 1])
        start = end + 1
    return ",".join(parts)
""",
        broken="""\
def ranges(numbers):
    parts = []
    start = 0
    while start < len(numbers):
        end = start
        while end + 1 < len(numbers) and numbers[end + 1] == numbers[end] + 1:
            end += 1
        parts.append(f"{numbers[start]}-{numbers[end]}" if end > start else str(numbers[start]))
        start = end + 1
    return ",".join(parts)
""",
        tests=(
            (([1, 2, 3, 5],), "1-3,5"),
            (([4, 5, 9],), "4,5,9"),
            (([],), ""),
            (([7],), "7"),
            (([1, 3, 5],), "1,3,5"),
            (([2, 3, 4, 5, 8, 9, 10],), "2-5,8-10"),
            (([10, 11],), "10,11"),
            (([1, 2, 4, 5, 6, 8],), "1,2,4-6,8"),
            (([98, 99, 100, 101],), "98-101"),
        ),
    ),
    Draft(
        name="longest_distinct",
        function="longest_distinct",
        level=3,
        idea="slide a window and remember where each character was last",
        statement="""\
Return the length of the longest piece of the text in which no character occurs twice.""",
        solution="""\
def longest_distinct(text):
    last = {}
    start = best = 0
    for index, c in enumerate(text):
        start = max(start, last.get(c, -1) + 1)
        last[c] = index
        best = max(best, index - start + 1)
    return best
""",
        broken="""\
def longest_distinct(text):
    return len(set(text))
""",
        tests=(
            (("abcab",), 3),
            (("aaaa",), 1),
            (("",), 0),
            (("abcdef",), 6),
            (("abba",), 2),
            (("dvdf",), 3),
            (("tmmzuxt",), 5),
            (("hello world",), 6),
            (("xyzxyzxyz!",), 4),
        ),
    ),
    Draft(
        name="distance",
        function="distance",
        level=3,
        idea="table over prefixes of both texts",
        statement="""\
Return the smallest number of single-character changes (insert, delete or replace one character) that
turn the first text into the second.""",
        solution="""\
def distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]
""",
        broken="""\
def distance(a, b):
    return sum(x != y for x, y in zip(a, b)) + abs(len(a) - len(b))
""",
        tests=(
            (("kitten", "sitting"), 3),
            (("abc", "abc"), 0),
            (("", ""), 0),
            (("", "four"), 4),
            (("flaw", "lawn"), 2),
            (("saturday", "sunday"), 3),
            (("abcdef", "bcdefa"), 2),
            (("x", "yx"), 1),
            (("intention", "execution"), 5),
        ),
    ),
    Draft(
        name="evaluate",
        function="evaluate",
        level=3,
        idea="recursive descent: sums of products of atoms",
        statement="""\
An expression consists of whole numbers, + - * and round brackets, without spaces. Return its value; *
binds tighter than + and -, which go from left to right. Do it without eval.""",
        solution="""\
def evaluate(text):
    at = 0

    def atom():
        nonlocal at
        if text[at] == "(":
            at += 1
            value = total()
            at += 1
            return value
        start = at
        while at < len(text) and text[at].isdigit():
            at += 1
        return int(text[start:at])

    def product():
        nonlocal at
        value = atom()
        while at < len(text) and text[at] == "*":
            at += 1
            value *= atom()
        return value

    def total():
        nonlocal at
        value = product()
        while at < len(text) and text[at] in "+-":
            sign = 1 if text[at] == "+" else -1
            at += 1
            value += sign * product()
        return value

    return total()
""",
        broken="""\
import re


def evaluate(text):
    parts = re.findall("[0-9]+|[+*-]", text)
    value = int(parts[0])
    for sign, number in zip(parts[1::2], parts[2::2]):
        if sign == "+":
            value += int(number)
        elif sign == "-":
            value -= int(number)
        else:
            value *= int(number)
    return value
""",
        tests=(
            (("1+2*3",), 7),
            (("(1+2)*3",), 9),
            (("7",), 7),
            (("10-4-3",), 3),
            (("2*(3+4)*5",), 70),
            (("((8))",), 8),
            (("100-(20-5*(1+1))",), 90),
            (("0*99+1",), 1),
            (("12*12-11*13",), 1),
        ),
    ),
)
