"""Programs that try to cheat or to do harm. Each must fail, and leave nothing behind."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import socket
import time
from pathlib import Path

import pytest

import ragen_jax
from ragen_jax.envs.deepcoder import HiddenTest, Judge, Problem, Verdict
from ragen_jax.envs.deepcoder.process import Outcome, run_child
from ragen_jax.envs.deepcoder.shared_memory import remove_segments

SECRET = "expected-output-48151623"
GUESS = Problem("guess", "Print the secret.", "stdin", "", (HiddenTest("input", SECRET),))
CALL = Problem("guess", "Return the secret.", "functional", "guess", (HiddenTest('["input"]', json.dumps(SECRET)),))

# The audit hook is no wall: this switches it off, as a hostile program would, and the walls have to stand without it.
DISARM = """
import gc
hooks = [thing for thing in gc.get_objects() if getattr(thing, "__name__", "") == "hook"]
hooks[0].__globals__.update(_WRITE=0, _FORBIDDEN=("nothing",))
for cell in hooks[0].__closure__:
    if getattr(cell.cell_contents, "__name__", "") == "outside":
        cell.cell_contents = lambda path: False
"""


@pytest.fixture(autouse=True)
def _no_child_is_left(children: set[int]) -> None:
    """The fixture looks after every test of this file."""


def _verdict(judge: Judge, program: str, problem: Problem = GUESS) -> Verdict:
    judgement = judge.judge(program, problem, max_tests=16, stop_at_failure=True)
    assert judgement.passed == 0
    return judgement.verdict


def _output(judge: Judge, program: str) -> str:
    """What a program prints, for tests that look into the sandbox."""
    limits = {"cpu_seconds": 2, "memory_bytes": 256 << 20, "tasks": judge.sandbox.tasks}
    task = {"program": program, "function": "", "arguments": [], "cpu_s": 1.0, "limits": limits}
    outcome: Outcome = run_child(judge.sandbox, task, stdin="input", wall_s=judge.wall_limit_s)
    return outcome.output.decode()


@pytest.mark.parametrize(
    "program",
    [
        "import sys\nprint([vars(module) for module in list(sys.modules.values())])",
        "import gc\nprint([thing for thing in gc.get_objects() if not callable(thing)])",
        "import sys\nframe = sys._getframe()\nwhile frame:\n    print(frame.f_locals, frame.f_globals)\n"
        "    frame = frame.f_back",
        "import os, sys\nprint(dict(os.environ), sys.argv, sys.orig_argv)",
        "import os\nfor fd in range(64):\n    try:\n        print(os.pread(fd, 10000, 0))\n"
        "    except OSError:\n        pass",
    ],
)
def test_the_expected_output_is_nowhere_in_the_child(judge: Judge, program: str) -> None:
    assert _verdict(judge, program) is not Verdict.PASS
    assert SECRET not in _output(judge, program)


def test_the_environment_of_the_parent_stays_there(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", SECRET)
    assert SECRET not in _output(judge, "import os\nprint(dict(os.environ))")
    assert SECRET not in _output(judge, DISARM + "\nprint(open('/proc/self/environ').read())")


@pytest.mark.parametrize(
    "forgery",
    [
        '{"status": "value", "value": true}',
        '{"status": "ready"}\\n{"status": "pass"}',
        "[" * 5000,
        "\\xff\\n\\n",
    ],
)
@pytest.mark.parametrize("problem", [GUESS, CALL], ids=["program", "function"])
def test_forged_reports_are_claims_about_an_output(judge: Judge, forgery: str, problem: Problem) -> None:
    """Every descriptor is written to, then the process ends with success."""
    program = (
        "import os\n"
        f"def guess(x):\n    for fd in range(1, 32):\n        try:\n            os.write(fd, b'{forgery}\\n')\n"
        "        except OSError:\n            pass\n    os._exit(0)\n"
        "if __name__ == '__main__':\n    guess(0)\n"
    )
    assert _verdict(judge, program, problem) in (Verdict.WRONG, Verdict.ERROR)


@pytest.mark.parametrize(
    "program",
    [
        "class Equal(str):\n    def __eq__(self, other):\n        return True\n    __hash__ = str.__hash__\n"
        "def guess(x):\n    return Equal('x')",
        "import json\njson.dumps = lambda *a, **k: 'true'\ndef guess(x):\n    return True",
        "import __main__\n__main__.pack = lambda value: True\ndef guess(x):\n    return 1",
        "import builtins\nbuiltins.str.__eq__ = None",
        "import ctypes\ndef guess(x):\n    return x",
        "def guess(x):\n    eval('x' * 3)",
        "def guess(x):\n    return exec('raise SystemExit(0)')",
        "class Solution:\n    def __getattribute__(self, name):\n        return lambda *a: True\n    guess = None",
    ],
)
def test_patched_comparison_changes_nothing(judge: Judge, program: str) -> None:
    unpaid = (Verdict.WRONG, Verdict.ERROR, Verdict.FORBIDDEN, Verdict.TIMEOUT)  # the last on a busy machine
    assert _verdict(judge, program, CALL) in unpaid


@pytest.mark.parametrize(
    "program",
    [
        f"print(open({str(Path(ragen_jax.__file__).parent / 'envs/deepcoder/problems/text.py')!r}).read())",
        "print(open('/etc/passwd').read())",
        "print(open('/proc/self/maps').read())",
        "open('/tmp/marker', 'w')",
        "import os\nos.open('/tmp/marker', os.O_CREAT)",
        "import os\nprint(os.listdir('/'))",
        "import os\nos.fork()",
        "import os\nos.system('echo hello')",
        "import subprocess\nsubprocess.run(['echo', 'hello'])",
        "import multiprocessing\nmultiprocessing.Process(target=print).start()",
        "import socket\nsocket.create_connection(('127.0.0.1', 80))",
        "import urllib.request\nurllib.request.urlopen('http://127.0.0.1')",
        "import ctypes",
        "import os\nos.kill(os.getppid(), 9)",
        "import shutil\nshutil.rmtree('/tmp')",
        "import tempfile\ntempfile.TemporaryFile()",
    ],
)
def test_forbidden_things_have_their_own_verdict(judge: Judge, program: str) -> None:
    assert _verdict(judge, program) is Verdict.FORBIDDEN
    assert not Path("/tmp/marker").exists()


@pytest.mark.parametrize(
    "loop",
    [
        "import signal\nfor s in (25, 27, 24, 15, 2):\n    signal.signal(s, signal.SIG_IGN)\nwhile True:\n    pass",
        "import time\ntime.sleep(10**6)",
        "import os\nfor fd in range(1, 32):\n    try:\n        os.close(fd)\n    except OSError:\n        pass\n"
        "while True:\n    pass",
        "import signal\nsignal.pause()",
        "import sys\nsys.setrecursionlimit(10**9)\ndef f():\n    f()\n"
        "while True:\n    try:\n        f()\n    except RecursionError:\n        pass",
    ],
)  # fmt: skip
def test_nothing_runs_on(judge: Judge, loop: str) -> None:
    assert _verdict(judge, loop) in (Verdict.TIMEOUT, Verdict.ERROR, Verdict.MEMORY)


@pytest.mark.parametrize(
    "flood",
    [
        "while True:\n    print('x' * 10000)",
        "import sys\nwhile True:\n    sys.stderr.write('x' * 10000)",
        "import os\nwhile True:\n    for fd in range(1, 32):\n        try:\n            os.write(fd, b'x' * 4096)\n"
        "        except OSError:\n            pass",
    ],
)  # fmt: skip
def test_floods_end(judge: Judge, flood: str) -> None:
    assert _verdict(judge, flood) is Verdict.WRONG


def test_threads_do_not_linger(judge: Judge) -> None:
    program = "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()"
    # Where threads are allowed the process is killed at its wall limit; else the start of the thread is an error.
    assert _verdict(judge, program) is (Verdict.TIMEOUT if judge.sandbox.tasks > 1 else Verdict.ERROR)


@pytest.mark.parametrize("prologue", ["", "import os\nos.setsid()\n"])
def test_no_fork_in_the_weaker_tier_and_few_in_the_other(judge: Judge, prologue: str) -> None:
    """The kernel's limit, with the hook switched off: a bomb whose children sleep in a session of their own."""
    program = DISARM + (
        "\nimport os, time\n"
        "made = 0\n"
        "for _ in range(200):\n"
        "    try:\n"
        "        if os.fork() == 0:\n"
        f"            {prologue.replace(chr(10), '; ')}time.sleep(100)\n"
        "        made += 1\n"
        "    except OSError:\n"
        "        pass\n"
        "print(made, flush=True)\n"
        "os._exit(0)\n"
    )
    assert int(_output(judge, program)) == judge.sandbox.tasks - 1


