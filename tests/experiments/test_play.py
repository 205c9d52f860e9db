"""Playing in the terminal: a person sees what a policy sees."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from experiments import play
from ragen_jax.config import parse
from ragen_jax.envs import make_env
from ragen_jax.envs.pool import EnvPool
from ragen_jax.rollout.actor import collect
from ragen_jax.rollout.prompting import ChatFormat
from ragen_jax.rollout.scripted import ScriptedPolicy
from ragen_jax.rollout.tokenizer import Tokenizer

ROOT = Path(__file__).parents[2]


def played(text: str, *arguments: str) -> str:
    config = parse(arguments).config
    out = io.StringIO()
    env = make_env(config.env.name, **config.env.options)
    play.play(env, config, member=0, replies=io.StringIO(text), out=out)
    return out.getvalue()


def blocks(text: str, who: str) -> list[str]:
    """What was shown under a heading."""
    parts = text.split("-- ")[1:]
    return [part.partition("\n")[2].rstrip("\n") for part in parts if part.startswith(who)]


ANSWERS = ("right", "down || up", "left", "up", "down")


def test_the_messages_are_those_of_the_turn_loop() -> None:
    arguments = ("env.name=frozen_lake", "env.slip_rate=0.0", "env.frozen_share=1.0", "env.min_path_len=6", "seed=5")
    config = parse(arguments).config
    shown = blocks(played("\n".join(ANSWERS), *arguments), "user")
    env = make_env(config.env.name, **config.env.options)
    tokenizer = Tokenizer.tiny()
    policy = ScriptedPolicy(
        tokenizer, lambda row, turn: f" </think><answer>{ANSWERS[turn]}</answer>", max_new_tokens=60
    )
    with EnvPool("frozen_lake", env.config, groups=1, group_size=1, workers=1) as pool:
        rollout = collect(
            policy,
            pool,
            ChatFormat(tokenizer),
            seeds=[5],
            max_turns=5,
            max_new_tokens=60,
            max_context=4000,
            prompt_bucket=8,
            length_bucket=8,
            observation_bucket=8,
            format_penalty=config.rollout.format_penalty,
            show_rewards=config.rollout.show_rewards,
            seed=(0,),
        )
    episode = rollout.info.episodes[0]
    seen = [text.partition("> ")[0].rstrip("\n") for text in shown]
    assert [turn.observation for turn in episode.turns] == seen[: len(episode.turns)]
    assert env.instructions() in episode.prompt


def test_rewards_and_flags_of_each_step_are_shown() -> None:
    env = make_env("bandit", choose_by="letter")
    env.reset(1)
    risky = env.demonstrate(np.random.default_rng(0), skill=1.0).answer
    out = played(f"{risky}\n", "env.name=bandit", "env.choose_by=letter", "env.risky_probability=1.0", "seed=1")
    assert "reward 1, format penalty 0" in out
    flags = json.loads(next(line for line in out.splitlines() if line.startswith('{"terminated"')))
    assert flags["terminated"] and flags["success"] and flags["well_formed"]
    assert "the task ended: success, return 1, format penalties 0" in out


def test_a_bad_reply_costs_the_penalty_and_shows_the_same_again() -> None:
    out = played("<think>only\nleft\n", "env.name=frozen_lake", "env.max_turns=2", "rollout.format_penalty=-0.25")
    assert "no answer to act on: reward 0, format penalty -0.25, the same observation again" in out
    first, second = (text.partition("\n> ")[0].splitlines() for text in blocks(out, "user")[:2])
    assert second[2:-2] == first[1:-2]  # behind the reward and the number of the turn, before the actions left
    assert (first[-2], second[-2]) == ("You can still take 4 actions.", "You can still take 2 actions.")


def test_what_is_paid_at_the_end_is_paid_after_a_bad_last_reply_too() -> None:
    env = make_env("sudoku")
    env.reset(5)
    right = env.demonstrate(np.random.default_rng(0), skill=1.0).answer
    out = played(f"{right}\n" + "<think>only\n" * 4, "env.name=sudoku", "seed=5")
    assert "paid at the end 0.25" in out
    assert "the turns are used up: no success, return 0.25" in out


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "latin.txt"
    file.write_bytes(b"h\xe9\n")
    with pytest.raises(ValueError, match=r"replies=.*latin\.txt is no text in UTF-8"):
        play.main(["env=countdown", f"replies={file}"])


def test_the_end_of_input_ends_politely() -> None:
    out = played("", "env.name=sokoban")
    assert out.splitlines()[-1].startswith("no more input: no success, return 0")


def test_an_answer_may_have_several_lines() -> None:
    out = played("<think>a</think><answer>3 +\n5</answer>\n", "env.name=countdown")
    assert blocks(out, "reply")[0].startswith("<think>a</think><answer>3 +\n5</answer>")
    assert out.count("> \n") == 1


def test_the_command_reads_a_pipe() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "experiments.play", "env=countdown", "env.observation_format=compact", "seed=4"],
        input="1 + 1\n",
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    env = make_env("countdown", observation_format="compact")
    assert env.reset(4).text in done.stdout
    assert "the task ended: no success" in done.stdout


def test_replies_from_a_file_and_the_noise_of_a_member(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "replies.txt"
    file.write_text("right\n" * 5)
    texts = set()
    for member in range(6):
        play.main(["env=frozen_lake", "env.slip_rate=0.9", "seed=1", f"member={member}", f"replies={file}"])
        texts.add(capsys.readouterr().out)
    assert len(texts) > 1
    assert len({blocks(text, "user")[0] for text in texts}) == 1


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["env=sokobann"], KeyError, "did you mean 'sokoban'"),
        (["env=sokoban", "env.size=4"], ValueError, "env.size"),
        (["member=-1"], ValueError, "member=-1"),
        (["replies=no/such"], OSError, "no/such"),
        (["env=webshop", "env=sokoban"], ValueError, "env=webshop env=sokoban: name one environment"),
        (["env=webshop", "--env.name=sokoban"], ValueError, "env=webshop env.name=sokoban: name one environment"),
    ],
)
def test_mistakes_are_named(arguments: list[str], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        play.main(arguments)
