"""How two short texts are compared: token-set ratio, colour names, and the nouns of a title.

The token-set ratio is the one that fuzzy-matching libraries share; it is short enough to stand here, so that a shop
needs no extra package. The tests compare it with rapidfuzz where that is installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_WORD = re.compile(r"[^\W_]+")

# Two-word names stand before the words in them: the first that a text contains is its colour. Words that are foods too
# (chocolate, lemon, mint) are left out: as flavours they would make different things equal.
_COLOURS = """
rose gold, off white, sky blue, navy blue, royal blue, baby blue, forest green, olive green, mint green, hot pink,
dark gray, light gray, amber, aqua, aquamarine, azure, beige, black, blue, blush, bronze, brown, brass, burgundy, camel,
charcoal, chrome, cobalt, copper, coral, cream, crimson, cyan, denim, ebony, ecru, emerald, fuchsia, gold, golden,
graphite, gray, green, grey, indigo, ivory, jade, khaki, lavender, lilac, magenta, maroon, mauve, multicolor, navy,
nude, ochre, orange, pearl, pewter, pink, platinum, purple, red, rose, ruby, rust, sand, sapphire, scarlet, sepia,
sienna, silver, slate, tan, taupe, teal, terracotta, turquoise, umber, violet, white, yellow
"""
COLOURS: tuple[tuple[str, ...], ...] = tuple(tuple(name.split()) for name in _COLOURS.split(","))

_NO_NOUNS = """
a an the and or of for with without in on at by to from as is it its be up off out per plus not no all any your our my
his her their this that these those very more most best new old big small little large long short tall wide narrow thin
thick heavy light lightweight soft hard warm cool cold hot dry wet fresh clean clear dark bright deep high low full half
double single dual triple multi mini ultra super extra premium quality luxury classic modern vintage casual formal
natural organic pure raw real fine smooth quick fast easy slim fit fitted relaxed loose stretchy adjustable foldable
portable durable wireless waterproof washable resistant proof free friendly safe compatible reusable rechargeable
replaceable certified scented unscented sweet salty spicy savory rich bold mild women womens men mens kids unisex adult
adults pack set count piece pieces pcs ounce ounces oz fl inch inches ft feet lb lbs pound pounds ml gram grams kg size
color colour style one two three four five six
"""
_SAYS_NO_KIND = frozenset(_NO_NOUNS.split()) | {word for name in COLOURS for word in name}


def words(text: str) -> list[str]:
    """Lower-case words and numbers of a text, in order; punctuation separates."""
    return _WORD.findall(text.lower())


def token_set_ratio(first: str, second: str) -> float:
    """How alike two texts are as sets of words, 0 to 100.

    Let c be the sorted common words and a, b those words followed by the sorted others of each text. The answer is the
    largest similarity of two of the three strings, where the similarity of s and t is ``100 * 2 lcs(s, t) / (|s| +
    |t|)``, lcs the length of their longest common subsequence. 100 when one text has all words of the other; 0 when a
    text has no word.
    """
    one, two = set(words(first)), set(words(second))
    if not one or not two:
        return 0.0
    common = " ".join(sorted(one & two))
    if common and (one <= two or two <= one):
        return 100.0
    left, right = (" ".join(filter(None, (common, *sorted(own)))) for own in (one - two, two - one))
    best = _similarity(left, right)
    if common:
        best = max(best, _similarity(common, left), _similarity(common, right))
    return 100.0 * best


def colour_of(text: str) -> str:
    """The colour that a text names, or the text itself when it names none. Words count, so "layered" is not red."""
    found = words(text)
    for name in COLOURS:
        if any(tuple(found[at : at + len(name)]) == name for at in range(len(found) - len(name) + 1)):
            return " ".join(name)
    return text


def title_nouns(title: str) -> frozenset[str]:
    """Words of a title that say what the thing is: all but numbers, colours, function words and common adjectives.

    A list of words stands in for a part-of-speech tagger, whose models could not be had offline; a type factor may
    therefore differ a little from one that a tagger gives.
    """
    return frozenset(word for word in words(title) if word not in _SAYS_NO_KIND and not any(map(str.isdigit, word)))


def contains(texts: Iterable[str], phrase: str) -> bool:
    """True when the phrase stands literally in one of the texts, upper and lower case alike."""
    wanted = phrase.lower()
    return any(wanted in text.lower() for text in texts)


def _similarity(one: str, two: str) -> float:
    return 2 * _common_subsequence(one, two) / (len(one) + len(two))


def _common_subsequence(one: str, two: str) -> int:
    """Length of the longest common subsequence, one machine word operation per letter (Hyyrö 2004).

    Bit i of ``open_`` is 0 when position i of ``one`` closes a longer common subsequence with the letters read so far.
    """
    places: dict[str, int] = {}
    for index, letter in enumerate(one):
        places[letter] = places.get(letter, 0) | 1 << index
    everything = (1 << len(one)) - 1
    open_ = everything
    for letter in two:
        matched = open_ & places.get(letter, 0)
        open_ = ((open_ + matched) | (open_ - matched)) & everything
    return len(one) - open_.bit_count()