@pytest.mark.parametrize("bomb", ["x = [bytearray(1 << 20) for _ in range(10**4)]", "x = 'x' * (1 << 40)"])
def test_memory_is_limited(judge: Judge, bomb: str) -> None:
    # Filling the memory takes processor time, and a busy machine must not run out of that first.
    assert _verdict(dataclasses.replace(judge, time_limit_s=20.0), bomb) is Verdict.MEMORY


def test_limits_cannot_be_raised(judge: Judge) -> None:
    program = DISARM + (
        "\nimport resource\n"
        "for kind in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE):\n"
        "    try:\n"
        "        resource.setrlimit(kind, (resource.RLIM_INFINITY,) * 2)\n"
        "    except (ValueError, OSError):\n"
        "        print('kept', end=' ')\n"
    )
    assert _output(judge, program).split() == ["kept"] * 4


def test_the_child_is_not_root(judge: Judge) -> None:
    program = DISARM + (
        "\nimport os\nprint(os.getuid() == 0, os.geteuid() == 0, os.getgroups() == [0])\n"
        "try:\n    os.setuid(0)\nexcept OSError:\n    print('kept')\n"
    )
    assert _output(judge, program).split() == ["False", "False", "False", "kept"]


def test_the_walls_stand_without_the_hook_files(walled_judge: Judge, tmp_path: Path) -> None:
    """Nothing of the project or of the machine can be read, nothing can be written."""
    secret = tmp_path / "tests.json"
    secret.write_text(SECRET, encoding="utf-8")
    os.chmod(secret, 0o644)
    places = [str(secret), ragen_jax.__file__, "/etc/passwd", "/proc/1/cmdline", "/proc/self/maps", "/root", "/home"]
    reading = f"\nimport os\nfor place in {places!r}:\n    print(os.path.exists(place))"
    assert _output(walled_judge, DISARM + reading).split() == ["False"] * len(places)
    writing = """
import os, sys
written = []
tried = 0
for folder, below, _ in os.walk("/"):
    below[:] = below[:9] * (folder.count("/") < 5)
    tried += 1
    try:
        os.close(os.open(folder + "/marker", os.O_CREAT | os.O_WRONLY))
        written.append(folder)
    except OSError:
        pass
print(written, tried > 10)
"""
    assert _output(walled_judge, DISARM + writing).strip() == "[] True"


