"""Scripted players of every environment: one that guesses, and some that try to be paid without solving anything.

A player sees what a policy sees, and the environment object for the names of its actions. Environments without an entry
of their own get the general players; their guesser is their own careless demonstration.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np

from ragen_jax.envs import TextEnv, game_2048, rubik
from ragen_jax.envs.demonstrations import join_actions
from ragen_jax.envs.frozen_lake import lake
from ragen_jax.envs.sokoban import rules
from ragen_jax.envs.webshop import shopper

Act = Callable[[TextEnv, str, np.random.Generator], str]
"""(environment, last observation, generator) -> text of the answer block."""

_LONGEST = 2_000  # characters of an echo


@dataclasses.dataclass(frozen=True)
class Player:
    """One way to answer.

    Attributes:
      name: short, for tables.
      act: the answer to an observation.
    """

    name: str
    act: Act

    def start(self) -> Act:
        """The player at the beginning of an episode."""
        return self.act


@dataclasses.dataclass(frozen=True)
class InTurn:
    """A player who gives one answer after the other, round and round, whatever is shown; each episode begins anew.

    Attributes:
      name: short, for tables.
      answers: what there is to answer in an episode.
    """

    name: str
    answers: Callable[[TextEnv], tuple[str, ...]]

    def start(self) -> Act:
        """The player at the beginning of an episode."""
        count = itertools.count()

        def act(env: TextEnv, shown: str, rng: np.random.Generator) -> str:
            answers = self.answers(env)
            return answers[next(count) % len(answers)]

        return act


@dataclasses.dataclass(frozen=True)
class Sheet:
    """What the report knows about an environment.

    Attributes:
      random: the guesser.
      adversaries: players who do not solve the task.
      difficulty: how hard the instance of the running episode is, and what the numbers or words mean.
      unit: what training and validation must not share.
    """

    random: Player
    adversaries: tuple[Player | InTurn, ...]
    difficulty: tuple[str, Callable[[TextEnv], int | str]] | None = None
    unit: Callable[[TextEnv], str] = lambda env: env.canonical()


def careless(env: TextEnv, shown: str, rng: np.random.Generator) -> str:
    """The environment's own demonstration without skill."""
    return env.demonstrate(rng, skill=0.0).answer


def uniform(names: Callable[[TextEnv], tuple[str, ...]]) -> Act:
    """As many actions as an answer may hold, each one uniform over the names."""

    def act(env: TextEnv, shown: str, rng: np.random.Generator) -> str:
        known = names(env)
        drawn = rng.integers(len(known), size=env.config.max_actions_per_turn).tolist()
        return join_actions([known[index] for index in drawn], env.config.action_separator)

    return act


def always(text: str) -> Act:
    """The same answer every time."""
    return lambda env, shown, rng: text


def repeated(names: Callable[[TextEnv], tuple[str, ...]], index: int) -> Act:
    """One action, as often as an answer may hold it."""
    return lambda env, shown, rng: join_actions(
        [names(env)[index]] * env.config.max_actions_per_turn, env.config.action_separator
    )


def echo(pattern: str, joiner: str) -> Act:
    """Everything in the observation that matches a pattern."""
    return lambda env, shown, rng: joiner.join(re.findall(pattern, shown))[:_LONGEST]


def all_names(names: Callable[[TextEnv], tuple[str, ...]]) -> Act:
    """Every action there is in one answer."""
    return lambda env, shown, rng: join_actions(names(env), env.config.action_separator)


GENERAL = (
    Player("nothing", always("")),
    Player("junk", always("</answer><answer>\x00 || ]] {'success': true} \\boxed{1}\\boxed{2}")),
    Player("repeat the prompt", lambda env, shown, rng: shown[:_LONGEST]),
    Player("all numbers of the prompt", echo(r"\d+", " ")),
    Player("all words of the prompt", echo(r"[A-Za-z]+", " ")),
)


def _choices(env: TextEnv) -> tuple[str, ...]:
    choices: tuple[str, ...] = env.choices  # type: ignore[attr-defined]
    return choices


