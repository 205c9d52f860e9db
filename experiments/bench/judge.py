"""Throughput of the DeepCoder judge: hidden tests judged per second, and how soon endless programs end.

    python -m experiments.bench.judge [--quick] [--save]

Four threads judge the solutions of our own problems, each hidden test in a fresh child. Then four programs are judged
at once, three of which never end, with a limit of half a processor second. Both targets are about wall time; the
processor time of a test, that of its child included, stands in the details.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from experiments.bench._report import Target, finish, options, run_bench
from ragen_jax.envs.deepcoder import HiddenTest, Judge, Judgement, Problem, Verdict, make_judge
from ragen_jax.envs.deepcoder.problems import embedded_problems

THREADS = 4
TARGETS = {"judged_tests_per_second": Target(at_least=15.0), "seconds_beyond_the_limit": Target(at_most=2.0)}


def main(argv: Sequence[str]) -> bool:
    """Measure and print; True when the targets hold."""
    chosen = options(__doc__, argv)
    judge = make_judge("bubblewrap")
    problems = embedded_problems()[:: 4 if chosen.quick else 1]
    rate, processor, verdicts = _throughput(judge, problems)
    if set(verdicts) != {Verdict.PASS}:
        raise RuntimeError(f"solutions that do not pass: {verdicts.count(Verdict.PASS)} of {len(verdicts)} did")
    ratios = {"judged_tests_per_second": rate, "seconds_beyond_the_limit": _endless(judge)}
    details = {"cpu_ms_per_test": float(f"{1e3 * processor:.4g}"), "problems": len(problems), "threads": THREADS}
    return finish("judge", ratios, TARGETS, argv=argv, save=chosen.save, details=details)


def _throughput(judge: Judge, problems: Sequence[Problem]) -> tuple[float, float, list[Verdict]]:
    """Tests per second, processor seconds of a test, and the verdicts."""

    def solve(problem: Problem) -> Judgement:
        return judge.judge(problem.solution, problem, max_tests=16, stop_at_failure=True)

    began, used = time.perf_counter(), _processor_seconds()
    with ThreadPoolExecutor(THREADS) as pool:
        judgements = list(pool.map(solve, problems))
    wall, processor = time.perf_counter() - began, _processor_seconds() - used
    tests = sum(judgement.run for judgement in judgements)
    return tests / wall, processor / tests, [judgement.verdict for judgement in judgements]


def _processor_seconds() -> float:
    """Of this process and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _endless(judge: Judge) -> float:
    """Seconds from the limit to the end of three endless programs beside a right one."""
    impatient = Judge(judge.sandbox, time_limit_s=0.5)
    problem = Problem("echo", "Print the line.", "stdin", "", (HiddenTest("7", "7"),))
    programs = ["while True: pass", "print(input())", "while True: pass", "while True: pass"]
    began = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(
            pool.map(lambda p: impatient.judge(p, problem, max_tests=1, stop_at_failure=True).verdict, programs)
        )
    if found != [Verdict.TIMEOUT, Verdict.PASS, Verdict.TIMEOUT, Verdict.TIMEOUT]:
        raise RuntimeError(f"other verdicts than expected: {', '.join(found)}")
    return time.perf_counter() - began - impatient.time_limit_s


if __name__ == "__main__":
    run_bench(main)
