"""Questions and passages from files (HotpotQA, FlashRAG and our own spelling), and the data of an environment.

Files are JSON Lines (``.jsonl``) or one JSON list (``.json``).
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ragen_jax.envs.data_source import (
    DataSet,
    DataSource,
    load_rows,
    locate,
    read_json_lines,
    read_json_list,
    text_field,
)
from ragen_jax.envs.search_qa.factbook import make_factbook
from ragen_jax.envs.search_qa.index import Bm25Index
from ragen_jax.envs.search_qa.records import Hop, Passage, Question
from ragen_jax.envs.search_qa.scoring import normalise
from ragen_jax.envs.search_qa.world import World, make_world

NAME = "search_qa"
QUESTIONS_BELOW, CORPUS_BELOW = "search_qa/questions.jsonl", "search_qa/corpus.jsonl"

INVENTED, FACTBOOK = "invented", "factbook"
WORLDS = (INVENTED, FACTBOOK)

Found = tuple[str, Path] | None


@dataclasses.dataclass(frozen=True)
class Data:
    """What the environments of a process share.

    Attributes:
      questions: at least one.
      index: over the corpus; None when a server searches.
      longest_answer: words of the longest answer, where a question has several of its shortest one.
      longest_question: the question with this answer.
      source: what a run says about both.
    """

    questions: tuple[Question, ...]
    index: Bm25Index | None
    source: DataSource
    longest_answer: int
    longest_question: str


def load_data(
    *, questions_file: str, corpus_file: str, skip_malformed: bool, search_here: bool, world: str = INVENTED
) -> Data:
    """Load questions and, when the search is made in this process, the corpus and its index; once per process.

    Without a corpus file the passages are the contexts that come with the questions (HotpotQA), and without any file
    the embedded world.

    Args:
      questions_file: see ``data_source.locate``; the default place is ``search_qa/questions.jsonl``.
      corpus_file: the same for ``search_qa/corpus.jsonl``.
      skip_malformed: leave malformed rows out and count them.
      search_here: load the corpus and build its index.
      world: embedded data: "invented", where no file is named or found; or "factbook", for which none is looked up.

    Raises:
      ValueError: a named file is nowhere, a row is malformed, two passages share an id, there is no row, or the files
        do not fit together.
    """
    if world != INVENTED:
        return _load(None, None, skip_malformed, search_here, world)
    questions = locate(questions_file, option="questions_file", below=QUESTIONS_BELOW)
    corpus = locate(corpus_file, option="corpus_file", below=CORPUS_BELOW) if search_here else None
    if corpus and not questions:
        raise ValueError(
            f"the corpus {corpus[1]} comes without questions, and the embedded ones do not ask about it: "
            f"set questions_file, or put {QUESTIONS_BELOW} below RAGEN_DATA_DIR"
        )
    return _load(questions, corpus, skip_malformed, search_here, world)


@functools.lru_cache(maxsize=8)
def _load(questions: Found, corpus: Found, skip_malformed: bool, search_here: bool, world: str) -> Data:
    asked = load_rows(
        f"{NAME} questions",
        questions,
        read=read_records,
        convert=question_of,
        embedded=_EMBEDDED[world][0],
        skip_malformed=skip_malformed,
    )
    rows = _one_unit_per_text(asked.rows)
    name = NAME if questions else f"{NAME} {world}"
    if not search_here:
        return _data(rows, None, dataclasses.replace(asked.source, name=name))
    passages = load_corpus(corpus, contexts_of=questions, skip_malformed=skip_malformed, world=world)
    rows, without = _with_their_evidence(rows, passages.rows, skip_malformed=skip_malformed)
    both = f"{asked.source.sha256} {passages.source.sha256}"
    files = ", ".join(dict.fromkeys(source.file for source in (asked.source, passages.source) if source.file))
    source = dataclasses.replace(
        asked.source,
        name=f"{name} over {len(passages.rows)} passages",
        file=files,
        sha256=hashlib.sha256(both.encode("ascii")).hexdigest(),
        rows=len(rows),
        skipped=asked.source.skipped + passages.source.skipped + without,
    )
    return _data(rows, Bm25Index(passages.rows), source)


def _data(questions: tuple[Question, ...], index: Bm25Index | None, source: DataSource) -> Data:
    lengths = [min(len(answer.split()) for answer in question.answers) for question in questions]
    longest = max(lengths)
    return Data(questions, index, source, longest, questions[lengths.index(longest)].text)


def _with_their_evidence(
    questions: tuple[Question, ...], passages: tuple[Passage, ...], *, skip_malformed: bool
) -> tuple[tuple[Question, ...], int]:
    """Questions whose named evidence is in the corpus, and how many were left out.

    Titles of ``supporting_facts`` may be missing, as in the open form of HotpotQA, whose contexts were searched for.

    Raises:
      ValueError: the evidence of a question is missing, and such questions should not be left out; or all are.
    """
    names = {name for passage in passages for name in (passage.id, passage.title)}
    kept = []
    for question in questions:
        missing = [gold for gold in question.gold if gold not in names and gold not in {h.query for h in question.plan}]
        if not missing:
            kept.append(question)
        elif not skip_malformed:
            raise ValueError(
                f"{NAME} questions: gold={missing[0]!r} of question {question.text[:60]!r} is no id and no title of "
                "the corpus, so its evidence could never be found; mend it, or set skip_malformed=true"
            )
    if not kept:
        raise ValueError(f"{NAME} questions: none has its evidence ('gold') in the corpus; name the corpus it is from")
    return tuple(kept), len(questions) - len(kept)


def load_corpus(found: Found, *, contexts_of: Found, skip_malformed: bool, world: str = INVENTED) -> DataSet[Passage]:
    """Passages of a corpus file; without one, the contexts of a file of questions; without that, the embedded ones.

    Raises:
      ValueError: as ``load_data``.
    """
    if found or not contexts_of:
        corpus = load_rows(
            f"{NAME} corpus",
            found,
            read=read_records,
            convert=passage_of,
            embedded=_EMBEDDED[world][1],
            skip_malformed=skip_malformed,
        )
        seen: set[str] = set()
        for passage in corpus.rows:
            if passage.id in seen:
                raise ValueError(
                    f"{NAME} corpus: id {passage.id!r} stands twice in {corpus.source.file}: ids must differ"
                )
            seen.add(passage.id)
        return corpus
    contexts: DataSet[tuple[Passage, ...]] = load_rows(
        f"{NAME} contexts",
        contexts_of,
        read=read_records,
        convert=contexts_of_row,
        embedded=tuple,
        skip_malformed=skip_malformed,
    )
    passages = tuple({passage.id: passage for row in contexts.rows for passage in row}.values())
    return DataSet(passages, dataclasses.replace(contexts.source, rows=len(passages)))


def read_records(path: Path) -> Iterator[tuple[int, Any]]:
    """Records of a file with their numbers, from 1.

    Raises:
      ValueError: the name of the file ends neither in .jsonl nor in .json, or it is not JSON.
    """
    if path.suffix == ".jsonl":
        return read_json_lines(path)
    if path.suffix == ".json":
        return read_json_list(path)
    raise ValueError(f"{path}: questions and passages are read from .jsonl or .json files; convert it")


def passage_of(record: Any) -> Passage:
    """A passage: ``id`` and either ``text`` (with or without ``title``) or ``contents``, whose first line is a title.

    Raises:
      ValueError: a field is missing, empty or of the wrong type.
    """
    row = _mapping(record)
    identity = row.get("id", row.get("_id"))
    if isinstance(identity, bool) or not isinstance(identity, (str, int)) or not str(identity).strip():
        raise ValueError("no 'id': every passage needs one, a text or a whole number, that no other passage has")
    if "contents" in row:
        title, text = split_content(_text(row, "contents"))
    else:
        title, text = text_field(row, "title", optional=True), _text(row, "text")
    return Passage(str(identity), title, text)


def split_content(content: str) -> tuple[str, str]:
    """Title and text of a passage in one piece: the first line of several is the title, often in quotes."""
    first, line_break, rest = content.partition("\n")
    return (first.strip().strip('"'), rest.strip()) if line_break and rest.strip() else ("", content)


def question_of(record: Any) -> Question:
    """A question.

    Fields: ``question``; ``answer``, ``ground_truth`` or ``golden_answers``, a text or a list of them; and, if there,
    ``unit``, ``type`` or ``kind``, ``gold`` (ids of passages) or ``supporting_facts`` of HotpotQA. Without a unit the
    pair of supporting titles is it, without these the question.

    Raises:
      ValueError: a field is missing, empty or of the wrong type.
    """
    row = _mapping(record)
    text = _text(row, "question")
    given = next((row[key] for key in ("answer", "ground_truth", "golden_answers") if row.get(key) is not None), None)
    answers = tuple(given) if isinstance(given, list) else (given,)
    if not answers or not all(isinstance(answer, str) and answer.strip() for answer in answers):
        raise ValueError(
            f"answer={given!r}: give 'answer', 'ground_truth' or 'golden_answers', a text or a list of texts"
        )
    if not all(map(normalise, answers)):
        raise ValueError(
            f"answer={given!r}: the comparison ignores the words a, an and the and punctuation, and nothing is left"
        )
    titles = _supporting_titles(row)
    given_gold = row.get("gold")
    named = titles if given_gold is None else given_gold
    if not isinstance(named, list | tuple) or not all(isinstance(gold, str | int) for gold in named):
        raise ValueError(f"gold={named!r}: give a list of ids of passages")
    gold = tuple(map(str, named))
    unit = str(row.get("unit") or " / ".join(sorted(gold)) or text)
    return Question(
        text=text,
        answers=answers,
        unit=unit,
        kind=str(row.get("kind") or row.get("type") or ""),
        gold=gold,
        plan=tuple(Hop(title) for title in titles),
    )


def contexts_of_row(record: Any) -> tuple[Passage, ...]:
    """The passages that come with a question of HotpotQA, with ids made of their content.

    Raises:
      ValueError: the row has none.
    """
    context = _mapping(record).get("context")
    if not context:
        raise ValueError("no 'context' with passages to search: name a corpus with corpus_file")
    if isinstance(context, dict):  # columns, as on the hub
        context = list(zip(context["title"], context["sentences"], strict=True))
    passages = []
    for title, sentences in context:
        if not (isinstance(title, str) and isinstance(sentences, list) and all(isinstance(s, str) for s in sentences)):
            raise ValueError(f"context of {title!r}: give pairs of a title and a list of sentences")
        text = " ".join(sentence.strip() for sentence in sentences)
        digest = hashlib.sha256(f"{title}\n{text}".encode()).hexdigest()
        passages.append(Passage(digest[:12], title, text))
    return tuple(passages)


def _supporting_titles(row: dict[str, Any]) -> tuple[str, ...]:
    facts = row.get("supporting_facts") or ()
    titles = facts["title"] if isinstance(facts, dict) else list(map(_title_of_fact, facts))
    if not isinstance(titles, list) or not all(isinstance(title, str) for title in titles):
        raise ValueError(f"supporting_facts={facts!r}: give pairs of a title and the number of a sentence")
    return tuple(dict.fromkeys(titles))


def _title_of_fact(fact: Any) -> Any:
    """The title of a pair; None for anything else."""
    return fact[0] if isinstance(fact, list | tuple) and len(fact) == 2 else None


def _one_unit_per_text(questions: tuple[Question, ...]) -> tuple[Question, ...]:
    """A question that stands twice must not be in both splits, whatever its second row says."""
    units: dict[str, str] = {}
    return tuple(dataclasses.replace(q, unit=units.setdefault(q.text, q.unit)) for q in questions)


def _mapping(record: Any) -> dict[str, Any]:
    if not isinstance(record, dict):
        raise ValueError(f"{type(record).__name__} instead of an object with fields")
    return record


def _text(row: dict[str, Any], field: str) -> str:
    value = row.get(field)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{field}={value!r}: it must be a text that is not empty")
    return value


@functools.lru_cache(maxsize=1)
def _invented() -> World:
    return make_world()


@functools.lru_cache(maxsize=1)
def _factbook() -> World:
    return make_factbook()


# Fixed functions, since ``load_rows`` remembers by them: questions and passages of each world.
_EMBEDDED: dict[str, tuple[Callable[[], tuple[Question, ...]], Callable[[], tuple[Passage, ...]]]] = {
    INVENTED: (lambda: _invented().questions, lambda: _invented().passages),
    FACTBOOK: (lambda: _factbook().questions, lambda: _factbook().passages),
}
