"""The README keeps its word: its snippet runs, its commands, links and names exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ragen_jax
from configs import PRESETS
from experiments.quickstart import OWN
from ragen_jax.config import compose, parse, validate

PROJECT = Path(__file__).parent.parent
DOCS = sorted(f"docs/{page.name}" for page in PROJECT.glob("docs/*.md"))
PAGES = ("README.md", "CONTRIBUTING.md", "experiments/README.md", *DOCS)
NAMED_FILE = r"`((?:ragen_jax|configs|experiments|tests|docs|third_party)/[\w/.]+\.(?:py|md|toml))`"


def _page(name: str) -> str:
    return (PROJECT / name).read_text(encoding="utf-8")


def _commands(text: str) -> list[list[str]]:
    """Module and arguments of every ``python -m experiments...`` in a text."""
    found = re.findall(r"python -m (experiments(?:\.\w+)+)([^`\n#]*)", text)
    return [[module, *arguments.split()] for module, arguments in found]


def test_the_notebook_snippet_runs() -> None:
    """In a fresh interpreter, as a reader would."""
    (code,) = re.findall(r"```python\n(.*?)```", _page("README.md"), re.DOTALL)
    environment = {**os.environ, "XLA_FLAGS": "", "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    reply, numbers = done.stdout.strip().splitlines()
    assert reply.startswith("<think>")
    assert numbers.count("True") + numbers.count("False") == 8
    assert "True" in numbers  # a batch that shows what the filter keeps


def test_the_snippet_uses_public_names() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", _page("README.md"), re.DOTALL)
    names = set(re.findall(r"\brj\.(\w+)", code))
    assert {"compose", "build", "collapse_metrics"} <= names <= set(ragen_jax.__all__)


def test_every_public_name_can_be_imported() -> None:
    for name in ragen_jax.__all__:
        assert getattr(ragen_jax, name) is not None


@pytest.mark.parametrize("page", PAGES)
def test_commands_name_modules_and_keys_that_exist(page: str) -> None:
    commands = _commands(_page(page))
    for module, *arguments in commands:
        if module.endswith(".NAME"):
            continue
        assert (PROJECT / f"{module.replace('.', '/')}.py").is_file(), module
        keys = [
            token for token in arguments if not re.search(r"NAME|OPTION|VALUE|my_|\.\.\.", token) and token != "--help"
        ]
        if module == "experiments.train":
            validate(parse(keys).config)
        elif module == "experiments.quickstart":
            parse(keys, own=OWN)


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_exist(page: str) -> None:
    text = _page(page)
    for path in re.findall(NAMED_FILE, text):
        # Recipes name files that the reader will write; results appear when experiments have run.
        if "my_" not in path and not path.startswith("docs/results"):
            assert (PROJECT / path).is_file(), f"{page} names {path}"


def test_the_table_of_presets_is_complete() -> None:
    table = _page("docs/configuration.md")
    stems = {name.removesuffix("_tiny") for name in PRESETS}
    assert [stem for stem in sorted(stems) if f"`{stem}`" not in table and f"`{stem}_tiny`" not in table] == []


def test_the_two_commands_are_targets() -> None:
    makefile = _page("Makefile")
    for target in re.findall(r"^make (\w+)", _page("README.md") + _page("CONTRIBUTING.md"), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_table_of_tiny_presets_gives_their_shares() -> None:
    rows = re.findall(r"^\| `(\w+_tiny)` \| .* \| (.*) \|$", _page("docs/environments.md"), re.MULTILINE)
    assert {name for name, _ in rows} == {name for name in PRESETS if name.endswith("_tiny")}
    for name, signal_free in rows:
        options = compose(name).env.options
        share = options.get("locked_share", 0.0) + options.get("unsolvable_share", 0.0)
        assert signal_free.split(" %")[0] == (f"{share * 100:g}" if share else "none"), name
