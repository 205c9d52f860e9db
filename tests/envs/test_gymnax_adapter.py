"""Gymnax games as text environments; gymnax and gymnasium as oracles of transitions."""

from __future__ import annotations

import importlib.util
import itertools
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragen_jax.envs import make_env
from ragen_jax.envs.frozen_lake.lake import draw_lake, transition_table
from ragen_jax.envs.gymnax_adapter import CartPole, FourRooms, load_program, require_packages
from ragen_jax.envs.instances import layout_rng

needs_gymnax = pytest.mark.skipif(
    not importlib.util.find_spec("gymnax"), reason="needs the extra: pip install 'ragen_jax[gymnax]'"
)
LESS = {"size": 4, "frozen_share": 0.8, "min_path_len": 2, "min_holes": 1}


def _lakes(count: int) -> list[Any]:
    drawn = (draw_lake(layout_rng(seed), **LESS) for seed in itertools.count())
    return list(itertools.islice(filter(None, drawn), count))


def _gymnax_lake(lake: Any, **options: Any) -> Any:
    import gymnax

    return gymnax.make("FrozenLake-misc", desc=lake.map_text().split("\n"), **options)


@needs_gymnax
def test_frozen_lake_without_slips_moves_like_gymnaxs() -> None:
    import jax

    lake = _lakes(1)[0]
    game, params = _gymnax_lake(lake, is_slippery=False)
    start = game.reset_env(jax.random.key(0), params)[1]
    move = jax.jit(
        lambda position, action: game.step_env(jax.random.key(0), start.replace(position=position), action, params)
    )
    table = transition_table(lake, slip_rate=0.0)
    compared = 0
    for state, action in itertools.product(range(16), range(4)):
        if table.terminal[state]:
            continue
        _, after, reward, ended, _ = move(state, action)
        following = table.next_states[state, action, 1]
        assert int(after.position) == following
        assert float(reward) == table.rewards[state, action, 1]
        assert bool(ended) == table.terminal[following]
        compared += 1
    assert compared > 30


@needs_gymnax
def test_frozen_lake_slips_like_gymnaxs() -> None:
    """Frequencies of 4,000 moves a state and action, within five standard errors of our table."""
    import jax
    import jax.numpy as jnp

    lake, draws, slip = _lakes(1)[0], 4000, 0.4
    game, params = _gymnax_lake(lake, success_rate=1 - slip)
    start = game.reset_env(jax.random.key(0), params)[1]
    table = transition_table(lake, slip_rate=slip)
    states = np.flatnonzero(~table.terminal)
    pairs = np.array(list(itertools.product(states, range(4))))

    def position(key: Any, state: Any, action: Any) -> Any:
        return game.step_env(key, start.replace(position=state), action, params)[1].position

    keys = jax.random.split(jax.random.key(1), (len(pairs), draws))
    over_draws = jax.vmap(position, in_axes=(0, None, None))
    found = np.asarray(jax.jit(jax.vmap(over_draws))(keys, jnp.asarray(pairs[:, 0]), jnp.asarray(pairs[:, 1])))
    for (state, action), positions in zip(pairs, found, strict=True):
        expected: Counter[int] = Counter()
        for outcome, probability in enumerate(table.probabilities):
            expected[int(table.next_states[state, action, outcome])] += probability
        met = Counter(positions.tolist())
        assert met.keys() == expected.keys()
        for following, probability in expected.items():
            error = 5 * np.sqrt(probability * (1 - probability) / draws)
            assert abs(met[following] / draws - probability) <= error


@needs_gymnax
def test_the_adapter_moves_the_cart_like_gymnasium() -> None:
    gymnasium = pytest.importorskip("gymnasium.envs.classic_control")
    env = make_env("gymnax_cart_pole", max_turns=50, max_actions_per_turn=1)
    assert isinstance(env, CartPole)
    for seed in range(3):
        env.reset(seed)
        oracle = gymnasium.CartPoleEnv()
        oracle.reset()
        fields = ("x", "x_dot", "theta", "theta_dot")
        oracle.state = tuple(float(getattr(env.state, field)) for field in fields)
        rng = np.random.default_rng(seed)
        while True:
            action = int(rng.random() < 0.8)  # mostly to the right, so the pole falls
            result = env.step(("left", "right")[action])
            observation, reward, ended, *_ = oracle.step(action)
            assert [float(getattr(env.state, field)) for field in fields] == pytest.approx(
                observation.tolist(), abs=1e-4
            )
            assert (result.terminated, result.reward) == (ended, reward)
            if result.done:
                break
        assert result.terminated
        assert env._actions > 8
        assert not result.info["success"]
        oracle.close()


