"""The page about a user's own environment keeps its word: its code is complete and trains."""

from __future__ import annotations

import importlib
import itertools
import re
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments import env_report
from ragen_jax.config import parse
from ragen_jax.envs import ENVS, make_env
from ragen_jax.envs.http_env.server import EnvServer
from ragen_jax.training.loop import train
from tests.env_fixtures import every_env
from tests.envs import test_contract, test_registry

PAGE = (Path(__file__).parent.parent / "docs" / "add_an_environment.md").read_text(encoding="utf-8")
FILE, SNIPPET = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
LINE = '("my_clock", "ragen_jax.envs.my_clock:Clock"),'


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of the page, and its line in the registry."""
    (tmp_path / "clock_env.py").write_text(FILE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(importlib.sys.modules, "clock_env", raising=False)
    importlib.invalidate_caches()
    monkeypatch.setitem(ENVS._targets, "my_clock", "clock_env:Clock")
    return importlib.import_module("clock_env")


def test_it_is_one_short_file_and_one_line_of_the_table() -> None:
    code = [line for line in FILE.splitlines() if line.strip()]
    assert len(code) <= 60
    assert max(map(len, code)) <= 120
    assert LINE in PAGE
    table = (Path(__file__).parent.parent / "ragen_jax" / "envs" / "__init__.py").read_text(encoding="utf-8")
    assert re.search(r'^        \("\w+", "ragen_jax\.envs\.\w+:\w+"\),$', table, re.MULTILINE)


def test_the_snippet_runs_with_the_class_itself(clock: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(SNIPPET, "docs/add_an_environment.md", "exec"), {"Clock": clock.Clock})
    first, answered, rewards = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"It is \d\d:\d\d\. What time is it \d+ minutes later\?", first)
    assert answered.startswith(("Right.", "That is not the time"))
    assert rewards == str([1.0] * 8)


def test_the_contract_holds(clock: ModuleType) -> None:
    texts: dict[str, list[str]] = {"train": [], "validation": []}
    for split, shown in texts.items():
        env = make_env("my_clock", split=split, most=20)
        rng = np.random.default_rng(0)
        for seed in range(60):
            observation = env.reset(seed, member=seed % 3)
            assert make_env("my_clock", split=split, most=20).reset(seed).text == observation.text
            shown.append(env.canonical())
            results = [env.step("25 o'clock"), env.step(env.demonstrate(rng, skill=1.0).answer)]
            assert not results[0].done and not results[0].info["action_is_valid"]
            assert (results[1].reward, results[1].terminated, results[1].truncated) == (1.0, True, False)
            with pytest.raises(RuntimeError, match="call reset"):
                env.step("00:00")
    assert set(texts["train"]).isdisjoint(texts["validation"])
    env.reset(0)
    wrong = [env.step("00:00x") for _ in range(2)]
    assert wrong[1].truncated and not wrong[1].terminated
    assert "20 minutes" in env.instructions()
    with pytest.raises(ValueError, match="did you mean 'most'"):
        make_env("my_clock", moste=3)
    with pytest.raises(ValueError, match="most=0: use 1 minute or more"):
        make_env("my_clock", most=0)
    with pytest.raises(ValueError, match="max_actions=9 has no effect because every turn is one action"):
        make_env("my_clock", max_actions=9)


def _cases_of_a_registered_name() -> list[object]:
    """Every case of the tests that a registered environment is put through by its name."""
    cases = []
    for module in (test_registry, test_contract):
        for title, function in vars(module).items():
            marks = getattr(function, "pytestmark", []) if title.startswith("test_") else []
            tables = [mark.args for mark in marks if mark.name == "parametrize"]
            if ("name", every_env.args[1]) not in [(table[0], table[1]) for table in tables]:
                continue
            others = [table for table in tables if table[0] != "name"]
            for values in itertools.product(*(table[1] for table in others)):
                given_here: dict[str, object] = {}
                for (names, *_), value in zip(others, values, strict=True):
                    several = isinstance(names, tuple)
                    given_here |= dict(zip(names, value, strict=True)) if several else {names: value}
                cases.append(pytest.param(function, given_here, id=f"{title}{list(given_here.values())}"[:80]))
    return cases


CASES = _cases_of_a_registered_name()


def test_the_page_names_the_tests_of_a_new_environment() -> None:
    assert len(CASES) > 25
    assert "pytest tests/envs/test_registry.py tests/envs/test_contract.py -k my_clock" in PAGE


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(("function", "arguments"), CASES)
def test_it_passes_what_every_registered_environment_passes(
    function: Callable[..., None], arguments: dict[str, object]
) -> None:
    function(name="my_clock", **arguments)


@given(text=st.text())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_answer_is_an_action_or_invalid(clock: ModuleType, text: str) -> None:
    env = make_env("my_clock")
    env.reset(3)
    result = env.step(text)
    assert result.reward in (0.0, 1.0)
    assert isinstance(result.info["action_is_valid"], bool)


def test_the_report_and_the_server_take_it(clock: ModuleType) -> None:
    row = env_report.report("my_clock", 20)
    assert row["oracle"]["success"] == 1 and row["train_validation_overlap"] == 0
    assert row["random"]["success"] < 0.5
    budgets = {"max_turns": 2, "max_actions_per_turn": 1}  # the client says them, and these are fixed or usual there
    server = EnvServer(clock.Clock, {"most": 5}, port=0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    with server:
        far, near = make_env("http", url=server.url, **budgets), make_env(clock.Clock, most=5)
        assert far.reset(4).text == near.reset(4).text
        server.shutdown()
        thread.join()


@pytest.mark.slow
def test_the_training_command_of_the_page_runs(clock: ModuleType, tmp_path: Path) -> None:
    command = next(line for line in PAGE.splitlines() if line.startswith("python -m experiments.train"))
    config = parse([*command.split()[3:], f"folder={tmp_path / 'run'}"]).config
    outcome = train(config, writers=())
    assert outcome.summary["steps"] == 1
    assert outcome.summary["data_sources"] == ["my_clock: generated"]
    assert any("env/action_is_valid" in row for row in outcome.folder.metrics())
