"""Rows grow by appending, or the template is refused."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragen_jax.envs.base import ONE_ACTION, EnvConfig, Observation, StepResult
from ragen_jax.rollout.prompting import ChatFormat, UserMessages, closed_reasoning, observation_text
from ragen_jax.rollout.tokenizer import Tokenizer
from tests.rollout.lines import words
from tests.rollout.test_tokenizer import TEMPLATE, byte_backend, write_folder

KEEPS_ONLY_THE_LAST_THINK_BLOCK = """
{%- for m in messages %}
  {%- set said = m['content'] %}
  {%- if m['role'] == 'assistant' and not loop.last %}{% set said = said.split('</think>')[-1] %}{% endif %}
  {{- m['role'] + ':' + said + '<end>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ 'assistant:' }}{% endif %}
"""


def format_with(folder: Path, template: str) -> ChatFormat:
    return ChatFormat(Tokenizer.from_folder(write_folder(folder, byte_backend(), chat_template=template)))


def test_first_prompt(chat: ChatFormat) -> None:
    opened = "<|im_start|>user\nP 1<|im_end|>\n<|im_start|>assistant\n<think>"
    assert chat.first_text("", "P 1") == opened
    assert chat.first_text("Walk.", "P 1") == "<|im_start|>system\nWalk.<|im_end|>\n" + opened
    assert chat.tokenizer.decode(chat.first_prompt("Walk.", "P 1")) == chat.first_text("Walk.", "P 1")


def test_a_template_without_a_system_role_is_refused_with_the_remedy(tmp_path: Path) -> None:
    stern = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    with pytest.raises(ValueError, match=r"'stern' fails \(System role not supported\): .*model\.chat_template=chatml"):
        format_with(tmp_path / "stern", stern + TEMPLATE)


@settings(max_examples=25, deadline=None)
@given(st.text(max_size=40), st.lists(st.text(max_size=40), min_size=1, max_size=4))
def test_appending_gives_the_text_of_the_whole_conversation(chat: ChatFormat, first: str, later: list[str]) -> None:
    reply = "so</think><answer>up</answer>"
    stream = chat.first_prompt("", first)
    messages = [{"role": "user", "content": first}]
    for observation in later:
        stream = [*stream, *words(chat.tokenizer, reply + "<|im_end|>"), *chat.next_observation(observation)]
        messages += [{"role": "assistant", "content": "<think>" + reply}, {"role": "user", "content": observation}]
    whole = chat.tokenizer.render(messages, add_generation_prompt=True) + "<think>"
    assert chat.tokenizer.decode(stream) == whole


@pytest.mark.parametrize(
    "template",
    [
        KEEPS_ONLY_THE_LAST_THINK_BLOCK,
        TEMPLATE.replace("m['content']", "m['content'].split('</think>')[-1]"),
        TEMPLATE.replace("m['role'] + ':'", "(loop.length | string) + m['role'] + ':'"),
    ],
    ids=["drops earlier reasoning", "drops all reasoning", "numbers its messages anew"],
)
def test_c21_a_template_that_rewrites_earlier_turns_is_refused(tmp_path: Path, template: str) -> None:
    with pytest.raises(
        ValueError, match=r"chat template of tokenizer 'forgets' (rewrites earlier turns|changes replies)"
    ):
        format_with(tmp_path / "forgets", template)


def test_c21_the_error_shows_where_the_texts_part(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"at character \d+ the policy saw 'think>because.*later turn would show 'answer>go"
    ):
        format_with(tmp_path / "forgets", KEEPS_ONLY_THE_LAST_THINK_BLOCK)


def test_a_template_that_opens_the_think_block_itself(tmp_path: Path) -> None:
    template = TEMPLATE.replace("assistant:{% endif %}", "{{ 'assistant:' + '<think>' }}{% endif %}")
    chat = format_with(tmp_path / "opens", template)
    assert chat.first_text("", "P 1") == "user:P 1<end>assistant:<think>"
    assert chat.next_text("P 2") == "user:P 2<end>assistant:<think>"


@pytest.mark.parametrize(
    ("parts", "reasoning"),
    [
        (["go", " on", "</think>", "<answer>"], "go on"),
        (["go on"], ""),
        (["</think>", "<answer>"], ""),
        (["go", "<", "/th", "ink>"], "go"),
        (["a</think>b</think>"], "a"),
    ],
    ids=["closed", "open", "empty", "marker spelt out", "two markers"],
)
def test_closed_reasoning(tokenizer: Tokenizer, parts: list[str], reasoning: str) -> None:
    ids = words(tokenizer, *parts)
    assert tokenizer.decode(ids[: closed_reasoning(tokenizer, ids)]) == reasoning


def test_a_token_that_shares_bytes_with_the_marker_is_no_reasoning(tmp_path: Path) -> None:
    backend = byte_backend(merges=((".", "<"),))
    tokenizer = Tokenizer.from_folder(write_folder(tmp_path / "merges", backend, chat_template=TEMPLATE))
    ids = tokenizer.encode("so.</think>")
    assert tokenizer.decode(ids[2:3]) == ".<"
    assert closed_reasoning(tokenizer, ids) == 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class OneAction(EnvConfig):
    """An answer is one action, whatever the usual number of the common options is."""

    fixed = ONE_ACTION


def result_of(text: str, **info: object) -> StepResult:
    return StepResult(Observation(text), 0.5, terminated=False, truncated=False, info=info)


def test_user_messages_count_turns_and_actions() -> None:
    config = EnvConfig(instructions="full", max_actions=10, max_actions_per_turn=10)
    messages = UserMessages(config, max_turns=4, show_rewards=True)
    said = [
        messages.first(Observation("P 1")),
        messages.next(result_of("P 2", actions_taken=("up", "left"))),
        messages.next(None),
        messages.next(result_of("P 3")),
    ]
    for turn, (message, left, shown) in enumerate(zip(said, (10, 8, 8, 7), ("P 1", "P 2", "P 2", "P 3"), strict=True)):
        assert f"turn {turn + 1} of 4" in message
        assert f"{left} actions" in message
        assert shown in message
    assert [message.splitlines()[0] for message in said[1:]] == [
        "Your last turn earned 0.5.",
        "Your last turn earned 0.",
        "Your last turn earned 0.5.",
    ]


def test_actions_for_which_no_turn_is_left_are_not_promised() -> None:
    for config, told in (
        (EnvConfig(instructions="full", max_actions=10, max_actions_per_turn=3), (9, 6, 3)),
        (EnvConfig(instructions="full", max_actions=7, max_actions_per_turn=3), (7, 5, 3)),
        (OneAction(instructions="full"), (3, 2, 1)),
    ):
        messages = UserMessages(config, max_turns=3, show_rewards=False)
        said = [messages.first(Observation("P")), messages.next(result_of("P", actions_taken=("up", "up")))]
        said.append(messages.next(None))
        assert tuple(int(re.search(r"still take (\d+) action", text)[1]) for text in said) == told


def test_user_messages_without_rewards_or_action_budget() -> None:
    messages = UserMessages(EnvConfig(instructions="full", max_actions=1), max_turns=4, show_rewards=False)
    first, second = messages.first(Observation("P 1")), messages.next(result_of("P 2"))
    assert "action" not in first.replace("your action<", "")
    assert "earned" not in second


def test_observation_text() -> None:
    assert observation_text("P 1", style="terse", turn=1, max_turns=3, actions_left=4, reward=1.0) == "P 1"
    full = observation_text("P 1", style="full", turn=1, max_turns=3, actions_left=1, reward=-0.5)
    for part in ("earned -0.5", "turn 2 of 3", "P 1", "1 action.", "<think>", "<answer>"):
        assert part in full
    with pytest.raises(ValueError, match="instructions='brief'"):
        observation_text("P 1", style="brief", turn=0, max_turns=1)
