"""The turn loop: a policy and a pool of environments become finished episodes.

Rules for what goes wrong:

* A reply that is not well formed, or an answer that the environment cannot use in full, costs the format penalty once.
* Without a usable answer the environment is not stepped: the same observation is shown again, the turn is used up.
* A reply cut at its token cap is not acted upon; the episode ends as truncated.
* An observation is shown only if a full reply still fits behind it; else the episode ends as truncated before it, with
  its earlier turns and rewards. An episode whose turns are used up is truncated too.
* An episode that ends without its environment is finished there (``TextEnv.finish``). What that pays is added to the
  reward of the last turn, as if the environment had ended the episode itself.
* A row whose environment failed is not valid. It keeps what it had until then. A breach of the contract (see
  ``envs/contract.py``) is such a failure, and so is a reward that makes the return no finite float32 number.
"""

from __future__ import annotations

import dataclasses
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ragen_jax.envs.base import Ending, Observation, StepResult, TextEnv
from ragen_jax.envs.contract import check_ending, check_instructions, check_observation, check_result, is_metric
from ragen_jax.envs.parsing import parse_reply
from ragen_jax.rollout.assemble import Row, assemble, pad_left, pad_right
from ragen_jax.rollout.episodes import Episode, Rollout, RolloutInfo, TurnRecord
from ragen_jax.rollout.policy import Policy
from ragen_jax.rollout.prompting import THINK_MARKER, ChatFormat, UserMessages, closed_reasoning
from ragen_jax.types import Responses

logger = logging.getLogger(__name__)

_LARGEST_RETURN = float(np.finfo(np.float32).max)


class Pool(Protocol):
    """What ``collect`` needs of ``ragen_jax.envs.pool.EnvPool``: P groups of G environments of one config."""

    groups: int
    group_size: int
    errors: list[str | None]

    @property
    def envs(self) -> Sequence[TextEnv]:
        """The environments, one a row."""
        ...

    def reset(self, seeds: Sequence[int]) -> list[Observation | None]:
        """Begin B episodes, one seed per group; None for a row that failed."""
        ...

    def step(self, answers: Sequence[str | None]) -> list[StepResult | None]:
        """Act in the rows that have an answer; None for the others and for rows that failed."""
        ...

    def finish(self, rows: Sequence[int]) -> list[Ending | None]:
        """End the episodes of some rows where they stand; None for the others and for rows that failed."""
        ...


