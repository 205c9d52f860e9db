"""FrozenLake against gymnasium's dynamics, its own statistics and its documented formats."""

from __future__ import annotations

import dataclasses
import itertools
import time

import numpy as np
import pytest

from ragen_jax.envs import make_env
from ragen_jax.envs.frozen_lake import FrozenLake, Lake
from ragen_jax.envs.frozen_lake.lake import ACTIONS, draw_lake, transition_table
from ragen_jax.envs.instances import content_hash, layout_rng

#     S . .
#     . H .
#     . . G
SMALL = Lake(size=3, start=(0, 0), goal=(2, 2), holes=frozenset({(1, 1)}))


def _env_on(lake: Lake, **options) -> FrozenLake:
    """An environment that has begun on a given lake."""
    env = make_env("frozen_lake", size=lake.size, **options)
    env.begin(lake)
    return env


def _maps(count: int) -> list[Lake]:
    env = make_env("frozen_lake", split="all")
    lakes = []
    for seed in range(count):
        env.reset(seed)
        lakes.append(env.lake)
    return lakes


@pytest.mark.parametrize("intended", [1.0, 0.98, 0.8, 1 / 3])
def test_transition_table_is_gymnasiums(intended: float) -> None:
    toy_text = pytest.importorskip("gymnasium.envs.toy_text.frozen_lake")
    for lake in _maps(12):
        oracle = toy_text.FrozenLakeEnv(
            desc=lake.map_text().split("\n"), is_slippery=intended < 1, success_rate=intended
        )
        table = transition_table(lake, slip_rate=1 - intended)
        for state, action in itertools.product(range(lake.size**2), range(4)):
            expected: dict[tuple[int, float, bool], float] = {}
            for probability, following, reward, ended in oracle.P[state][action]:
                key = (int(following), float(reward), bool(ended))
                expected[key] = expected.get(key, 0.0) + probability
            found: dict[tuple[int, float, bool], float] = {}
            for outcome in range(3):
                following = int(table.next_states[state, action, outcome])
                key = (following, float(table.rewards[state, action, outcome]), bool(table.terminal[following]))
                found[key] = found.get(key, 0.0) + table.probabilities[outcome]
            found = {key: value for key, value in found.items() if value > 0}
            assert found.keys() == expected.keys()
            assert found == pytest.approx(expected, abs=1e-12)
        oracle.close()


def test_steps_follow_the_transition_table() -> None:
    """Simulated moves against the table, within four standard errors."""
    lake = dataclasses.replace(SMALL, start=(0, 1))
    env = _env_on(lake, slip_rate=0.4)
    table = env.transition_table()
    counts = np.zeros(9)
    for member in range(4000):
        env.begin(lake, member=member)
        env.step("down")
        counts[env.player[0] * 3 + env.player[1]] += 1
    expected = np.zeros(9)
    np.add.at(expected, table.next_states[1, 1], table.probabilities)
    assert np.abs(counts / 4000 - expected).max() < 4 * np.sqrt(0.25 / 4000)


def test_c26_without_slips() -> None:
    env = _env_on(SMALL, slip_rate=0.0)
    assert "not slippery" in env.instructions()
    result = env.step("Right")
    assert env.player == (0, 1)
    assert result.info["action_is_effective"]
    env = _env_on(SMALL, slip_rate=0.0)
    result = env.step("Left")
    assert env.player == (0, 0)
    assert result.info["actions_taken"] == ("left",)
    assert not result.info["action_is_effective"]


def test_c26_with_slips() -> None:
    middle = Lake(size=3, start=(1, 1), goal=(0, 0), holes=frozenset())
    env = _env_on(middle, slip_rate=2 / 3)
    assert "with probability 0.3333" in env.instructions()
    directions = []
    for member in range(3000):
        env.begin(middle, member=member)
        result = env.step("right")
        directions += result.info["actions_taken"]
        assert result.info["slipped"] == (directions[-1] != "right")
    shares = {name: directions.count(name) / 3000 for name in ACTIONS}
    assert shares["left"] == 0
    for name in ("right", "up", "down"):
        assert abs(shares[name] - 1 / 3) < 0.03


