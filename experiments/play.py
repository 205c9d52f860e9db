"""Play an environment in the terminal, and see exactly what a policy sees.

python -m experiments.play env=frozen_lake
python -m experiments.play env=sokoban env.boxes=2 env.observation_format=coord seed=7 member=1
python -m experiments.play env=countdown replies=replies.txt      # one reply a line
python -m experiments.play preset=frozen_lake_turns_tiny          # as the runs of a preset meet it

Type the answer alone, or a whole reply with its markers: ``<think>...</think><answer>...</answer>``. A whole reply is
read as a policy's is, format penalty included. A reply that opens an answer block goes on until the line that closes
it, so that an answer may have several lines. End of input (Ctrl-D) leaves.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from experiments._main import run_main
from experiments._options import whole_number
from ragen_jax.config import Config, parse
from ragen_jax.envs import ENVS, TextEnv, make_env
from ragen_jax.envs.base import StepResult
from ragen_jax.envs.parsing import ANSWER, THINK, parse_reply
from ragen_jax.rollout.prompting import UserMessages

OWN = {
    "env": "environment; short for env.name",
    "member": "number within its group: decides the noise (default 0)",
    "replies": "file with replies or answers, one a line, instead of the keyboard",
}
_LINE = "-" * 72


def main(argv: Sequence[str]) -> None:
    """Play one episode."""
    parsed = parse(_with_name(argv), own=OWN)
    rest = parsed.rest
    member = whole_number(rest, "member", default=0, least=0)
    config = parsed.config
    env = make_env(config.env.name, **config.env.options)
    try:
        if "replies" in rest:
            play(env, config, member=member, replies=_read(Path(rest["replies"])), out=sys.stdout)
        else:
            play(env, config, member=member, replies=sys.stdin, out=sys.stdout)
    finally:
        env.close()


def play(env: TextEnv, config: Config, *, member: int, replies: TextIO, out: TextIO) -> None:
    """Play one episode on the layout of ``config.seed``, with lines from ``replies``; write what is seen to ``out``."""
    rollout = config.rollout
    messages = UserMessages(env.config, max_turns=env.config.max_turns, show_rewards=rollout.show_rewards)
    shown = messages.first(env.reset(config.seed, member))
    instructions = env.instructions()
    _show(out, "system", instructions or "(no system message)")
    earned, penalties, success, ending = 0.0, 0.0, False, ""
    lines = _lines(replies, out)
    for _ in range(env.config.max_turns):
        _show(out, "user", shown)
        line = next(lines, None)
        if line is None:
            ending = "no more input"
            break
        reply = line if any(marker in line for marker in (*THINK, *ANSWER)) else as_reply(line)
        parsed = parse_reply(reply)
        result = None if parsed.answer is None else env.step(parsed.answer)
        well_formed = parsed.well_formed and result is not None and bool(result.info["action_is_valid"])
        penalty = 0.0 if well_formed else rollout.format_penalty
        penalties += penalty
        _show(out, "reply", reply)
        out.write(_outcome(result, well_formed, penalty))
        if result is not None:
            earned += result.reward
            success |= bool(result.info["success"])
        shown = messages.next(result)
        if result is not None and result.done:
            _show(out, "user (not shown to a policy any more)", result.observation.text)
            ending = "the task ended" if result.terminated else "a budget ran out"
            break
    if not ending:
        ending = "the turns are used up"
        last = env.finish()
        earned += last.reward
        out.write(f"paid at the end {last.reward:g}\n{json.dumps(dict(last.info), default=str)}\n")
    out.write(
        f"{_LINE}\n{ending}: {'success' if success else 'no success'}, return {earned:g}, "
        f"format penalties {penalties:g}, task {env.canonical()!r}\n"
    )


def as_reply(answer: str) -> str:
    """A whole reply around an answer; its reasoning is a person's own affair."""
    return f"{THINK[0]} {THINK[1]}{ANSWER[0]}{answer}{ANSWER[1]}"


def _read(file: Path) -> TextIO:
    """A file of replies.

    Raises:
      ValueError: it is no text in UTF-8.
    """
    try:
        return io.StringIO(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"replies={file} is no text in UTF-8 ({error}): save it as UTF-8") from error


def _lines(replies: TextIO, out: TextIO) -> Iterator[str]:
    """Replies without their line breaks."""
    while True:
        out.write("> ")
        out.flush()
        line = replies.readline()
        if not line:
            out.write("\n")
            return
        while ANSWER[0] in line and ANSWER[1] not in line:
            more = replies.readline()
            if not more:
                break
            line += more
        if not replies.isatty():  # what a person types ends its line on the screen
            out.write("\n")
        yield line.rstrip("\r\n")


def _show(out: TextIO, who: str, text: str) -> None:
    out.write(f"{f'-- {who} ':-<72}\n{text}\n")


def _outcome(result: StepResult | None, well_formed: bool, penalty: float) -> str:
    """Parts of the reward, and what the environment says about the step."""
    if result is None:
        return f"no answer to act on: reward 0, format penalty {penalty:g}, the same observation again\n"
    flags = {"terminated": result.terminated, "truncated": result.truncated, "well_formed": well_formed}
    info: dict[str, Any] = flags | dict(result.info)
    return f"reward {result.reward:g}, format penalty {penalty:g}\n{json.dumps(info, default=str)}\n"


def _with_name(argv: Sequence[str]) -> list[str]:
    """``env=NAME`` also as the ``env.name=NAME`` of every other module, so that its options are known."""
    given = [token.removeprefix("--").partition("=") for token in argv]
    named = [f"{key}={value}" for key, _, value in given if key in ("env", "env.name")]
    if len(named) > 1:
        raise ValueError(f"{' '.join(named)}: name one environment")
    names = [value for key, _, value in given if key == "env"]
    for name in names:
        ENVS.check(name)
    return [*argv, *(f"env.name={name}" for name in names)]


if __name__ == "__main__":
    run_main(main)