def collect(
    policy: Policy,
    pool: Pool,
    chat: ChatFormat,
    *,
    seeds: Sequence[int],
    max_turns: int,
    max_new_tokens: int,
    max_context: int,
    prompt_bucket: int,
    length_bucket: int,
    observation_bucket: int,
    format_penalty: float,
    show_rewards: bool,
    seed: tuple[int, ...],
) -> Rollout:
    """Play one episode in every environment of the pool.

    Args:
      policy: samples the replies, at most ``max_new_tokens`` ids each.
      pool: P groups of G environments.
      chat: turns observations into ids.
      seeds: [P] layout seeds, one per group.
      max_turns: replies per episode.
      max_new_tokens: tokens a reply may have; room for them is kept before each turn.
      max_context: tokens of a row behind its first prompt.
      prompt_bucket: first prompts are padded to a multiple of this (tokens).
      length_bucket: rows are padded to a multiple of this (tokens).
      observation_bucket: later observations are padded to a multiple of this (tokens).
      format_penalty: zero or negative, once per turn whose reply is not well formed.
      show_rewards: tell the policy the reward of its last turn (full instructions only).
      seed: of the sampling.

    Returns:
      Arrays and records of B = P * G episodes.

    Raises:
      ValueError: for arguments that contradict each other; when members of a group begin with different observations;
        when the policy breaks its contract.
    """
    if len(seeds) != pool.groups:
        raise ValueError(f"{len(seeds)} seeds for {pool.groups} groups: give one per group")
    if max_new_tokens > max_context:
        raise ValueError(f"max_new_tokens={max_new_tokens} does not fit in max_context={max_context}: raise the latter")
    if format_penalty > 0:
        raise ValueError(f"format_penalty={format_penalty}: use zero or a negative number")

    def where(row: int, moment: str) -> str:
        return f"environment {pool.envs[0].name!r}, seed {seeds[row // pool.group_size]}, row {row}, {moment}"

    observations = pool.reset(seeds)
    players = []
    for row, (env, observation) in enumerate(zip(pool.envs, observations, strict=True)):
        error = _fault(where(row, "reset"), pool.errors[row], _check_opening, env, observation)
        messages = UserMessages(pool.envs[0].config, max_turns=max_turns, show_rewards=show_rewards)
        shown = "" if error is not None or observation is None else messages.first(observation)
        players.append(_Player(messages, shown, active=error is None, playing=error is None, error=error))
    openings = [_opening(pool, players, group, seed) for group, seed in enumerate(seeds)]
    prompts = [chat.first_prompt(*opening) for opening in openings]
    prompt_texts = [chat.first_text(*opening) for opening in openings]

    prompt_tokens, prompt_mask = pad_left(prompts, bucket=prompt_bucket, pad_id=chat.tokenizer.pad_id)
    version = policy.version
    session = policy.begin(
        prompt_tokens,
        prompt_mask,
        group_size=pool.group_size,
        max_turns=max_turns,
        max_context=max_context,
        seed=seed,
    )
    for turn in range(max_turns):
        active = np.array([player.active for player in players])
        if not active.any():
            break
        responses = session.respond(active)
        for row in np.flatnonzero(active).tolist():
            players[row].take_reply(responses, row, turn, chat)
        answers = [player.answer_to_act_on() for player in players]
        results = pool.step(answers)
        for row in np.flatnonzero(active).tolist():
            error = None
            if answers[row] is not None:
                earned = players[row].row.rewards
                error = _fault(where(row, f"turn {turn}"), pool.errors[row], _check_step, results[row], earned)
            players[row].settle(results[row], error, format_penalty=format_penalty)
        next_ids = _show_next(players, chat, last_turn=turn + 1 == max_turns, room=max_context - max_new_tokens)
        broken_off = [row for row, player in enumerate(players) if player.playing and not player.active]
        endings = pool.finish(broken_off) if broken_off else []
        for row in broken_off:
            earned = players[row].row.rewards
            error = _fault(where(row, "finish"), pool.errors[row], _check_finish, endings[row], earned)
            players[row].finish(endings[row], error)
        if any(next_ids):
            session.observe(*pad_right(next_ids, bucket=observation_bucket, pad_id=chat.tokenizer.pad_id))

    batch = assemble(
        prompts,
        [player.row for player in players],
        valid=np.array([player.error is None for player in players]),
        pad_id=chat.tokenizer.pad_id,
        prompt_bucket=prompt_bucket,
        length_bucket=length_bucket,
        policy_version=version,
    )
    episodes = tuple(
        player.episode(env=pool.envs[0].name, seed=int(seeds[group]), member=member, prompt=prompt_texts[group])
        for (group, member), player in zip(np.ndindex(pool.groups, pool.group_size), players, strict=True)
    )
    return Rollout(batch=batch, info=RolloutInfo(episodes=episodes, group_size=pool.group_size))


