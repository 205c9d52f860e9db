"""Files of questions and passages: spellings, faults, and how they go together."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ragen_jax.envs.search_qa.loader import contexts_of_row, load_data, passage_of, question_of, split_content
from ragen_jax.envs.search_qa.records import Passage

pytest.importorskip("bm25s", reason="needs the extra 'search'")
pytest.importorskip("Stemmer", reason="needs the extra 'search'")

HOTPOT = {
    "_id": "5a",
    "question": "Who painted the hall of the Orvel Tower?",
    "answer": "Tal Orn",
    "type": "bridge",
    "supporting_facts": [["Orvel Tower", 0], ["Tal Orn", 1], ["Orvel Tower", 2]],
    "context": [["Orvel Tower", ["The tower has a hall.", " It was painted."]], ["Tal Orn", ["A painter."]]],
}
HOTPOT_COLUMNS = HOTPOT | {
    "supporting_facts": {"title": ["Orvel Tower", "Tal Orn"], "sent_id": [0, 1]},
    "context": {
        "title": ["Orvel Tower", "Tal Orn"],
        "sentences": [["The tower has a hall.", " It was painted."], ["A painter."]],
    },
}
PLAIN = {"question": "Who built it?", "ground_truth": ["Tal", "Tal Orn"], "unit": "Orvel", "gold": [7]}


def _write(path: Path, records: list[Any]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".json":
        path.write_text(json.dumps(records), encoding="utf-8")
    else:
        lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
        path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def _load(questions: str = "", corpus: str = "", *, skip: bool = False, here: bool = True) -> Any:
    return load_data(questions_file=questions, corpus_file=corpus, skip_malformed=skip, search_here=here)


@pytest.mark.parametrize("row", [HOTPOT, HOTPOT_COLUMNS])
def test_both_forms_of_hotpotqa(row: dict[str, Any]) -> None:
    question = question_of(row)
    assert question.answers == ("Tal Orn",)
    assert question.gold == ("Orvel Tower", "Tal Orn")
    assert question.unit == "Orvel Tower / Tal Orn"
    assert question.kind == "bridge"
    first, second = contexts_of_row(row)
    assert (first.title, first.text) == ("Orvel Tower", "The tower has a hall. It was painted.")
    assert first.id != second.id


def test_plain_questions() -> None:
    question = question_of(PLAIN)
    assert question.answers == ("Tal", "Tal Orn")
    assert (question.unit, question.gold, question.kind) == ("Orvel", ("7",), "")
    assert question_of({"question": "Q?", "golden_answers": ["x"]}).unit == "Q?"


@pytest.mark.parametrize(
    ("record", "passage"),
    [
        ({"id": 3, "text": "words"}, Passage("3", "", "words")),
        ({"id": "a", "title": "T", "text": "words"}, Passage("a", "T", "words")),
        ({"_id": "a", "contents": '"T"\nwords\nmore'}, Passage("a", "T", "words\nmore")),
        ({"id": "a", "contents": "words"}, Passage("a", "", "words")),
    ],
)
def test_passages(record: dict[str, Any], passage: Passage) -> None:
    assert passage_of(record) == passage


@pytest.mark.parametrize(
    ("content", "parts"), [("T\nx", ("T", "x")), ("x", ("", "x")), ("x\n ", ("", "x\n ")), ("", ("", ""))]
)
def test_split_content(content: str, parts: tuple[str, str]) -> None:
    assert split_content(content) == parts


@pytest.mark.parametrize(
    ("record", "fault"),
    [
        ({"text": "words"}, "no 'id': every passage needs one"),
        ({"id": None, "text": "words"}, "no 'id'"),
        ({"id": True, "text": "words"}, "no 'id'"),
        ({"id": " ", "text": "words"}, "no 'id'"),
        ({"id": 1}, "text=None: it must be a text"),
        ({"id": 1, "contents": 5}, "contents=5: it must be a text"),
        (["id", 1], "list instead of an object"),
        ("{", "not JSON"),
    ],
)
def test_a_malformed_passage_is_named_with_its_line(tmp_path: Path, record: Any, fault: str) -> None:
    corpus = _write(tmp_path / "c.jsonl", [{"id": 0, "text": "fine"}, "", record])
    questions = _write(tmp_path / "q.jsonl", [PLAIN | {"gold": [0]}])
    with pytest.raises(ValueError, match=f"line 3 of .*c.jsonl is malformed: {fault}"):
        _load(questions, corpus)
    data = _load(questions, corpus, skip=True)
    assert [passage.id for passage in data.index.passages] == ["0"]
    assert data.source.skipped == 1


@pytest.mark.parametrize(
    ("record", "fault"),
    [
        ({"answer": "x"}, "question=None: it must be a text"),
        ({"question": "Q?"}, "answer=None: give"),
        ({"question": "Q?", "answer": []}, r"answer=\[\]: give"),
        ({"question": "Q?", "answer": ["x", 5]}, "a text or a list of texts"),
        *(
            ({"question": "Q?", "answer": text}, f"answer={re.escape(repr(text))}: the comparison ignores")
            for text in ("the", "A", "?!")
        ),
        ({"question": "Q?", "answer": "x", "gold": "p1"}, "gold='p1': give a list of ids"),
        (HOTPOT | {"supporting_facts": [[1, 2]]}, "supporting_facts="),
        (HOTPOT | {"supporting_facts": [["Tal Orn"]]}, "supporting_facts=.*give pairs"),
        (HOTPOT | {"supporting_facts": ["ab", "cd"]}, "supporting_facts=.*give pairs"),
        (HOTPOT | {"supporting_facts": [["Tal Orn", 0, 1]]}, "supporting_facts=.*give pairs"),
        (HOTPOT | {"supporting_facts": {"title": "ab"}}, "supporting_facts=.*give pairs"),
        (HOTPOT | {"supporting_facts": {"sent_id": []}}, "no field 'title'"),
    ],
)
def test_a_malformed_question_is_named_with_its_line(tmp_path: Path, record: Any, fault: str) -> None:
    questions = _write(tmp_path / "q.json", [HOTPOT, record])
    with pytest.raises(ValueError, match=f"line 2 of .*q.json is malformed: .*{fault}"):
        _load(questions, here=False)
    data = _load(questions, here=False, skip=True)
    assert [question.text for question in data.questions] == [HOTPOT["question"]]
    assert data.index is None


@pytest.mark.parametrize("context", [None, [], 5, [["T"]], [[5, ["x"]]], [["T", "x"]], {"title": ["T"]}])
def test_malformed_contexts(tmp_path: Path, context: Any) -> None:
    questions = _write(tmp_path / "q.jsonl", [HOTPOT, HOTPOT | {"context": context}])
    with pytest.raises(ValueError, match=r"line 2 of .* is malformed"):
        _load(questions)


def test_evidence_that_is_named_is_in_the_corpus(tmp_path: Path) -> None:
    corpus = _write(tmp_path / "c.jsonl", [{"id": "p1", "title": "Tal Orn", "text": "blue"}])
    rows = [{"question": f"Q{at}?", "answer": "x", "gold": [gold]} for at, gold in enumerate(("p1", "Tal Orn", "p2"))]
    questions = _write(tmp_path / "q.jsonl", rows)
    with pytest.raises(ValueError, match=r"gold='p2' of question 'Q2\?' is no id and no title of the corpus"):
        _load(questions, corpus)
    data = _load(questions, corpus, skip=True)
    assert ([question.text for question in data.questions], data.source.rows, data.source.skipped) == (
        ["Q0?", "Q1?"],
        2,
        1,
    )
    with pytest.raises(ValueError, match="none has its evidence"):
        _load(_write(tmp_path / "none.jsonl", rows[2:]), corpus, skip=True)
    open_form = HOTPOT | {"supporting_facts": [["Nowhere", 0]]}
    assert _load(_write(tmp_path / "open.jsonl", [open_form])).questions[0].gold == ("Nowhere",)


def test_questions_without_contexts_need_a_corpus(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no 'context' with passages to search: name a corpus with corpus_file"):
        _load(_write(tmp_path / "q.jsonl", [PLAIN]))


def test_a_corpus_needs_questions(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"comes without questions.*set questions_file"):
        _load("", _write(tmp_path / "c.jsonl", [{"id": 1, "text": "x"}]))


def test_an_id_that_stands_twice(tmp_path: Path) -> None:
    corpus = _write(tmp_path / "c.jsonl", [{"id": 1, "text": "x"}, {"id": "1", "text": "y"}])
    with pytest.raises(ValueError, match=r"id '1' stands twice in c.jsonl"):
        _load(_write(tmp_path / "q.jsonl", [PLAIN]), corpus)


def test_empty_data_and_unknown_files(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no usable row"):
        _load(_write(tmp_path / "q.jsonl", []))
    with pytest.raises(ValueError, match=r"read from .jsonl or .json files"):
        _load(_write(tmp_path / "q.parquet", [PLAIN]))
    with pytest.raises(ValueError, match=r"questions_file='nowhere.jsonl': no such file"):
        _load("nowhere.jsonl")
    with pytest.raises(ValueError, match=r"corpus_file='nowhere.jsonl': no such file"):
        _load(_write(tmp_path / "p.jsonl", [PLAIN]), "nowhere.jsonl")


def test_contexts_become_a_corpus_without_repeats(tmp_path: Path) -> None:
    data = _load(_write(tmp_path / "q.jsonl", [HOTPOT, HOTPOT_COLUMNS | {"question": "Another?"}]))
    assert [passage.title for passage in data.index.passages] == ["Orvel Tower", "Tal Orn"]
    assert (data.source.kind, data.source.file, data.source.rows) == ("path", "q.jsonl", 2)
    assert data.source.name == "search_qa over 2 passages"


def test_a_question_that_stands_twice_has_one_unit(tmp_path: Path) -> None:
    data = _load(_write(tmp_path / "q.jsonl", [HOTPOT, HOTPOT | {"unit": "other"}]))
    assert {question.unit for question in data.questions} == {"Orvel Tower / Tal Orn"}


def test_files_below_the_data_folder_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("RAGEN_DATA_DIR", str(tmp_path))
    assert _load().source.kind == "embedded"
    _write(tmp_path / "search_qa" / "questions.jsonl", [PLAIN])
    _write(tmp_path / "search_qa" / "corpus.jsonl", [{"id": 7, "text": "Tal built it"}])
    source = _load().source
    assert (source.kind, source.file, source.rows) == ("data_dir", "questions.jsonl, corpus.jsonl", 1)


def test_embedded_data_are_loaded_once_and_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGEN_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("RAGEN_DATA_DIR", raising=False)
    data = _load()
    assert data is _load()
    assert data.source.kind == "embedded"
    assert data.source.rows == len(data.questions)
    assert data.source.describe().startswith(f"search_qa invented over {len(data.index.passages)} passages: embedded, ")
    assert _load(here=False).questions == data.questions
