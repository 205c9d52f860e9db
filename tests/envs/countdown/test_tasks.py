"""Drawn tasks: solvable, inside filter and split, quick; and tasks from files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from ragen_jax.envs import env_config, make_env
from ragen_jax.envs.countdown import CountdownConfig, Task
from ragen_jax.envs.countdown.expressions import numbers, value
from ragen_jax.envs.countdown.tasks import rows_of, task_of_seed
from ragen_jax.envs.instances import in_split
from tests.oracles import countdown as oracle


def _config(**options: object) -> CountdownConfig:
    config = env_config("countdown", **options)
    assert isinstance(config, CountdownConfig)
    return config


def test_tasks_are_solved_and_within_their_ranges() -> None:
    config = _config()
    counts = set()
    for seed in range(200):
        task = task_of_seed(config, seed)
        counts.add(len(task.numbers))
        assert all(1 <= number <= 99 for number in task.numbers)
        assert 10 <= task.target <= 99
        assert task.solution is not None
        assert value(task.solution) == task.target
        assert sorted(numbers(task.solution)) == sorted(task.numbers)
    assert counts == {3, 4}


def test_any_integer_is_a_seed() -> None:
    assert len({task_of_seed(_config(), seed).text() for seed in (-1, -2, 0, 1, 2**70, -(2**70))}) == 6


@pytest.mark.parametrize("ops_filter", ["additive", "needs_muldiv"])
def test_the_operator_filter_agrees_with_brute_force(ops_filter: str) -> None:
    config = _config(ops_filter=ops_filter, numbers_max=3, max_number=20)
    for seed in range(40):
        task = task_of_seed(config, seed)
        additive = task.target in oracle.reachable(task.numbers, use_all=True, operators="+-")
        assert additive == (ops_filter == "additive")
        assert set(task.operators) <= set("+-*/")


def test_at_most_once_tasks_need_at_least_one_operation() -> None:
    config = _config(use_all=False)
    tasks = [task_of_seed(config, seed) for seed in range(100)]
    assert all(task.target not in task.numbers for task in tasks)
    assert any(task.solution and len(list(numbers(task.solution))) < len(task.numbers) for task in tasks)


def test_unsolvable_share_is_met_in_training_and_zero_in_validation() -> None:
    options = {"unsolvable_share": 0.5, "numbers_max": 3, "max_number": 9, "min_target": 1, "max_target": 60}
    tasks = [task_of_seed(_config(**options), seed) for seed in range(200)]
    hopeless = [task.solution is None for task in tasks]
    assert 0.4 < sum(hopeless) / 200 < 0.6
    for task, flag in zip(tasks[:60], hopeless, strict=False):
        assert (task.target not in oracle.reachable(task.numbers, use_all=True)) == flag
    validation = _config(split="validation", **options)
    assert all(task_of_seed(validation, seed).solution for seed in range(100))


def test_c25_splits_are_disjoint_and_ignore_the_order_of_the_numbers() -> None:
    options = {"numbers_max": 3, "max_number": 9, "min_target": 1, "max_target": 60}
    texts = {
        split: {task_of_seed(_config(split=split, **options), seed).text() for seed in range(300)}
        for split in ("train", "validation")
    }
    assert texts["train"].isdisjoint(texts["validation"])
    for split, found in texts.items():
        assert all(in_split(text, split=split, validation_percent=10) for text in found)
    assert Task((3, 5, 7), 15).text() == Task((7, 3, 5), 15).text() != Task((7, 3, 5), 16).text()


def test_tasks_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    rows = [
        {"target": 15, "nums": [3, 5, 7]},
        {"target": 24, "nums": [3, 8]},
        {"target": 99, "nums": [1, 1]},
    ]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n\n", encoding="utf-8")
    assert rows_of(_config(data_file=str(path))).rows == (((3, 5, 7), 15), ((3, 8), 24), ((1, 1), 99))

    def targets(**options: object) -> set[int]:
        config = _config(data_file=str(path), split="all", **options)
        return {task_of_seed(config, seed).target for seed in range(40)}

    assert targets() == {15, 24}, "the third row cannot be solved"
    assert targets(ops_filter="needs_muldiv") == {24}
    assert targets(ops_filter="additive") == {15}


def test_malformed_rows_are_left_out_on_request_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"target": 15, "nums": [3, 5, 7]}\nx\n{"target": 1}\n', encoding="utf-8")
    env = make_env("countdown", data_file=str(path), skip_malformed=True, split="all")
    assert env.reset(0).text == "Numbers: 3, 5, 7\nTarget: 15"
    source = env.data_source()
    assert (source.rows, source.skipped, source.kind, source.file) == (1, 2, "path", "tasks.jsonl")
    assert make_env("countdown").data_source() is None


def test_parquet_rows_are_the_rows_of_json_lines(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra 'parquet'")
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra 'parquet'")
    rows = [{"target": 10 + number, "nums": [3, 7, number]} for number in range(300)]
    names = [str(tmp_path / f"tasks.{ending}") for ending in ("parquet", "jsonl")]
    parquet.write_table(pyarrow.Table.from_pylist(rows), names[0], row_group_size=64)
    Path(names[1]).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    found = [rows_of(_config(data_file=name)) for name in names]
    assert found[0].rows == found[1].rows
    assert found[0].rows[299] == ((3, 7, 299), 309)
    texts = [[make_env("countdown", data_file=name).reset(seed).text for seed in range(10)] for name in names]
    assert texts[0] == texts[1]


def test_broken_parquet_files_name_the_fault(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra 'parquet'")
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra 'parquet'")
    path = tmp_path / "tasks.parquet"
    parquet.write_table(pyarrow.table({"target": [3, None], "nums": [[1, 2], [4, 5]]}), path)
    with pytest.raises(ValueError, match=r"line 2 of .*tasks.parquet is malformed: 'target' must"):
        rows_of(_config(data_file=str(path)))
    other = tmp_path / "other.parquet"
    other.write_bytes(b"PAR1 but no more")
    with pytest.raises(ValueError, match=r"other\.parquet is no parquet file"):
        rows_of(_config(data_file=str(other)))


def test_parquet_without_its_package_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tasks.parquet"
    path.touch()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r"pip install 'ragen_jax\[parquet\]'"):
        rows_of(_config(data_file=str(path)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no usable row"),
        ('{"target": 3, "nums": [1, 2]}\nx', "line 2 of .* is malformed: not JSON"),
        ("[1, 2]", "line 1 of .* is malformed: 'target' must be a whole number"),
        ('{"target": 3}', "line 1 of .* is malformed: 'target' must"),
        ('{"target": 3.5, "nums": [1, 2]}', "line 1 of .* is malformed: 'target' must"),
        ('{"target": true, "nums": [1, 2]}', "line 1 of .* is malformed: 'target' must"),
        ('{"target": 3, "nums": [1, "2"]}', "line 1 of .* is malformed: 'target' must"),
        ('{"target": 3, "nums": [1, -2]}', "line 1 of .* is malformed: 'target' must"),
        (f'{{"target": 3, "nums": [1, {"9" * 190}]}}', "'nums' are too long: .* take 201 char.* has 200 or less"),
        ('{"target": 3, "nums": [3]}', "line 1 of .* is malformed: 1 numbers in 'nums', use 2 to 5"),
    ],
)
def test_broken_files_name_the_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        make_env("countdown", data_file=str(path)).reset(0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_turns": 2}, "max_turns=2 has no effect because the first answer ends the episode: leave it at 1"),
        ({"numbers_min": 4, "numbers_max": 3}, "numbers_min=4, numbers_max=3"),
        ({"numbers_max": 6}, "numbers_max=6"),
        ({"max_number": 0}, "max_number=0"),
        ({"min_target": 100}, "min_target=100, max_target=99"),
        ({"format_score": 1.0}, r"format_score=1\.0"),
        ({"unsolvable_share": -0.1}, r"unsolvable_share=-0\.1"),
        ({"ops_filter": "division"}, "ops_filter='division': use one of any, additive, needs_muldiv"),
        ({"observation_format": "grid"}, "observation_format='grid': use one of full, compact"),
        ({"skip_malformed": True}, "skip_malformed=True has no effect because there is no data_file"),
        ({"data_file": "x.jsonl", "max_target": 50}, "max_target=50 has no effect because tasks come from data_file"),
    ],
)
def test_impossible_options_are_refused_with_their_values(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_env("countdown", **options)


def test_options_that_no_task_meets_are_one_clear_error() -> None:
    env = make_env("countdown", numbers_max=3, max_number=1, min_target=50)
    with pytest.raises(ValueError, match="seed 0: no instance of split 'train' in 5000 attempts"):
        env.reset(0)


def test_a_file_without_a_task_that_can_be_solved_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "hopeless.jsonl"
    file.write_text('{"target": 900, "nums": [1, 2]}\n' * 3, encoding="utf-8")
    with pytest.raises(ValueError, match=r"3 of the 3 rows of hopeless\.jsonl were looked at, and none can be solved"):
        rows_of(CountdownConfig(data_file=str(file)))


@pytest.mark.parametrize("use_all", [True, False])
def test_the_longest_rows_of_a_file_can_be_answered(tmp_path: Path, use_all: bool) -> None:
    numbers = [10**34 + step for step in range(5)]
    target = (numbers[0] + numbers[1]) * (numbers[2] + numbers[3]) * numbers[4]
    path = tmp_path / "long.jsonl"
    path.write_text(json.dumps({"target": target, "nums": numbers}), encoding="utf-8")
    env = make_env("countdown", data_file=str(path), split="all", use_all=use_all)
    env.reset(0)
    answer = env.demonstrate(np.random.default_rng(0), skill=1.0).answer
    assert len(answer) > 175
    assert env.step(answer).reward == 1.0