def _moves(names: Callable[[TextEnv], tuple[str, ...]], *, shown: int) -> Sheet:
    """For environments with a list of actions: the first ``shown`` of them are tried alone, and all at once."""
    return Sheet(
        random=Player("uniform over the actions", uniform(names)),
        adversaries=(
            *GENERAL,
            *(Player(f"action {index + 1} always", repeated(names, index)) for index in range(shown)),
            Player("all actions at once", all_names(names)),
            InTurn("all actions in turn", names),
        ),
    )


def _of_class(env: TextEnv) -> tuple[str, ...]:
    """Actions of a gymnax environment."""
    names: tuple[str, ...] = env.actions  # type: ignore[attr-defined]
    return names


def _shop(act: Callable[..., str]) -> Act:
    return lambda env, shown, rng: act(env.goal, env.page)  # type: ignore[attr-defined]


def _first_capitals(env: TextEnv, shown: str, rng: np.random.Generator) -> str:
    """Names of the question as the answer, without a search."""
    return f"finish[{' '.join(re.findall(r'[A-Z][a-z]+', shown)[1:3])}]"


def _first_passage(env: TextEnv, shown: str, rng: np.random.Generator) -> str:
    """Search for the whole question, then answer with the title of the first passage."""
    found = re.search(r"^\[1\] (.+?) \(id", shown, re.MULTILINE)
    if found:
        return f"finish[{found[1]}]"
    return f"search[{shown.partition('Question:')[2].splitlines()[0][:300]}]" if "Question:" in shown else "finish[yes]"


_MATHS = Sheet(
    random=Player("a number of the question, or one from 0 to 99", lambda env, shown, rng: _some_number(env, rng)),
    adversaries=(
        *GENERAL,
        Player("zero", always("0")),
        InTurn("numbers of the question in turn", lambda env: _numbers(env)),
        InTurn("numbers of the question in turn, from the last", lambda env: _numbers(env)[::-1]),
        InTurn("most common golds of the data in turn", lambda env: _common_golds(env)),
        Player("several boxes", always("\\boxed{1} \\boxed{2} \\boxed{3}")),
        Player("a set of all small numbers", always("\\{" + ", ".join(map(str, range(50))) + "\\}")),
        Player("an inequality that holds for all", always("x \\geq 0")),
    ),
    difficulty=("kind of question", lambda env: env.problem.kind),  # type: ignore[attr-defined]
    unit=lambda env: env.problem.original,  # type: ignore[attr-defined]
)

