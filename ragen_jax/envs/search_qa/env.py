"""The SearchQA environment: search a corpus, turn by turn, and answer a question that needs two passages."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ragen_jax.envs.base import Demonstration, Ending, Observation, StepResult, TextEnv
from ragen_jax.envs.data_source import DataSource
from ragen_jax.envs.demonstrations import with_fillers
from ragen_jax.envs.instances import draw_instance
from ragen_jax.envs.search_qa.client import ServerRetriever
from ragen_jax.envs.search_qa.config import SearchQAConfig
from ragen_jax.envs.search_qa.index import Retriever
from ragen_jax.envs.search_qa.loader import Data, load_data
from ragen_jax.envs.search_qa.records import Hit, Passage, Question
from ragen_jax.envs.search_qa.scoring import exact_match, token_f1
from ragen_jax.envs.text import neutralise

MAX_QUERY_CHARS = 300
_ACTION = re.compile(r"(search|finish)\[(.*)\]", re.DOTALL | re.IGNORECASE)
_SECOND = re.compile(r"\].*?\b(?:search|finish)\[", re.DOTALL | re.IGNORECASE)
_ACTIONS = "Actions: search[query] or finish[answer]"


class SearchQA(TextEnv):
    """Answer a question with ``finish[answer]``, after as many ``search[query]`` as the turns allow.

    Success is an exact match with a gold answer (see ``scoring.normalise``) and pays 1; a search costs ``search_cost``.
    An answer that is neither action is invalid, costs a turn and nothing else. A search that fails raises
    ``RetrievalError``: what went wrong with the machine is no observation.

    At the end of an episode ``info`` has, beside the common entries: ``answered``, ``f1`` (token F1 of the answer, 0
    without one), ``searches``, and ``gold_recall`` (share of the evidence that was shown; left out when the evidence is
    not known). ``kind`` of the question is in every ``info``.
    """

    name: ClassVar[str] = "search_qa"
    Config: ClassVar[type[SearchQAConfig]] = SearchQAConfig

    def __init__(self, config: SearchQAConfig) -> None:
        """Load questions and corpus, once per process.

        Raises:
          ValueError: bad files, see ``loader.load_data``; an answer longer than ``max_answer_words``; or no URL of a
            server.
        """
        self.config: SearchQAConfig = config
        here = config.retriever == "bm25"
        self._data: Data = load_data(
            questions_file=config.questions_file,
            corpus_file=config.corpus_file,
            skip_malformed=config.skip_malformed,
            search_here=here,
            world=config.world,
        )
        longest, asked = self._data.longest_answer, self._data.longest_question
        if longest > config.max_answer_words:
            raise ValueError(
                f"max_answer_words={config.max_answer_words}: nobody could answer {asked[:60]!r}, whose answer has "
                f"{longest} words; use max_answer_words={longest} or more, or leave such questions out of the file"
            )
        self._retriever: Retriever = self._data.index or _server(_server_url(config), config.retrieval_timeout_s)
        self._question: Question | None = None
        self._done = True

    def data_source(self) -> DataSource:
        """Questions and corpus."""
        return self._data.source

    def reset(self, seed: int, member: int = 0) -> Observation:
        """Begin with the question of ``seed``; without noise all members are alike.

        Raises:
          RetrievalError: the retrieval server is not ready.
          ValueError: no question belongs to the split.
        """
        questions, config = self._data.questions, self.config
        self._retriever.check()
        self._question = draw_instance(
            lambda rng: questions[int(rng.integers(len(questions)))],
            lambda question: question.unit,
            seed=seed,
            split=config.split,
            validation_percent=config.validation_percent,
            rows=len(questions),
        )
        self._turns = self._actions = self._searches = 0
        self._queries: set[str] = set()
        self._seen: dict[str, Passage] = {}
        self._done = False
        return Observation(neutralise(f"Question: {self.question.text}\n{_ACTIONS}"))

    def step(self, answer: str) -> StepResult:
        """Search or finish; see ``TextEnv.step``.

        Raises:
          RetrievalError: the search failed.
        """
        if self._done:
            raise RuntimeError("the episode is over or was never begun: call reset")
        action, argument = _read_action(answer)
        self._turns += 1
        self._actions += bool(action)
        if action == "search":
            return self._search(argument)
        if action == "finish":
            return self._finish(argument, valid=True)
        if self.config.free_text == "score" and answer.strip():
            return self._finish(answer.strip(), valid=False)
        return self._result(_INVALID, reward=0.0, action="", valid=False, effective=False)

    def finish(self) -> Ending:
        """Report the episode without an answer; see ``TextEnv.finish``."""
        self._done = True
        return Ending(info=self._outcome(None))

    def instructions(self) -> str:
        """Task description; the terse one is empty."""
        config = self.config
        if config.instructions == "terse":
            return ""
        cost = f" Each search costs {config.search_cost:g}." if config.search_cost else ""
        partly = (
            f" Another answer pays its F1 with the right one, the overlap of their words, if that is at least "
            f"{config.f1_threshold:g}."
            if config.reward == "f1"
            else ""
        )
        return "\n".join(
            (
                "Answer a question with the help of a search engine. What you need is spread over several passages.",
                f"search[query] shows up to {config.max_results} passages that fit the query; name in it what you look "
                "for. finish[answer] gives your answer and ends the episode. Each reply holds one of the two.",
                "Examples: search[Arctic tern breeding range] and then finish[Iceland]",
                "Give the answer alone: a name, a number, yes or no; a sentence counts as wrong, and so do more than "
                f"{config.max_answer_words} words.",
                f"Limits: {config.max_turns} turns and {config.max_actions} actions in all. "
                f"The right answer pays 1.{partly}{cost}",
            )
        )

    def canonical(self) -> str:
        """The question."""
        return self.question.text

    def demonstrate(self, rng: np.random.Generator, *, skill: float) -> Demonstration:
        """Make the next search of the plan, then give the answer; or carelessly search or guess something seen."""
        question, last = self.question, self._on_last_turn()
        if rng.random() >= skill:
            return self._careless(rng, last=last)
        queries = list(filter(None, (_as_argument(hop.query) for hop in question.plan)))
        queries = queries or [_as_argument(question.text)]
        golds = [gold for gold in question.answers if len(gold.split()) <= self.config.max_answer_words]
        gold = neutralise(golds[0].translate(_BRACKETS))
        left = [query for query in queries if query not in self._queries]
        facts = [hop.fact for hop in question.plan if hop.passage in self._seen]
        if left and not last:
            return _reply((*facts, f"look for {left[0]}"), f"search[{left[0]}]", rng)
        return _reply((*facts, f"answer {gold}"), f"finish[{gold}]", rng)

    @property
    def question(self) -> Question:
        """The question of the running episode."""
        if self._question is None:
            raise RuntimeError("no episode was begun: call reset")
        return self._question

    def _search(self, query: str) -> StepResult:
        hits = self._retriever.search(query, self.config.max_results)
        self._searches += 1
        self._queries.add(query)
        blocks = _blocks(hits, self.config)
        fresh = [hit.passage for hit in hits[: len(blocks)] if hit.passage.id not in self._seen]
        self._seen |= {passage.id: passage for passage in fresh}
        text = "\n".join((f"Results for {query}:", *(blocks or ["Nothing was found."]), _ACTIONS))
        return self._result(
            text, reward=0.0 - self.config.search_cost, action="search", valid=True, effective=bool(fresh)
        )

    def _finish(self, answer: str, *, valid: bool) -> StepResult:
        config, golds = self.config, self.question.answers
        readable = len(answer.split()) <= config.max_answer_words
        success = readable and exact_match(answer, golds)
        f1 = token_f1(answer, golds) if readable else 0.0
        partial = f1 if config.reward == "f1" and f1 >= config.f1_threshold else 0.0
        reward = 1.0 if success else partial
        text = "That is right." if success else "That is not the answer."
        return self._result(
            text, reward=reward, action="finish" if valid else "", valid=valid, effective=True, success=success, f1=f1
        )

    def _result(
        self,
        text: str,
        *,
        reward: float,
        action: str,
        valid: bool,
        effective: bool,
        success: bool = False,
        f1: float | None = None,
    ) -> StepResult:
        """``f1`` is None as long as no final answer was given."""
        config, question = self.config, self.question
        terminated = f1 is not None
        truncated = not terminated and (self._turns >= config.max_turns or self._actions >= config.max_actions)
        self._done = terminated or truncated
        info: dict[str, Any] = {
            "success": success,
            "action_is_valid": valid,
            "action_is_effective": effective,
            "actions_taken": (action,) if action else (),
            "kind": question.kind,
        }
        if self._done:
            info |= self._outcome(f1)
        return StepResult(Observation(neutralise(text)), float(reward), terminated, truncated, info)

    def _outcome(self, f1: float | None) -> dict[str, Any]:
        """Entries of ``info`` at the end of an episode; ``f1`` is None without a final answer."""
        outcome = {"answered": f1 is not None, "f1": f1 or 0.0, "searches": self._searches}
        gold = self.question.gold
        if gold:
            names = {name for passage in self._seen.values() for name in (passage.id, passage.title)}
            outcome["gold_recall"] = sum(each in names for each in gold) / len(gold)
        return outcome

    def _on_last_turn(self) -> bool:
        return self._turns + 1 >= self.config.max_turns or self._actions + 1 >= self.config.max_actions

    def _careless(self, rng: np.random.Generator, *, last: bool) -> Demonstration:
        """A search for two words of the question, or as the answer the title of a passage that was shown."""
        words = self.question.text.split()
        some = _as_argument(" ".join(words[at] for at in rng.integers(len(words), size=2).tolist())) or "anything"
        if last or rng.random() < 0.5:
            titles = [title for title in (_as_argument(passage.title) for passage in self._seen.values()) if title]
            titles = titles or [some]
            guess = titles[int(rng.integers(len(titles)))]
            return _reply(("maybe it is", guess), f"finish[{guess}]", rng)
        return _reply(("just look for", some), f"search[{some}]", rng)


_INVALID = f"That is no action, nothing was done.\n{_ACTIONS}"


def _read_action(answer: str) -> tuple[str, str]:
    """Action in lower case and what stands in its brackets; two empty texts when the answer is not one action."""
    match = _ACTION.fullmatch(answer.strip())
    if not match:
        return "", ""
    action, argument = match[1].lower(), match[2].strip()
    if not argument or _SECOND.search(argument) or (action == "search" and len(argument) > MAX_QUERY_CHARS):
        return "", ""
    return action, argument


_BRACKETS = str.maketrans("", "", "[]")


def _as_argument(text: str) -> str:
    """A text of the data as a solver writes it between brackets: what the environment then reads is the same text."""
    return neutralise(text.translate(str.maketrans("[]", "  ")))[:MAX_QUERY_CHARS].strip()


def _reply(parts: Sequence[str], answer: str, rng: np.random.Generator) -> Demonstration:
    """A demonstration; what it quotes of the data must not act as a marker either."""
    return Demonstration(neutralise(with_fillers(parts, rng)), neutralise(answer))


def _blocks(hits: Sequence[Hit], config: SearchQAConfig) -> list[str]:
    """Texts of the first passages, as many as there is room for, each and together cut to their lengths."""
    blocks: list[str] = []
    room = config.max_total_chars
    for number, hit in enumerate(hits, start=1):
        if room <= 0:
            break
        head = f"[{number}] {hit.passage.title} (id {hit.passage.id}, score {hit.score:.2f})"
        block = f"{head}\n{_cut(hit.passage.text, config.max_passage_chars)}"
        blocks.append(_cut(block, room))
        room -= len(block)
    return blocks


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}..."


def _server_url(config: SearchQAConfig) -> str:
    url = config.server_url or os.environ.get("RETRIEVAL_SERVER_URL", "")
    if not url:
        raise ValueError("retriever='server' without an address: set server_url or RETRIEVAL_SERVER_URL")
    return url


@functools.lru_cache(maxsize=8)
def _server(url: str, timeout_s: float) -> ServerRetriever:
    """One client per server, shared by all environments, so that one of them asks for its health."""
    return ServerRetriever(url, timeout_s=timeout_s)
