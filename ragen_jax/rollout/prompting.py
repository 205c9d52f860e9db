"""From observations to token ids, by appending only.

A row is one growing sequence of ids: the first prompt, then in turn the sampled reply and the ids that lead to the next
one. Sampled ids are never decoded and encoded again, so what is trained is what was sampled. That is possible only
when the chat template writes earlier turns exactly as it wrote them at first; ``ChatFormat`` checks this.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragen_jax.envs.base import EnvConfig, Observation, StepResult
from ragen_jax.envs.parsing import THINK
from ragen_jax.rollout.tokenizer import Message, Tokenizer

THINK_MARKER, END_OF_THINK = THINK

_PROBE_REPLY = "because of this</think><answer>go</answer>"


def _system(instructions: str) -> list[Message]:
    return [{"role": "system", "content": instructions}] if instructions else []


def _user(content: str) -> Message:
    return {"role": "user", "content": content}


def _assistant(content: str) -> Message:
    return {"role": "assistant", "content": content}


_HISTORY = [_user("earlier"), _assistant(THINK_MARKER + _PROBE_REPLY)]


class ChatFormat:
    """The chat template of a tokenizer, as a way to extend a row.

    Attributes:
      tokenizer: the tokenizer.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Check that the template keeps prefixes.

        Raises:
          ValueError: when the template rewrites earlier turns (some drop think blocks). It names the tokenizer and the
            first place where the texts part.
        """
        self.tokenizer = tokenizer
        self._end_of_turn = tokenizer.decode([tokenizer.end_of_turn_id])
        self._history_end = self._find_history_end()
        self._check_prefixes()

    def first_text(self, instructions: str, observation: str) -> str:
        """Text of a first prompt: system message (none when the instructions are empty), observation, think marker."""
        return self._opened([*_system(instructions), _user(observation)])

    def first_prompt(self, instructions: str, observation: str) -> list[int]:
        """Ids of ``first_text``."""
        return self.tokenizer.encode(self.first_text(instructions, observation))

    def next_text(self, observation: str) -> str:
        """Text between the end-of-turn marker of a reply and the next reply.

        That is the rest of the template behind the marker, the user message, the opening of the reply and the think
        marker.
        """
        return self._opened([*_HISTORY, _user(observation)])[self._history_end :]

    def next_observation(self, observation: str) -> list[int]:
        """Ids of ``next_text``; they stand between the end-of-turn id of a reply and the next sampled id."""
        return self.tokenizer.encode(self.next_text(observation))

    def _opened(self, messages: list[Message]) -> str:
        """Rendered conversation up to and including the think marker of the next reply."""
        text = self.tokenizer.render(messages, add_generation_prompt=True)
        # Templates of reasoning models write the marker themselves, some with a line break behind it.
        return text if text.rstrip().endswith(THINK_MARKER) else text + THINK_MARKER

    def _find_history_end(self) -> int:
        """Characters of ``_HISTORY``, up to and including the end-of-turn marker of its reply."""
        text = self.tokenizer.render(_HISTORY, add_generation_prompt=False)
        reply = _HISTORY[-1]["content"] + self._end_of_turn
        if reply not in text:
            raise ValueError(
                f"the chat template of tokenizer {self.tokenizer.name!r} changes replies: {reply!r} became {text!r}; "
                "use a template that keeps replies, think blocks included, as they were, such as "
                "model.chat_template=chatml for the Qwen family"
            )
        return text.index(reply) + len(reply)

    def _check_prefixes(self) -> None:
        messages: list[Message] = [*_system("task"), _user("first")]
        stream = self.first_text("task", "first")
        for observation in ("second", "third", "fourth"):
            stream += _PROBE_REPLY + self._end_of_turn
            messages += [_assistant(THINK_MARKER + _PROBE_REPLY), _user(observation)]
            rendered = self._opened(messages)
            if not rendered.startswith(stream):
                raise ValueError(self._divergence(stream, rendered))
            stream += self.next_text(observation)
            if rendered != stream:
                raise ValueError(self._divergence(stream, rendered))
        if self.tokenizer.decode(self.tokenizer.encode(stream)) != stream:
            raise ValueError(
                f"tokenizer {self.tokenizer.name!r} changes text when it encodes it: "
                "use one without a normalizer that rewrites"
            )

    def _divergence(self, stream: str, rendered: str) -> str:
        shorter = min(len(stream), len(rendered))
        at = next((at for at in range(shorter) if stream[at] != rendered[at]), shorter)
        return (
            f"the chat template of tokenizer {self.tokenizer.name!r} rewrites earlier turns: at character {at} the "
            f"policy saw {stream[at : at + 40]!r}, a later turn would show {rendered[at : at + 40]!r}; use a template "
            "that keeps earlier replies, think blocks included, as they were"
        )


class UserMessages:
    """The user messages of one episode, for the turn loop and for whoever writes demonstrations.

    The first message of a group must not differ between its members, so it depends on the observation alone.
    """

    def __init__(self, config: EnvConfig, *, max_turns: int, show_rewards: bool) -> None:
        """Begin an episode.

        Args:
          config: config of the environment; its ``instructions`` give the style of the messages too.
          max_turns: replies that the episode may have.
          show_rewards: say what the last turn earned (in full style).
        """
        self._config = config
        self._max_turns = max_turns
        self._per_turn = 1 if "max_actions_per_turn" in config.fixed else config.max_actions_per_turn
        self._show_rewards = show_rewards
        self._observation = ""
        self._turn = 0
        self._actions = 0

    def first(self, observation: Observation) -> str:
        """Message of the first turn."""
        self._observation = observation.text
        return self._compose(reward=None)

    def next(self, result: StepResult | None) -> str:
        """Message of the next turn; None when the environment was not stepped, which shows the last one again."""
        self._turn += 1
        reward = 0.0
        if result is not None:
            reward = result.reward
            self._observation = result.observation.text
            # An environment that does not list its actions takes each answer as one.
            self._actions += len(result.info["actions_taken"]) if "actions_taken" in result.info else 1
        return self._compose(reward=reward if self._show_rewards else None)

    def _compose(self, *, reward: float | None) -> str:
        budget = self._config.max_actions
        # The turns that are left hold no more than this, whatever the budget of actions still allows.
        room = (self._max_turns - self._turn) * self._per_turn
        return observation_text(
            self._observation,
            style=self._config.instructions,
            turn=self._turn,
            max_turns=self._max_turns,
            actions_left=min(budget - self._actions, room) if budget > 1 else None,
            reward=reward,
        )


def observation_text(
    observation: str,
    *,
    style: str,
    turn: int,
    max_turns: int,
    actions_left: int | None = None,
    reward: float | None = None,
) -> str:
    """What the user message of one turn says.

    Args:
      observation: text of the environment.
      style: "full" adds turn, budget, reward and a reminder of the reply format; "terse" is the observation alone.
      turn: number of the turn, from 0.
      max_turns: turns of an episode.
      actions_left: actions that the episode still allows, by its budget and by the turns that are left; None when the
        environment does not count them.
      reward: reward of the turn before; None at the first turn, and when rewards are not shown.

    Raises:
      ValueError: for an unknown style.
    """
    if style == "terse":
        return observation
    if style != "full":
        raise ValueError(f"instructions={style!r}: use 'full' or 'terse'")
    lines = [] if reward is None else [f"Your last turn earned {reward:g}."]
    lines += [f"This is turn {turn + 1} of {max_turns}.", observation]
    if actions_left is not None:
        lines.append(f"You can still take {actions_left} action{'' if actions_left == 1 else 's'}.")
    lines.append("Reason first, then act: <think>your reasoning</think><answer>your action</answer>")
    return "\n".join(lines)


def closed_reasoning(tokenizer: Tokenizer, ids: Sequence[int]) -> int:
    """Number of ids at the start of a reply that are reasoning and nothing else.

    These are the ids strictly before the first one that holds a byte of ``</think>``, wherever token borders lie.
    Zero when the think block is not closed or is empty.
    """
    opening = b"".join(tokenizer.token_bytes(token) for token in ids).find(END_OF_THINK.encode())
    return sum(end <= opening for end in tokenizer.byte_ends(ids))
