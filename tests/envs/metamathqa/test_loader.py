"""Records of MetaMathQA and GSM8K, our own problems, and what is refused."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest

from ragen_jax.envs import make_env
from ragen_jax.envs.metamathqa import answers
from ragen_jax.envs.metamathqa.families import FAMILIES, ORIGINALS, embedded_records, work_out
from ragen_jax.envs.metamathqa.loader import convert, gsm8k_records, load_problems
from ragen_jax.envs.metamathqa.problem import KINDS, gold_answer

RECORD = {
    "type": "MATH_AnsAug",
    "query": "What is half of one?",
    "original_question": "Halve one.",
    "response": "One half is \\boxed{\\frac{1}{2}}.\nThe answer is: \\frac{1}{2}",
}


@pytest.mark.parametrize(
    ("kind", "response", "gold"),
    [
        ("GSM_AnsAug", "The answer is: 10,100", "10100"),
        ("GSM_FOBAR", "The answer is: 2,125,000", "2125000"),
        ("", "#### 10,100", "10100"),
        ("MATH_AnsAug", "The answer is: 10,100", "10,100"),
        ("GSM_AnsAug", "The answer is: 10, 100", "10, 100"),
    ],
)
def test_a_comma_between_thousands_of_a_word_problem(kind: str, response: str, gold: str) -> None:
    assert convert({"type": kind, "query": "How many?", "response": response}).answer == gold


@pytest.mark.parametrize(
    ("solution", "gold"),
    [
        ("6 * 7 = 42\n#### 42\nThe answer is: 42", "42"),
        ("#### 1,234", "1,234"),
        ("The answer is: \\frac{1}{2}", "\\frac{1}{2}"),
        ("The answer is: 3. No: The answer is: 4", "4"),
        ("so \\boxed{7}", "7"),
        ("The answer is:", None),
        ("####", None),
        ("nothing", None),
    ],
)
def test_gold_answers(solution: str, gold: str | None) -> None:
    assert gold_answer(solution) == gold


def test_a_metamath_record() -> None:
    problem = convert(RECORD)
    assert (problem.question, problem.answer) == ("What is half of one?", "\\frac{1}{2}")
    assert (problem.original, problem.kind) == ("Halve one.", "original")
    assert [convert(RECORD | {"type": f"GSM_{name}"}).kind for name in ("AnsAug", "Rephrased", "SV", "FOBAR")] == [
        "original", "rephrased", "self_verifying", "backward",
    ]  # fmt: skip


def _write(path: Path, rows: list[object]) -> str:
    lines = json.dumps(rows) if path.suffix == ".json" else "\n".join(map(json.dumps, rows))
    path.write_text(lines, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_files_in_both_spellings(tmp_path: Path, suffix: str) -> None:
    rows: list[object] = [RECORD, RECORD | {"query": "And of two?", "response": "#### 1", "type": "MATH_SV"}]
    env = make_env("metamathqa", checker="exact", data_file=_write(tmp_path / f"rows{suffix}", rows), split="all")
    source = env.data_source()
    assert source is not None
    assert (source.kind, source.rows, source.file) == ("path", 2, f"rows{suffix}")
    plain = make_env("metamathqa", checker="exact", data_file=str(tmp_path / f"rows{suffix}"), variants=False)
    source = plain.data_source()
    assert source is not None
    assert source.rows == 1


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ({"query": "a?", "response": "no gold"}, "names no answer"),
        ({"query": " ", "response": "#### 1"}, "'query' is empty"),
        ({"response": "#### 1"}, "no field 'query'"),
        ({"question": "a?"}, "no field 'answer'"),
        (["a?"], "this is list"),
    ],
)
def test_a_malformed_row_is_named_or_counted(tmp_path: Path, row: object, fault: str) -> None:
    file = _write(tmp_path / "rows.jsonl", [RECORD, row])
    with pytest.raises(ValueError, match=f"line 2 of .*malformed: .*{fault}"):
        make_env("metamathqa", checker="exact", data_file=file)
    source = make_env("metamathqa", checker="exact", data_file=file, skip_malformed=True).data_source()
    assert source is not None
    assert (source.rows, source.skipped) == (1, 1)


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a")
    with pytest.raises(ValueError, match=r"\.jsonl or \.json"):
        make_env("metamathqa", checker="exact", data_file=str(tmp_path / "rows.csv"))


def test_gsm8k_has_to_be_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAGEN_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("RAGEN_CACHE_DIR", str(tmp_path))
    with pytest.raises(ValueError, match="dataset='gsm8k': no file at gsm8k"):
        make_env("metamathqa", checker="exact", dataset="gsm8k")


def test_a_row_of_gsm8k_and_its_backward_question() -> None:
    row = {
        "question": "Tia has 3 bags of 12 nuts and 1 more nut. She eats 3.5 nuts. How many are left?",
        "answer": "<<3*12=36>>36 and <<36+1=37>>37, <<37-3.5=33.5>>33.5\n#### 33.5",
    }
    plain, backward = gsm8k_records(row, variants=True)
    assert gsm8k_records(row, variants=False) == [plain]
    assert convert(plain).answer == "33.5"
    # 3 stands twice (the second time inside 3.5), 1 is trivial.
    assert convert(backward).question.startswith("Tia has 3 bags of x nuts")
    assert (convert(backward).answer, convert(backward).original) == ("12", row["question"])


def test_real_gsm8k(data_dir: Path) -> None:
    env = make_env("metamathqa", checker="exact", dataset="gsm8k", variants=False)
    source = env.data_source()
    assert source is not None
    assert (source.kind, source.rows, source.sha256[:12]) == ("data_dir", 7473, "17f347dc5147")
    test = make_env("metamathqa", checker="exact", dataset="gsm8k", data_file="gsm8k/test.jsonl", variants=False)
    source = test.data_source()
    assert source is not None
    assert source.rows == 1319
    both = make_env("metamathqa", checker="exact", dataset="gsm8k")
    rows = load_problems(both.config).rows
    assert all(answers.number(answers.normalise(row.answer)) is not None for row in rows)
    backward = [row for row in rows if row.kind == "backward"]
    assert len(backward) > 6000
    for row in backward[:500]:
        gold = re.escape(row.answer)
        assert len(re.findall(rf"(?<![0-9]){gold}(?![0-9])", row.original)) == 1
        assert row.question.startswith(re.sub(rf"(?<![0-9]){gold}(?![0-9])", "x", row.original))


def test_our_own_problems() -> None:
    env = make_env("metamathqa", checker="exact")
    rows = load_problems(env.config).rows
    assert len(rows) == len(FAMILIES) * ORIGINALS * 4
    assert len({row.question for row in rows}) == len(rows)
    assert len({row.original for row in rows}) == len(FAMILIES) * ORIGINALS
    assert {row.kind for row in rows} == set(KINDS)
    assert all(re.search(r"\bx\b", row.question) for row in rows if row.kind in ("backward", "self_verifying"))
    assert not any("{" in row.question + row.answer for row in rows)


def test_the_work_of_our_own_problems_is_true_and_ends_in_the_answer() -> None:
    for record in embedded_records():
        problem = convert(record)
        equations = re.findall(r"([0-9]+) ([-+*/]) ([0-9]+) = ([0-9]+)", record["response"])
        assert equations
        for left, operator, right, result in equations:
            a, b = Fraction(left), Fraction(right)
            assert {"+": a + b, "-": a - b, "*": a * b, "/": a / b}[operator] == int(result)
        if problem.kind in ("original", "rephrased"):
            assert equations[-1][-1] == problem.answer
        else:
            assert f"x = {problem.answer}:" in record["response"]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: " ".join(family.story.split()[:4]))
def test_a_hidden_number_is_the_only_one_that_fits(family: object) -> None:
    """Every number changes the answer strictly, so one value of x is right."""
    middle = {name: (low + high) // 2 for name, (low, high) in family.ranges.items()}
    compared = 0
    for name, (low, high) in family.ranges.items():
        worked = [work_out(family, middle | {name: value}) for value in range(low, high + 1)]
        found = [answer for _, answer in filter(None, worked)]
        compared += len(found)
        assert len(set(found)) == len(found)
    assert compared > 2


def test_variants_of_a_question_stay_in_one_split() -> None:
    """C25 for rephrasings: no original question is met in both splits."""
    met: dict[str, set[str]] = {}
    for split in ("train", "validation"):
        env = make_env("metamathqa", checker="exact", split=split)
        met[split] = set()
        for seed in range(400):
            env.reset(seed)
            met[split].add(env.problem.original)
    assert len(met["validation"]) > 50
    assert met["train"].isdisjoint(met["validation"])
