"""The package as an ordinary wheel, without the checkout around it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import textwrap
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, source = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("source")
    # From a copy: a build writes into its source, and two test processes may build at the same time.
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "ragen_jax", source / "ragen_jax", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "--wheel-dir", str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.mark.slow
def test_wheel_holds_the_package_its_assets_and_licence(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    for path in sorted((ROOT / "ragen_jax").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            assert str(path.relative_to(ROOT)) in names, path
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"ragen_jax"}


def run_from(wheel: Path, folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run a program that finds our package in the unpacked wheel only.

    Isolated and without ``site``: neither the current folder, nor PYTHONPATH, nor the .pth file of an editable install
    can supply what the wheel lacks. The dependencies come from the plain folder of installed packages.
    """
    zipfile.ZipFile(wheel).extractall(folder)
    paths = [str(folder), *dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))]
    program = f"import sys\nsys.path += {paths!r}\n{textwrap.dedent(program)}"
    command = [sys.executable, "-I", "-S", "-c", program]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow
def test_import_from_the_wheel_loads_no_jax(wheel: Path, tmp_path: Path) -> None:
    done = run_from(
        wheel,
        tmp_path,
        """
        import importlib.util, ragen_jax
        print(ragen_jax.__file__)
        print(ragen_jax.make_env("frozen_lake", size=4).reset(0).text)
        from ragen_jax.config import Config, compose, validate
        assert "jax" not in sys.modules
        assert not any(importlib.util.find_spec(name) for name in ("configs", "experiments", "tests"))
        validate(Config())
        try:
            compose("paper")
        except ModuleNotFoundError as error:
            print(error)
        """,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == str(tmp_path / "ragen_jax" / "__init__.py")
    assert lines[-1].startswith("no package `configs` found; presets live in the folder configs/ of the project")


@pytest.mark.slow
def test_the_wheel_builds_and_plays_without_presets(wheel: Path, tmp_path: Path) -> None:
    done = run_from(
        wheel,
        tmp_path,
        """
        import dataclasses
        import ragen_jax as rj
        from ragen_jax.config import Config
        plain = Config()
        config = dataclasses.replace(
            plain,
            rollout=dataclasses.replace(plain.rollout, prompts=2, group_size=2, max_new_tokens=4),
            validation=dataclasses.replace(plain.validation, prompts=2),
            mesh=dataclasses.replace(plain.mesh, data=1),
        )
        parts = rj.build(config)
        rollout = parts.training_rollout(parts.sampler(parts.state.params, version=0), step=0)
        print(len(rollout.info.episodes))
        parts.close()
        """,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "4"