def test_the_walls_stand_without_the_hook_network(walled_judge: Judge) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        program = DISARM + (
            "\nimport socket\ntry:\n"
            f"    socket.create_connection({server.getsockname()!r}, timeout=1)\n    print('open')\n"
            "except OSError:\n    print('closed')\n"
        )
        assert _output(walled_judge, program).strip() == "closed"


def test_the_walls_stand_without_the_hook_processes(walled_judge: Judge) -> None:
    """The child is alone in its world; a signal to everybody reaches nobody else."""
    program = DISARM + (
        "\nimport os\nseen = 0\n"
        "for pid in range(1, 40000):\n"
        "    try:\n        os.kill(pid, 0)\n        seen += 1\n    except OSError as error:\n"
        "        seen += error.errno == 1\n"
        "print(seen, os.getpid())\n"
    )
    assert _output(walled_judge, program).split() == ["1", "1"]
    assert _verdict(walled_judge, DISARM + "\nimport os\nos.kill(-1, 9)") in (Verdict.WRONG, Verdict.ERROR)


def test_files_in_memory_cannot_grow_without_end(judge: Judge) -> None:
    program = DISARM + (
        "\nimport os\nfd = os.memfd_create('x')\ntry:\n    os.write(fd, b'x' * 4096)\n    print('grew')\n"
        "except OSError:\n    print('refused')\n"
    )
    assert _output(judge, program).strip() == "refused"


def _segments() -> set[str]:
    """Ids of the shared memory that this machine holds."""
    table = Path("/proc/sysvipc/shm")
    if not table.exists():
        pytest.skip("this kernel has no System V shared memory")
    return {line.split()[1] for line in table.read_text(encoding="ascii").splitlines()[1:]}


def test_shared_memory_does_not_outlive_the_child(judge: Judge) -> None:
    """It would stay after the process, and no limit of the process counts it."""
    before = _segments()
    program = DISARM + (
        "\nimport ctypes\nlibc = ctypes.CDLL(None)\n"
        "print(sum(libc.shmget(0, 1 << 20, 0o1600) >= 0 for _ in range(3)), flush=True)\n"
    )
    assert _output(judge, program).strip() == "3"
    assert _segments() <= before


def test_shared_memory_of_others_stays() -> None:
    libc = ctypes.CDLL(None)
    before = _segments()
    libc.shmget(0, 4096, 0o1600)
    (mine,) = _segments() - before
    try:
        remove_segments(os.getpid() + 1, since=0.0)
        remove_segments(os.getpid(), since=time.time() + 60)  # made before a process of the same id began
        assert mine in _segments()
        remove_segments(os.getpid(), since=time.time() - 60)
        assert mine not in _segments()
    finally:
        libc.shmctl(int(mine), 0, None)


@pytest.mark.parametrize("detail", ["b'[' * 500 + b']' * 500", "b'\"' + b'x' * 500_000 + b'\"'"])
def test_a_forged_detail_is_cut_or_dropped(judge: Judge, detail: str) -> None:
    program = (
        "import os, sys\ndef guess(x):\n"
        f'    line = b\'{{"status": "error", "detail": \' + {detail} + b\'}}\\n\'\n'
        "    while line:\n        line = line[os.write(int(sys.argv[2]), line):]\n"
        "    os._exit(0)\n"
    )
    judgement = judge.judge(program, CALL, max_tests=1, stop_at_failure=True)
    assert judgement.verdict is Verdict.ERROR
    assert len(judgement.detail) <= 300