def test_slip_rate_within_three_sigma() -> None:
    slips = total = 0
    env = make_env("frozen_lake", slip_rate=0.1, max_actions_per_turn=10)
    for seed in range(400):
        env.reset(seed)
        result = env.step("left || up || right || down || left || up || right || down")
        slips += result.info["slipped"]
        total += len(result.info["actions_taken"])
    assert abs(slips / total - 0.1) < 3 * np.sqrt(0.1 * 0.9 / total)


def _trajectory(env: FrozenLake, seed: int, member: int) -> tuple:
    texts = [env.reset(seed, member).text]
    for answer in ("left || down", "right || up", "up || up", "down || left", "right || right"):
        result = env.step(answer)
        texts.append(result.observation.text)
        if result.done:
            break
    return tuple(texts)


def test_members_share_the_lake_but_not_the_slips() -> None:
    own = make_env("frozen_lake", slip_rate=0.5)
    shared = make_env("frozen_lake", slip_rate=0.5, shared_dynamics=True)
    differing = 0
    for seed in range(10):
        paths = {_trajectory(own, seed, member) for member in range(8)}
        assert len({path[0] for path in paths}) == 1
        differing += len(paths) > 1
        assert len({_trajectory(shared, seed, member) for member in range(8)}) == 1
    assert differing >= 9
    assert _trajectory(own, 3, 2) == _trajectory(own, 3, 2)


def test_maps_keep_the_promises_of_the_config() -> None:
    env = make_env("frozen_lake", size=5, frozen_share=0.7, min_path_len=4, min_holes=3)
    for seed in range(100):
        env.reset(seed)
        lake = env.lake
        assert len(lake.holes) >= 3
        assert not lake.holes & {lake.start, lake.goal}
        cell = lake.start
        path = lake.shortest_path(cell)
        for action in path:
            cell = lake.neighbour(cell, action)
            assert cell not in lake.holes
        assert cell == lake.goal
        assert len(path) == lake.distances[lake.start] >= 4


def test_every_goal_is_within_the_actions_of_an_episode() -> None:
    """Among lakes drawn by size alone, some goals lie farther away than the budget: 25 of 500 at size 8."""
    env = make_env("frozen_lake", size=8)
    for seed in range(100):
        env.reset(seed)
        assert env.lake.distances[env.lake.start] <= env.config.action_budget == 10


def test_distribution_of_maps_is_the_documented_one() -> None:
    """Shares of path lengths and hole counts at the defaults agree with published measurements of this rule."""
    lakes = [
        lake
        for seed in range(4000)
        if (lake := draw_lake(layout_rng(seed), size=4, frozen_share=0.9, min_path_len=1, min_holes=0))
    ]
    lengths = [lake.distances[lake.start] for lake in lakes]
    holes = [len(lake.holes) for lake in lakes]
    for value, share in ((1, 0.20), (2, 0.28), (3, 0.23), (4, 0.18), (5, 0.08)):
        assert abs(np.mean(np.equal(lengths, value)) - share) < 0.03
    for value, share in ((0, 0.23), (1, 0.37), (2, 0.25)):
        assert abs(np.mean(np.equal(holes, value)) - share) < 0.03


def test_locked_goals_pay_nothing_and_are_shown() -> None:
    for style in ("grid", "coord", "grid_coord", "compact"):
        env = make_env(
            "frozen_lake", locked_share=1.0, slip_rate=0.0, observation_format=style, max_actions_per_turn=10
        )
        open_env = make_env("frozen_lake", slip_rate=0.0, observation_format=style)
        for seed in range(20):
            text = env.reset(seed).text
            assert "locked" in text
            # The same board as without locks: the share decides on locks alone.
            assert "locked" not in open_env.reset(seed).text
            assert env.lake == dataclasses.replace(open_env.lake, locked=True)
            rng = np.random.default_rng(seed)
            assert env.optimal_success_probability() == 0
            plan = env.demonstrate(rng, skill=1.0)
            assert plan.reasoning == open_env.demonstrate(np.random.default_rng(seed), skill=1.0).reasoning
            result = env.step(plan.answer)
            assert result.terminated
            assert result.reward == 0
            assert not result.info["success"]
            assert result.info["goal_locked"]


