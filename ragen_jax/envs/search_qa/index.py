"""Search inside the process: BM25 over the passages of a corpus, by the optional package bm25s."""

from __future__ import annotations

import importlib.util
import logging
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from ragen_jax.envs.search_qa.records import Hit, Passage

PACKAGES = ("bm25s", "Stemmer")
_WORD = re.compile(r"\w+")


class RetrievalError(OSError):
    """A search could not be made. It is never shown to the policy: the row becomes invalid."""


class Retriever(Protocol):
    """Anything that finds passages."""

    def check(self) -> None:
        """Raise RetrievalError when searches cannot work."""

    def search(self, query: str, k: int) -> list[Hit]:
        """The best passages, at most ``k``, best first; raises RetrievalError."""


def require_packages() -> None:
    """Refuse to go on without the packages of the extra ``search``; imports nothing.

    Raises:
      ValueError: names what is missing and how to install it.
    """
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(
            f"search_qa with retriever='bm25' needs {' and '.join(missing)}: pip install 'ragen_jax[search]', "
            "or use retriever='server'"
        )


class Bm25Index:
    """BM25 (Lucene's variant, k1 = 1.5, b = 0.75) over title and text; the title counts twice.

    Words are lower-cased runs of letters and digits, without English stop words, stemmed (Porter 2). Passages with
    equal scores keep the order of the corpus, and passages that share no word with the query are never found.
    One index serves all environments and threads of a process.
    """

    def __init__(self, passages: Sequence[Passage]) -> None:
        """Build the index; about a second for 30,000 short passages.

        Raises:
          ValueError: a package of the extra ``search`` is missing, or there is no passage with a word in it.
        """
        require_packages()
        with _jax_left_alone():
            import bm25s
        import Stemmer

        logging.getLogger("bm25s").setLevel(logging.WARNING)  # it sets itself to DEBUG and tells of every index
        self.passages = tuple(passages)
        self._stemmer = Stemmer.Stemmer("english")
        self._lock = threading.Lock()  # a stemmer has an inner state
        self._stop_words = frozenset(bm25s.stopwords.STOPWORDS_EN)
        words = [self._words(f"{passage.title} {passage.title} {passage.text}") for passage in self.passages]
        if not any(words):
            raise ValueError(f"a corpus of {len(self.passages)} passages without a word cannot be searched")
        self._bm25: Any = bm25s.BM25(method="lucene", k1=1.5, b=0.75, csc_backend="numpy")
        self._bm25.index(words, show_progress=False)

    def check(self) -> None:
        """An index that was built works."""

    def search(self, query: str, k: int) -> list[Hit]:
        """The best passages, at most ``k``, best first."""
        known = self._bm25.get_tokens_ids(self._words(query))
        if not known:
            return []
        scores = self._bm25.get_scores_from_ids(known)
        found = np.flatnonzero(scores > 0)
        best = found[np.argsort(-scores[found], kind="stable")[:k]]
        return [Hit(self.passages[at], float(scores[at])) for at in best.tolist()]

    def _words(self, text: str) -> list[str]:
        words = [word for word in _WORD.findall(text.casefold()) if word not in self._stop_words]
        with self._lock:
            stems: list[str] = self._stemmer.stemWords(words)
        return stems


@contextmanager
def _jax_left_alone() -> Iterator[None]:
    """Keep an import from loading jax, which environments do without.

    bm25s imports jax where it is installed, and starts its devices, only to offer a top-k that is not used here.
    """
    if "jax" in sys.modules:
        yield
        return
    sys.modules["jax"] = None  # type: ignore[assignment]  # makes ``import jax`` an ImportError, which bm25s handles
    try:
        yield
    finally:
        del sys.modules["jax"]
