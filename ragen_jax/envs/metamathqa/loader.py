"""Problems from records of MetaMathQA and GSM8K, and our own ones where no file is named or found."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ragen_jax.envs.data_source import DataSet, load_rows, locate, read_json_lines, read_json_list, text_field
from ragen_jax.envs.metamathqa.config import MetaMathQAConfig
from ragen_jax.envs.metamathqa.families import embedded_records
from ragen_jax.envs.metamathqa.problem import (
    BACKWARD,
    ORIGINAL,
    PHRASE,
    REPHRASED,
    SELF_VERIFYING,
    Problem,
    gold_answer,
)

_BELOW = {"metamath": "metamathqa/MetaMathQA-395K.json", "gsm8k": "gsm8k/train.jsonl"}
_KIND_OF_SUFFIX = {"AnsAug": ORIGINAL, "Rephrased": REPHRASED, "SV": SELF_VERIFYING, "FOBAR": BACKWARD}
_CALCULATION = re.compile(r"<<([^<>]{1,80})>>")
_EQUATION = re.compile(r"[0-9.]+(?: ?[-+*/] ?[0-9.]+)+ ?= ?[0-9.]*[0-9]")
_COMMA = re.compile(r"(?<=[0-9]),(?=[0-9]{3})")
_MAX_WORK = 160  # characters of the calculations that are kept for demonstrations


def load_problems(config: MetaMathQAConfig) -> DataSet[Problem]:
    """Problems of the data set of a config, loaded once per process.

    Raises:
      ValueError: the file is missing, a row is malformed (named by its number), or no row is left.
    """
    found = locate(config.data_file, option="data_file", below=_BELOW[config.dataset])
    if found is None and config.dataset == "gsm8k":
        raise ValueError(
            f"dataset='gsm8k': no file at {_BELOW['gsm8k']} below RAGEN_DATA_DIR or the cache; name one with data_file"
        )
    return load_rows(
        config.dataset,
        found,
        read=_READERS[config.variants],
        convert=convert,
        embedded=_EMBEDDED[config.variants],
        skip_malformed=config.skip_malformed,
    )


def convert(record: Any) -> Problem:
    """A problem of a MetaMath record: ``query``, ``response``, and perhaps ``type`` and ``original_question``.

    Raises:
      ValueError: the record is no object, has no question, or its response names no answer.
      KeyError: a field is missing.
    """
    if not isinstance(record, dict):
        raise ValueError(f"a row is an object with 'query' and 'response', this is {type(record).__name__}")
    question, response = text_field(record, "query").strip(), text_field(record, "response")
    answer = gold_answer(response)
    if not question:
        raise ValueError("'query' is empty")
    if not answer:
        raise ValueError(f"'response' names no answer: it needs {PHRASE!r}, '####' or a box")
    if str(record.get("type", "")).startswith("GSM") or "####" in response:
        answer = _COMMA.sub("", answer)  # a word problem has one number, never a list
    return Problem(
        question=question,
        answer=answer,
        original=(text_field(record, "original_question", optional=True) or question).strip(),
        kind=_kind(record),
        work=_work(response),
    )


def read_records(path: Path, *, variants: bool) -> Iterator[tuple[int, Any]]:
    """MetaMath records of a file with the number of their line or item; rows of GSM8K become such records.

    Args:
      path: ``.jsonl``, or ``.json`` with one list.
      variants: also the rephrased, backward and self-verifying ones; rows of GSM8K then have a backward one each,
        where one can be made.

    Raises:
      ValueError: the name of the file ends otherwise, or it is not JSON.
    """
    if path.suffix not in (".json", ".jsonl"):
        raise ValueError(f"{path}: problems are read from .jsonl or .json files; convert it")
    for number, row in (read_json_list if path.suffix == ".json" else read_json_lines)(path):
        if isinstance(row, dict) and "question" in row and "query" not in row:
            yield from ((number, record) for record in gsm8k_records(row, variants=variants))
        elif variants or not isinstance(row, dict) or _kind(row) == ORIGINAL:
            yield number, row


def gsm8k_records(row: dict[str, Any], *, variants: bool) -> list[Any]:
    """A row of GSM8K as MetaMath records: the question itself and, with ``variants``, a backward one.

    The backward question hides a number as x and gives the answer. The number is the first one that stands once in the
    question and is an operand of the worked solution, so that x matters.
    """
    if "answer" not in row:
        return [ValueError("no field 'answer'")]
    try:
        question, solution = text_field(row, "question"), text_field(row, "answer")
    except ValueError as error:
        return [error]
    answer = gold_answer(solution)
    record = {"type": "GSM_AnsAug", "query": question, "original_question": question, "response": solution}
    hidden = _number_to_hide(question, solution) if variants and answer else None
    if hidden is None:
        return [record]
    start, end, value = hidden
    asked = f"{question[:start]}x{question[end:]} The answer to this is {answer}. Which number is x?"
    calculations = " ".join(f"<<{found}>>" for found in _CALCULATION.findall(solution))
    backward = {
        "type": "GSM_FOBAR",
        "query": asked,
        "original_question": question,
        "response": f"{calculations} {PHRASE} {value}",
    }
    return [record, backward]


def _number_to_hide(question: str, solution: str) -> tuple[int, int, str] | None:
    """Start, end and text of the number."""
    operands = {
        number for found in _CALCULATION.findall(solution) for number in re.findall(r"[0-9.]+", found.split("=")[0])
    }
    # A whole number on its own: no decimal, no fraction, no percentage, no part of a larger one.
    alone = [*re.finditer(r"(?<![0-9.,/A-Za-z-])[0-9]+(?![0-9/%A-Za-z-]|[.,][0-9])", question)]
    for match in alone:
        value = match.group()
        if value in operands and int(value) > 1 and len(re.findall(rf"(?<![0-9]){value}(?![0-9])", question)) == 1:
            return match.start(), match.end(), value
    return None


def _kind(record: dict[str, Any]) -> str:
    """Kind of a record by the suffix of its type; an unknown type is a question that was asked first."""
    return _KIND_OF_SUFFIX.get(str(record.get("type", "")).rpartition("_")[2], ORIGINAL)


def _work(response: str) -> str:
    """The calculations of a worked solution, as long as they fit."""
    work = ""
    for equation in _CALCULATION.findall(response) or _EQUATION.findall(response):
        longer = f"{work}, {equation}" if work else equation
        if len(longer) > _MAX_WORK:
            break
        work = longer
    return work


def _embedded(*, variants: bool) -> Sequence[Problem]:
    problems = map(convert, embedded_records())
    return tuple(problem for problem in problems if variants or problem.kind == ORIGINAL)


# One object per choice: rows are cached by the functions that made them.
_READERS = {variants: functools.partial(read_records, variants=variants) for variants in (False, True)}
_EMBEDDED = {variants: functools.partial(_embedded, variants=variants) for variants in (False, True)}