def test_locked_share_and_splits() -> None:
    env = make_env("frozen_lake", locked_share=0.6)
    locked, canonical = [], set()
    for seed in range(1000):
        env.reset(seed)
        locked.append(env.lake.locked)
        canonical.add(env.canonical())
    assert abs(np.mean(locked) - 0.6) < 3 * np.sqrt(0.24 / 1000)
    assert "some goals are locked" in env.instructions().lower()
    env = make_env("frozen_lake", locked_share=0.6, split="validation")
    for seed in range(200):
        env.reset(seed)
        assert not env.lake.locked
        # Not even as a locked board may a validation map stand in training.
        assert not {env.canonical(), env.canonical() + "\nlocked"} & canonical
        assert content_hash(env.canonical()) % 100 < 10


FORMATS = {
    "grid": ("P__\n_O_\n__G", "_P_\n_O_\n__G"),
    "coord": (
        "Start: (0, 0)\nGoal: (2, 2)\nPlayer: (0, 0)\nHoles: (1, 1)",
        "Start: (0, 0)\nGoal: (2, 2)\nPlayer: (0, 1)\nHoles: (1, 1)",
    ),
    "grid_coord": (
        "Start: (0, 0)\nGoal: (2, 2)\nPlayer: (0, 0)\nHoles: (1, 1)\nP__\n_O_\n__G",
        "Start: (0, 0)\nGoal: (2, 2)\nPlayer: (0, 1)\nHoles: (1, 1)\n_P_\n_O_\n__G",
    ),
    "compact": ("P 0 0 G 2 2 O 1 1", "P 0 1"),
}


@pytest.mark.parametrize("style", FORMATS)
def test_formats(style: str) -> None:
    env = _env_on(SMALL, slip_rate=0.0, observation_format=style)
    assert env.begin(SMALL).text == FORMATS[style][0]
    assert env.step("right").observation.text == FORMATS[style][1]


@pytest.mark.parametrize(
    ("style", "vocabulary"),
    [(style, "default") for style in ("grid", "coord", "grid_coord", "compact")]
    + [("grid", "ascii"), ("grid_coord", "ascii")],
)
def test_the_legend_matches_the_board(style: str, vocabulary: str) -> None:
    """Every symbol and every coordinate bound of the instructions comes from the live config."""
    env = _env_on(SMALL, slip_rate=0.0, observation_format=style, vocabulary=vocabulary, max_actions_per_turn=4)
    instructions = env.instructions()
    texts = [env.begin(SMALL).text]
    for answer in ("down || right", "down || down || right || right"):
        env.begin(SMALL)
        texts.append(env.step(answer).observation.text)
    if "grid" in style:
        legend = next(line for line in instructions.split("\n") if line.startswith("Symbols: "))
        explained = {item.strip()[0] for item in legend.removeprefix("Symbols: ").split(",")}
        drawn = set("".join(line for text in texts for line in text.split("\n") if ":" not in line))
        assert drawn <= explained
        assert ("√" in instructions) == (vocabulary == "default")
        assert vocabulary == "default" or "".join(drawn).isascii()
        in_hole, on_goal = texts[1].split("\n")[-2], texts[2].split("\n")[-1]
        assert (in_hole, on_goal) == ("_X_", "__√" if vocabulary == "default" else "__W")
    if "coord" in style:
        assert "(2, 2) at the bottom right" in instructions
        assert "Player in a hole: (1, 1)" in texts[1]
        assert "Player on the goal: (2, 2)" in texts[2]
    if style == "compact":
        assert "3 rows and 3 columns" in instructions
    assert "at most 4" in instructions
    assert '"||"' in instructions