SHEETS: Mapping[str, Sheet] = {
    "bandit": Sheet(
        random=Player("uniform over the arms", uniform(_choices)),
        adversaries=(*GENERAL, *(Player(f"arm {arm + 1} always", repeated(_choices, arm)) for arm in range(2))),
        difficulty=("one level", lambda env: f"the risky arm pays with {env.config.risky_probability:g}"),  # type: ignore[attr-defined]
    ),
    "frozen_lake": dataclasses.replace(
        _moves(lambda env: lake.ACTIONS, shown=4),
        difficulty=("moves of the shortest way", lambda env: env.lake.distances[env.lake.start]),  # type: ignore[attr-defined]
    ),
    "sokoban": dataclasses.replace(
        _moves(lambda env: rules.ACTIONS, shown=4),
        difficulty=("moves of the shortest solution", lambda env: env.puzzle.optimal_length),  # type: ignore[attr-defined]
    ),
    "countdown": Sheet(
        random=Player("a random expression of all numbers", careless),
        adversaries=(
            *GENERAL,
            Player("the target itself", echo(r"(?<=Target: )\d+", "")),
            Player("sum of all numbers shown", echo(r"\d+(?=[,\n])", "+")),
            Player("a power tower", always("9**9**9")),
        ),
        difficulty=("operators needed", lambda env: len(env.task.operators)),  # type: ignore[attr-defined]
    ),
    "search_qa": Sheet(
        random=Player("random searches, then a title that was seen", careless),
        adversaries=(
            *GENERAL,
            Player("finish[yes]", always("finish[yes]")),
            Player("names of the question", _first_capitals),
            Player("first passage for the whole question", _first_passage),
        ),
        difficulty=("kind of question", lambda env: env.question.kind),  # type: ignore[attr-defined]
        unit=lambda env: env.question.unit,  # type: ignore[attr-defined]
    ),
    "webshop": Sheet(
        random=Player(
            "uniform over the page's actions",
            lambda env, shown, rng: shopper.any_action(env.goal, env.page, rng),  # type: ignore[attr-defined]
        ),
        adversaries=(
            *GENERAL,
            Player("first result", _shop(shopper.first_result)),
            Player("first result, first values", _shop(shopper.first_values)),
            Player("first result, values of the request", _shop(shopper.fitting_values)),
        ),
        difficulty=("attributes and options wanted", lambda env: _wanted(env)),
        unit=lambda env: env.shop.families[env.goal.wanted.product.asin],  # type: ignore[attr-defined]
    ),
    "deepcoder": Sheet(
        random=Player("the problem's planted wrong program", careless),
        adversaries=(
            *GENERAL[:3],
            Player("leave at once", always("import sys\nsys.exit(0)")),
            Player("print the input", always("import sys\nprint(sys.stdin.read())")),
            Player("an object equal to everything", lambda env, shown, rng: _equal_to_all(env)),
        ),
        difficulty=("level of the problem", lambda env: env.problem.level),  # type: ignore[attr-defined]
    ),
    "metamathqa": _MATHS,
    "metamathqa_retry": _MATHS,
    "rubik": dataclasses.replace(
        _moves(lambda env: rubik.TURNS, shown=3),
        difficulty=("quarter turns of a shortest solution", lambda env: len(rubik.solution(env.cube))),  # type: ignore[attr-defined]
    ),
    "game_2048": dataclasses.replace(
        _moves(lambda env: game_2048.ACTIONS, shown=4),
        difficulty=("one level", lambda env: f"tile {env.config.goal}"),  # type: ignore[attr-defined]
    ),
    "sudoku": Sheet(
        random=Player("any digits in the next empty cells", careless),
        adversaries=(
            *GENERAL,
            Player("the digit 1 in every cell", lambda env, shown, rng: _ones(env)),
            Player("clearing cells again and again", always("1,1,0 || 1,2,0 || 2,1,0 || 2,2,0")),
        ),
        difficulty=("clues", lambda env: env.config.size**2 - env.config.empty),  # type: ignore[attr-defined]
    ),
    "gymnax_four_rooms": dataclasses.replace(
        _moves(_of_class, shown=4),
        difficulty=("moves of a shortest way", lambda env: len(env.plan(env.state, 1000))),  # type: ignore[attr-defined]
    ),
    "gymnax_cart_pole": dataclasses.replace(
        _moves(_of_class, shown=2),
        difficulty=("lean of the pole in 0.01 rad", lambda env: int(100 * abs(env.state.theta))),  # type: ignore[attr-defined]
    ),
}


def sheet(name: str) -> Sheet:
    """What the report knows about an environment."""
    return SHEETS.get(name, Sheet(random=Player("its own careless player", careless), adversaries=GENERAL))


def _wanted(env: TextEnv) -> int:
    wanted = env.goal.wanted  # type: ignore[attr-defined]
    return len(wanted.attributes) + len(wanted.options)


def _some_number(env: TextEnv, rng: np.random.Generator) -> str:
    return str(rng.choice(_numbers(env))) if rng.random() < 0.5 else str(rng.integers(100))


def _numbers(env: TextEnv) -> tuple[str, ...]:
    """Numbers of the question; a nought where there is none."""
    return tuple(re.findall(r"\d+", env.problem.question)) or ("0",)  # type: ignore[attr-defined]


def _common_golds(env: TextEnv) -> tuple[str, ...]:
    """As many answers as there are attempts, those that are right most often."""
    counts = Counter(problem.answer for problem in env._data.rows)  # type: ignore[attr-defined]
    return tuple(answer for answer, _ in counts.most_common(env.config.max_actions))


def _ones(env: TextEnv) -> str:
    size: int = env.config.size  # type: ignore[attr-defined]
    cells = [f"{row},{column},1" for row in range(1, size + 1) for column in range(1, size + 1)]
    return join_actions(cells, env.config.action_separator)


def _equal_to_all(env: TextEnv) -> str:
    name = env.problem.function or "main"  # type: ignore[attr-defined]
    return (
        "class Same(str):\n    def __eq__(self, other):\n        return True\n    __hash__ = str.__hash__\n\n"
        f"def {name}(*arguments):\n    return Same()\n"
    )
