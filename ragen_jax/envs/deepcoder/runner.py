"""The child of the judge: runs one untrusted program on one input, inside a sandbox, and reports.

The parent passes the text of this file to a fresh interpreter (``python -c``), so it needs the standard library only.
The child knows the program, one input and its limits, never an expected output. What it reports is a claim about an
output and no more: the parent compares.

The audit hook gives attempts at files, processes and sockets a verdict of their own. It is no wall; the wall is the
sandbox around this process.
"""

from __future__ import annotations

import builtins
import json
import os
import resource
import signal
import sys
import types
from collections.abc import Callable
from typing import Any

READY = "ready"
_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_FORBIDDEN = (
    "ctypes.", "ftplib.", "http.", "mmap.", "os.chmod", "os.chown", "os.exec", "os.fork", "os.kill", "os.link",
    "os.mkdir", "os.posix_spawn", "os.remove", "os.rename", "os.rmdir", "os.spawn", "os.startfile", "os.symlink",
    "os.system", "os.truncate", "os.utime", "pty.", "shutil.", "signal.pthread_kill", "smtplib.", "socket.",
    "subprocess.", "syslog.", "tempfile.", "urllib.", "webbrowser.",
)  # fmt: skip
_DETAIL = 200  # characters of an error message that are reported


def pack(value: Any) -> Any:
    """JSON form of a value: tuples become lists; sets ``{"set": [...]}``; dicts ``{"dict": [[key, value], ...]}``.

    Raises:
      TypeError: for a value of another type.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [pack(part) for part in value]
    if isinstance(value, (set, frozenset)):
        return {"set": [pack(part) for part in value]}
    if isinstance(value, dict):
        return {"dict": [[pack(key), pack(part)] for key, part in value.items()]}
    raise TypeError(f"a value of type {type(value).__name__} cannot be compared")


def unpack(packed: Any) -> Any:
    """The value behind its JSON form.

    Raises:
      ValueError: for JSON that ``pack`` does not write.
    """
    if isinstance(packed, list):
        return [unpack(part) for part in packed]
    if not isinstance(packed, dict):
        return packed
    match packed:
        case {"set": [*parts], **rest} if not rest:
            return {_key(unpack(part)) for part in parts}
        case {"dict": [*pairs], **rest} if not rest and all(isinstance(p, list) and len(p) == 2 for p in pairs):
            return {_key(unpack(key)): unpack(part) for key, part in pairs}
    raise ValueError("a JSON object that is neither a packed set nor a packed dict")


def _key(value: Any) -> Any:
    """A hashable form of a member of a set or a key of a dict."""
    if isinstance(value, list):
        return tuple(_key(part) for part in value)
    if isinstance(value, dict):
        raise ValueError("a dict cannot be a key")
    return frozenset(value) if isinstance(value, set) else value


def main(task_fd: int, result_fd: int) -> None:
    """Read the task, give up what it may not have, run the program, report.

    A program for standard input then ends like any Python program: threads are awaited, output is flushed.
    """
    with os.fdopen(task_fd, "rb") as file:
        task = json.loads(file.read())

    def report(status: str, **fields: Any) -> None:
        line = json.dumps({"status": status, **fields}).encode() + b"\n"
        while line:
            line = line[os.write(result_fd, line) :]

    vars(builtins).update(exit=sys.exit, quit=sys.exit)  # programs use them; without site the interpreter has none
    _limit(**task["limits"])
    report(READY)
    sys.addaudithook(_guard(report))

    def expire(*_: object) -> None:
        report("timeout")
        os._exit(0)

    # A handler, since the first process of a namespace ignores the default action. Deaf programs meet a hard limit.
    signal.signal(signal.SIGPROF, expire)
    signal.setitimer(signal.ITIMER_PROF, task["cpu_s"])
    try:
        code = _compile(task["program"])
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        report("syntax", detail=f"{type(error).__name__}: {error}"[:_DETAIL])
        os._exit(0)
    try:
        if task["function"]:
            report("value", value=pack(_call(code, task["function"], unpack(task["arguments"]))))
            os._exit(0)
        sys.argv = ["program"]
        exec(code, _module("__main__"))
    except MemoryError:
        report("memory")
        os._exit(0)
    except SystemExit:
        if task["function"]:
            report("error", detail="the program ended before the function returned")
            os._exit(0)
    except BaseException as error:  # an untrusted program may fail in any way; the report says how
        report("error", detail=_describe(error))
        os._exit(0)


def _limit(*, cpu_seconds: int, memory_bytes: int, tasks: int) -> None:
    """Limits that an unprivileged process cannot raise again."""
    for kind, limit in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 32),
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_NPROC, tasks),
    ):
        resource.setrlimit(kind, (limit, limit))


def _guard(report: Callable[..., None]) -> Callable[[str, tuple[Any, ...]], None]:
    """An audit hook that ends the process at an attempt at something forbidden."""
    roots = tuple(os.path.join(os.path.abspath(place), "") for place in sys.path if place)

    def outside(path: Any) -> bool:
        if isinstance(path, int):  # an open descriptor
            return False
        text = os.path.abspath(os.fsdecode(path or "."))
        packages = "site-packages" in text or "dist-packages" in text
        return packages or not (text + "/").startswith(roots)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            shown_only = isinstance(path, str) and path.startswith("<")  # a traceback looks for its source
            bad = not shown_only and (bool(flags & _WRITE and not isinstance(path, int)) or outside(path))
        elif event in ("os.listdir", "os.scandir", "os.walk", "glob.glob"):
            bad = outside(arguments[0])
        else:
            bad = event.startswith(_FORBIDDEN)
        if bad:
            report("forbidden", detail=event)
            os._exit(0)

    return hook


def _compile(program: str) -> types.CodeType:
    # Annotations stay text: starter code often names types that it does not import.
    import __future__

    flags = __future__.annotations.compiler_flag
    code: types.CodeType = compile(program, "<program>", "exec", flags=flags, dont_inherit=True)
    return code


def _module(name: str) -> dict[str, Any]:
    """Names of a new module that can be imported: dataclasses and pickle look for the module of a class by its name."""
    module = types.ModuleType(name)
    vars(module)["__builtins__"] = builtins
    sys.modules[name] = module
    return vars(module)


def _call(code: types.CodeType, function: str, arguments: list[Any]) -> Any:
    """Value of a function of the program, or of a method of its class ``Solution``.

    Raises:
      NameError: the program has neither.
    """
    names = _module("program")
    exec(code, names)
    method = getattr(names.get("Solution"), function, None)
    if method is not None:
        return getattr(names["Solution"](), function)(*arguments)
    if function not in names:
        raise NameError(f"the program defines no function {function!r}")
    parameters = getattr(getattr(names[function], "__code__", None), "co_varnames", ())
    # A method written without its class still has its first parameter.
    return names[function](*([None] if parameters[:1] == ("self",) else []), *arguments)


def _describe(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:_DETAIL]
    except Exception:  # a hostile __str__
        return type(error).__name__


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