@needs_gymnax
def test_the_adapter_steps_like_the_game_itself() -> None:
    import gymnax
    import jax

    env = make_env("gymnax_four_rooms", max_turns=30, max_actions_per_turn=1)
    game, defaults = gymnax.make("FourRooms-misc")
    params = defaults.replace(**FourRooms.params)
    rng = np.random.default_rng(0)
    for seed in range(3):
        env.reset(seed)
        state, done = env.state, False
        for _ in range(10):
            action = int(rng.integers(4))
            result = env.step(env.actions[action])
            _, state, reward, done, _ = game.step_env(jax.random.key(9), state, action, params)
            assert np.array_equal(env.state.pos, state.pos)
            assert (result.reward, result.terminated) == (float(reward), bool(done))
            if done:
                break


@needs_gymnax
def test_the_map_of_four_rooms_shows_the_state() -> None:
    env = make_env("gymnax_four_rooms")
    for seed in range(10):
        head, *rows = env.reset(seed).text.splitlines()
        _, row, column, _, goal_row, goal_column = head.split()
        assert rows[int(row)][int(column)] == "P"
        assert rows[int(goal_row)][int(goal_column)] == "G"
        assert "".join(rows).count("P") == "".join(rows).count("G") == 1
        assert len(rows) == len(rows[0]) == 13


@needs_gymnax
@pytest.mark.parametrize(("name", "careless"), [("gymnax_four_rooms", 0.3), ("gymnax_cart_pole", 0.1)])
def test_solver_and_careless_player(name: str, careless: float) -> None:
    success = {}
    for skill in (1.0, 0.0):
        env, rng, won = make_env(name), np.random.default_rng(0), []
        for seed in range(30):
            env.reset(seed)
            while not (result := env.step(env.demonstrate(rng, skill=skill).answer)).done:
                pass
            won.append(result.info["success"])
        success[skill] = np.mean(won)
    assert success[1.0] == 1.0
    assert success[0.0] < careless


@needs_gymnax
def test_surviving_counts_at_the_end_of_the_actions_only() -> None:
    env = make_env("gymnax_cart_pole", max_turns=2, max_actions=10)
    env.reset(0)
    assert not env.step("left || right || left || right").info["success"]
    result = env.step("no action")
    assert result.truncated, "out of turns"
    assert not result.info["success"]
    assert not result.info["action_is_valid"]


@needs_gymnax
@pytest.mark.parametrize(
    ("options", "room"), [({"max_turns": 2}, 10), ({"max_turns": 9}, 45), ({"max_turns": 150, "max_actions": 600}, 500)]
)
def test_more_pushes_than_an_episode_holds_are_refused(options: dict[str, int], room: int) -> None:
    with pytest.raises(ValueError, match=f"success is to make so many pushes, but an episode holds {room} "):
        make_env("gymnax_cart_pole", **options)


@needs_gymnax
def test_the_game_in_the_documentation_is_played() -> None:
    page = Path(__file__).parents[2].joinpath("docs/environments.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(re.findall(r"```python\n(.*?)```", page.split("## Games of gymnax")[1], re.DOTALL)[0], names)
    env, rng = names["env"], np.random.default_rng(0)
    env.reset(1)
    while not (result := env.step(env.demonstrate(rng, skill=1.0).answer)).done:
        assert re.fullmatch(r"position [+-]\d\.\d{3}, speed [+-]\d\.\d{4}", result.observation.text)
    assert result.info["success"]
    env.reset(1)
    while not (result := env.step("left || left || left || left || left")).done:
        pass
    assert result.truncated
    assert not result.info["success"]


@needs_gymnax
def test_a_missing_cpu_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import jax

    def fail(backend: str) -> None:
        raise RuntimeError(f"Unknown backend {backend}")

    monkeypatch.setattr(jax, "local_devices", fail)
    with pytest.raises(ValueError, match=r"Catch-bsuite runs on the CPU.*JAX_PLATFORMS=cuda,cpu"):
        load_program("Catch-bsuite", ())


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"need gymnax and six: pip install 'ragen_jax\[gymnax\]'"):
        require_packages()


def test_the_adapter_is_imported_without_jax() -> None:
    code = "import sys, ragen_jax.envs.gymnax_adapter; sys.exit('jax' in sys.modules or 'gymnax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