def test_every_separator_is_explained() -> None:
    assert (
        "with a space between two, for example: right up"
        in make_env("frozen_lake", action_separator=" ").instructions()
    )
    assert "An answer is one of them" in make_env("frozen_lake", max_actions_per_turn=1).instructions()


def test_pictures_show_every_state() -> None:
    env = make_env("frozen_lake", render_images=True, slip_rate=0.0)
    image = env.reset(0).image
    assert image.shape == (64, 64, 3)
    assert image.dtype == np.uint8
    assert make_env("frozen_lake").reset(0).image is None
    env = _env_on(SMALL)
    tiles = env.render().reshape(3, 16, 3, 16, 3).swapaxes(1, 2)
    kinds = [tiles[0, 0], tiles[0, 1], tiles[1, 1], tiles[2, 2]]  # player, ice, hole, goal
    assert all((a != b).any() for a, b in itertools.combinations(kinds, 2))
    locked = _env_on(dataclasses.replace(SMALL, locked=True))
    assert (locked.render() != env.render()).any()


def test_rewards_and_ends() -> None:
    env = _env_on(SMALL, slip_rate=0.0, max_actions_per_turn=3)
    first = env.step("right || right")
    assert (first.reward, first.done) == (0.0, False)
    last = env.step("down || down || left")  # the goal ends the answer
    assert (last.reward, last.terminated, last.truncated) == (1.0, True, False)
    assert last.info["success"]
    assert last.info["actions_taken"] == ("down", "down")
    assert last.info["optimal_length"] == 4
    env = _env_on(SMALL, slip_rate=0.0)
    fall = env.step("down || right")
    assert (fall.reward, fall.terminated) == (0.0, True)
    assert fall.info["fell_in_hole"]
    assert not fall.info["success"]


def test_budgets_truncate() -> None:
    env = _env_on(SMALL, slip_rate=0.0, max_turns=2)
    assert not env.step("left").done
    result = env.step("left")
    assert (result.terminated, result.truncated) == (False, True)
    env = _env_on(SMALL, slip_rate=0.0, max_actions=3)
    assert not env.step("left || left").done
    result = env.step("up || right")  # one action is left
    assert result.truncated
    assert result.info["actions_taken"] == ("up",)
    with pytest.raises(RuntimeError, match="call reset"):
        env.step("left")


def test_c27_surplus_and_unknown_actions() -> None:
    env = _env_on(SMALL, slip_rate=0.0)
    result = env.step("right || right || down")
    assert result.info["actions_taken"] == ("right", "right")
    assert not result.info["action_is_valid"]
    result = env.step("jump || DOWN")
    assert result.info["actions_taken"] == ("down",)
    assert not result.info["action_is_valid"]
    result = env.step("stay")
    assert result.info["actions_taken"] == ()
    assert not result.info["action_is_effective"]


def _enumerated_success(lake: Lake, cell, left: int, slip: float) -> float:
    """Best success by full enumeration, the oracle of value iteration."""
    if cell == lake.goal:
        return 1.0
    if cell in lake.holes or left == 0:
        return 0.0
    best = 0.0
    for action in range(4):
        value = 0.0
        for turn, probability in ((-1, slip / 2), (0, 1 - slip), (1, slip / 2)):
            following = lake.neighbour(cell, (action + turn) % 4)
            value += probability * _enumerated_success(lake, following, left - 1, slip)
        best = max(best, value)
    return best


@pytest.mark.parametrize("slip", [0.0, 0.02, 2 / 3])
def test_optimal_success_probability(slip: float) -> None:
    env = _env_on(SMALL, slip_rate=slip, max_actions=5)
    assert env.optimal_success_probability() == pytest.approx(_enumerated_success(SMALL, (0, 0), 5, slip), abs=1e-12)
    short = _env_on(SMALL, slip_rate=0.0, max_actions=3)
    assert short.optimal_success_probability() == 0  # four moves are needed