@dataclasses.dataclass
class _Player:
    """One episode while it runs."""

    messages: UserMessages
    shown: str  # the user message that the next reply answers
    active: bool  # another reply is wanted
    playing: bool  # the environment is in the middle of the episode
    error: str | None
    row: Row = dataclasses.field(default_factory=Row)
    turns: list[TurnRecord] = dataclasses.field(default_factory=list)
    success: bool = False
    terminated: bool = False
    truncated: bool = False
    metrics: dict[str, list[float]] = dataclasses.field(default_factory=lambda: defaultdict(list))

    def take_reply(self, responses: Responses, number: int, turn: int, chat: ChatFormat) -> None:
        """Append a sampled reply and read it; reward and penalty follow in ``settle``."""
        length = int(responses.lengths[number])
        if length < 1:
            raise ValueError(f"the policy sampled no token for row {number} in turn {turn}, though the row is active")
        ids = responses.tokens[number, :length].tolist()
        start = len(self.row.tokens)
        self.row.add_response(ids, responses.log_probs[number, :length].tolist(), turn=turn)
        ended = bool(responses.ended[number])
        text = THINK_MARKER + chat.tokenizer.decode(ids[:-1] if ended else ids)
        reply = parse_reply(text)
        reasoning = closed_reasoning(chat.tokenizer, ids)
        self.turns.append(
            TurnRecord(
                observation=self.shown,
                reply=text,
                token_ids=tuple(ids),
                start=start,
                reasoning=(start, start + reasoning) if reasoning else None,
                answer=reply.answer,
                reward=0.0,
                penalty=0.0,
                well_formed=reply.well_formed and ended,
                cut=not ended,
            )
        )

    def answer_to_act_on(self) -> str | None:
        """Answer of the newest reply; None when the environment shall not be stepped."""
        return self.turns[-1].answer if self.active and not self.turns[-1].cut else None

    def settle(self, result: StepResult | None, error: str | None, *, format_penalty: float) -> None:
        """Enter what the environment made of the newest reply."""
        record = self.turns[-1]
        reward, valid_action = 0.0, False
        if error is not None:
            self._fail(error)
            return
        if result is not None:
            reward, valid_action = float(result.reward), bool(result.info["action_is_valid"])
            self.success |= bool(result.info["success"])
            self.terminated, self.truncated = bool(result.terminated), bool(result.truncated)
            self.playing = not result.done
        self._note({"action_is_valid": False, "action_is_effective": False} if result is None else result.info)
        well_formed = record.well_formed and valid_action
        penalty = 0.0 if well_formed else float(format_penalty)
        self.turns[-1] = dataclasses.replace(record, reward=reward, penalty=penalty, well_formed=well_formed)
        self.row.add_reward(reward)
        self.row.penalty += penalty
        self.truncated |= record.cut
        self.active = not (self.terminated or self.truncated)
        self.shown = self.messages.next(result)

    def finish(self, ending: Ending | None, error: str | None) -> None:
        """Enter what the environment still had to say of an episode that ended without it."""
        self.playing = False
        if error is not None:
            self._fail(error)
        elif ending is not None:
            reward = float(ending.reward)
            self.turns[-1] = dataclasses.replace(self.turns[-1], reward=self.turns[-1].reward + reward)
            self.row.add_reward(reward)
            self._note(ending.info)

    def _fail(self, error: str) -> None:
        self.error, self.active, self.playing = error, False, False

    def _note(self, info: Mapping[str, Any]) -> None:
        """Keep the numbers of an info as metrics."""
        for key, value in info.items():
            if is_metric(value) and key != "success":
                self.metrics[key].append(float(value))

    def episode(self, *, env: str, seed: int, member: int, prompt: str) -> Episode:
        """The finished record."""
        return Episode(
            env=env,
            seed=seed,
            member=member,
            prompt=prompt,
            turns=tuple(self.turns),
            success=self.success,
            terminated=self.terminated,
            truncated=self.truncated,
            penalty=self.row.penalty,
            metrics={key: float(np.mean(values)) for key, values in self.metrics.items()},
            error=self.error,
        )


def _show_next(players: Sequence[_Player], chat: ChatFormat, *, last_turn: bool, room: int) -> list[list[int]]:
    """Ids that each row is shown before its next reply; empty for rows that are over or end here.

    ``room``: tokens that a row may have behind its first prompt when the next reply begins.
    """
    shown: list[list[int]] = []
    for player in players:
        ids: list[int] = []
        if player.active:
            ids = chat.next_observation(player.shown)
            if last_turn or len(player.row.tokens) + len(ids) > room:
                player.active, player.truncated, ids = False, True, []
        player.row.add_observation(ids)
        shown.append(ids)
    return shown


def _fault(where: str, failed: str | None, check: Callable[..., None], *arguments: Any) -> str | None:
    """Why a row is invalid, with environment, seed, row and moment in front; None when all is right.

    Args:
      where: the words in front.
      failed: error of the pool; None when the environment returned something.
      check: raises ValueError for what it must not return.
      *arguments: of the check.
    """
    if failed is not None:
        return f"{where}: {failed}"
    try:
        check(*arguments)
    except ValueError as fault:
        error = f"{where}: {fault}"
        logger.warning("the row is invalid: %s", error)
        return error
    return None


def _check_opening(env: TextEnv, observation: object) -> None:
    check_observation(observation)
    check_instructions(env.instructions())


def _check_step(result: object, rewards: Sequence[float]) -> None:
    _check_return(check_result(result).reward, rewards)


def _check_finish(ending: object, rewards: Sequence[float]) -> None:
    _check_return(check_ending(ending).reward, rewards)


def _check_return(reward: float, rewards: Sequence[float]) -> None:
    """Refuse a reward that takes the return out of float32: NaN there would poison the update of every row."""
    if not abs(sum(rewards) + float(reward)) <= _LARGEST_RETURN:
        raise ValueError(f"reward {float(reward)} makes the return no finite float32 number")


def _opening(pool: Pool, players: Sequence[_Player], group: int, seed: int) -> tuple[str, str]:
    """Instructions and first user message of a group; both empty when none of its rows works."""
    rows = range(group * pool.group_size, (group + 1) * pool.group_size)
    found = {(pool.envs[row].instructions(), players[row].shown) for row in rows if players[row].active}
    if len(found) > 1:
        raise ValueError(
            f"environment {pool.envs[0].name!r}, seed {seed}: members of a group begin with different observations; "
            "the first observation must depend on the seed alone"
        )
    return found.pop() if found else ("", "")
