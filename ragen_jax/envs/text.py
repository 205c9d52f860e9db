"""Text from outside, made safe to show: a passage, a product page or an echoed query is data, never a marker."""

from __future__ import annotations

import re

# The start of anything that reads as a marker: "<think>", "</answer>", "<s>", "<|im_end|>". Full-width bars are in
# use too. "a < b" and "<=" are no markers.
_MARKER = re.compile(r"<(?=/?[A-Za-z_][\w.:-]*\s*/?>|[|｜])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def neutralise(text: str) -> str:
    """Break every marker in a text by a blank behind its ``<``, so that neither a tokenizer nor a parser sees one.

    ``</think>`` becomes ``< /think>`` and ``<|im_end|>`` becomes ``< |im_end|>``; nothing is removed, so no new marker
    can form. Control characters other than tab and newline become blanks, lone surrogates the replacement sign. Doing
    it twice changes nothing more.
    """
    text = _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", _CONTROL.sub(" ", text))
    return _MARKER.sub("< ", text)