def test_demonstrations() -> None:
    plain = Lake(size=3, start=(0, 0), goal=(0, 2), holes=frozenset())
    env = _env_on(plain, slip_rate=0.0, max_turns=1, max_actions_per_turn=10, action_separator=" ")
    rng = np.random.default_rng(0)
    skeleton = {"me", "goal", "so", "go", "0", "2"}
    words = set()
    for _ in range(50):
        demonstration = env.demonstrate(rng, skill=1.0)
        assert demonstration.answer == "right right"
        kept = [word for word in demonstration.reasoning.split() if word in skeleton]
        assert " ".join(kept) == "me 0 0 goal 0 2 so go"
        words |= set(demonstration.reasoning.split()) - set(kept)
    assert len(words) == 10
    assert not words & set(ACTIONS)
    careless = [env.demonstrate(rng, skill=0.0) for _ in range(200)]
    assert {len(demonstration.answer.split()) for demonstration in careless} == {1, 2, 3, 4, 5, 6}
    for demonstration in careless:
        assert not set(demonstration.reasoning.split()) & set(ACTIONS)


def test_multi_turn_demonstrations_go_on_from_the_player() -> None:
    env = make_env("frozen_lake", slip_rate=0.0, min_path_len=4, size=5)
    rng = np.random.default_rng(0)
    for seed in range(10):
        env.reset(seed)
        length = env.lake.distances[env.lake.start]
        for _ in range((length + 1) // 2):
            row, column = env.player
            demonstration = env.demonstrate(rng, skill=1.0)
            assert f"me {row} {column}" in demonstration.reasoning
            result = env.step(demonstration.answer)
        assert result.info["success"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 1}, "size=1: a lake has 2 to 32 rows"),
        ({"size": 33}, "size=33"),
        ({"slip_rate": 1.1}, "slip_rate=1.1"),
        ({"frozen_share": -0.1}, "frozen_share=-0.1"),
        ({"locked_share": 2.0}, "locked_share=2.0"),
        ({"min_path_len": 0}, "min_path_len=0"),
        ({"min_path_len": 16}, "min_path_len=16: use 1 to 15 on a lake with size=4"),
        ({"size": 8, "min_path_len": 11}, "min_path_len=11 is more than the 10 actions of an episode"),
        ({"max_turns": 1, "max_actions_per_turn": 1, "min_path_len": 3}, "min_path_len=3 is more than the 1 actions"),
        ({"min_holes": 15}, "min_holes=15: use 0 to 14"),
        ({"observation_format": "picture"}, "observation_format='picture': use one of grid"),
        ({"vocabulary": "emoji"}, "vocabulary='emoji': use one of default, ascii"),
    ],
)
def test_impossible_options_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_env("frozen_lake", **options)


def test_hopeless_options_fail_at_reset_with_one_clear_error() -> None:
    env = make_env("frozen_lake", min_path_len=15, max_actions_per_turn=3, max_actions=15)
    with pytest.raises(ValueError, match="seed 0: no instance of split 'train'"):
        env.reset(0)


def test_own_lakes_must_fit() -> None:
    env = make_env("frozen_lake")
    with pytest.raises(ValueError, match="a lake of size 3 in an environment with size=4"):
        env.begin(SMALL)
    walled = Lake(size=4, start=(0, 0), goal=(3, 3), holes=frozenset({(0, 1), (1, 0)}))
    with pytest.raises(ValueError, match=r"no way leads from start \(0, 0\) to goal \(3, 3\)"):
        env.begin(walled)


def test_misuse_is_an_error() -> None:
    env = make_env("frozen_lake")
    with pytest.raises(RuntimeError, match="call reset"):
        env.step("left")
    with pytest.raises(RuntimeError, match="call reset"):
        env.canonical()


def test_a_lake_that_cannot_be_found_is_given_up_soon() -> None:
    before = time.process_time()
    with pytest.raises(ValueError, match=r"in 156 attempts; .*too rare"):
        make_env("frozen_lake", size=32, min_path_len=62, frozen_share=0.95, max_turns=31, max_actions=62).reset(0)
    assert time.process_time() - before < 20
