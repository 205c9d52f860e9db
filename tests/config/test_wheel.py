"""The package as an ordinary wheel, without the checkout around it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
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
    assert not any(name.startswith("tests/") for name in names)


@pytest.mark.slow
def test_import_from_the_wheel_loads_no_jax(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    program = (
        "import sys, ragen_jax\n"
        f"assert ragen_jax.__file__.startswith({str(tmp_path)!r}), ragen_jax.__file__\n"
        "env = ragen_jax.make_env('frozen_lake', size=4)\n"
        "print(env.reset(0).text)\n"
        "from ragen_jax.config import compose, validate\n"
        "assert 'jax' not in sys.modules\n"
        "validate(compose('paper', 'frozen_lake'))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
