"""Episodes, rewards, budgets, observations and demonstrations of Sokoban."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragen_jax.envs import make_env
from ragen_jax.envs.sokoban import Sokoban
from ragen_jax.envs.sokoban.env import puzzle_of_seed
from ragen_jax.envs.sokoban.rules import ACTIONS, cells, move
from ragen_jax.envs.sokoban.solver import shortest_solution
from ragen_jax.envs.sokoban.views import FORMATS, VOCABULARIES

CORNER = "######\n# .  #\n#@$  #\n#    #\n######\n"


def _env(**options: object) -> Sokoban:
    env = make_env("sokoban", **options)
    assert isinstance(env, Sokoban)
    return env


def _from_level(tmp_path: Path, text: str, **options: object) -> Sokoban:
    path = tmp_path / "level.txt"
    path.write_text(text, encoding="utf-8")
    env = _env(level_file=str(path), split="all", **options)
    env.reset(0)
    return env


def test_optimal_play_returns_eleven_minus_a_tenth_per_action() -> None:
    env = _env(max_turns=1, max_actions_per_turn=10)
    for seed in range(50):
        env.reset(seed)
        plan = shortest_solution(env.puzzle.room, env.puzzle.start)
        assert plan is not None
        result = env.step(" || ".join(ACTIONS[action] for action in plan))
        assert result.reward == pytest.approx(11 - 0.1 * len(plan), abs=1e-9)
        assert result.terminated
        assert not result.truncated
        assert result.info["success"] is True
        assert result.info["optimal_length"] == len(plan)


def test_rewards_and_info_of_single_actions(tmp_path: Path) -> None:
    env = _from_level(tmp_path, "#######\n#@$.  #\n# $  .#\n#######\n", max_actions_per_turn=1, max_turns=10)
    onto, off, stuck = env.step("right"), env.step("right"), env.step("up")
    assert [result.reward for result in (onto, off, stuck)] == pytest.approx([0.9, -1.1, -0.1])
    assert [result.info["boxes_on_target"] for result in (onto, off, stuck)] == [1, 0, 0]
    assert [result.info["action_is_effective"] for result in (onto, off, stuck)] == [True, True, False]
    assert onto.info["actions_taken"] == ("right",)
    assert not onto.done


def test_rewards_of_one_answer_are_summed(tmp_path: Path) -> None:
    env = _from_level(tmp_path, "#######\n#@$.  #\n# $  .#\n#######\n")
    assert env.step("right || right").reward == pytest.approx(-0.2)


def test_nothing_runs_behind_the_solution(tmp_path: Path) -> None:
    env = _from_level(tmp_path, CORNER, max_actions_per_turn=5, max_turns=2)
    result = env.step("down || right || up || down || up")
    assert result.terminated
    assert result.reward == pytest.approx(10.7)
    assert result.info["actions_taken"] == ("down", "right", "up")
    assert result.info["action_is_valid"] is True


def test_one_move_of_several_makes_an_answer_effective(tmp_path: Path) -> None:
    env = _from_level(tmp_path, CORNER)
    assert env.step("up || up").info["action_is_effective"] is True
    assert env.step("up || up").info["action_is_effective"] is False


@pytest.mark.parametrize("end_on_deadlock", [False, True])
def test_deadlock_is_reported_and_ends_the_episode_on_request(tmp_path: Path, end_on_deadlock: bool) -> None:
    text = "######\n# .  #\n#    #\n#@$  #\n######\n"
    env = _from_level(tmp_path, text, end_on_deadlock=end_on_deadlock)
    first = env.step("right")
    assert first.info["deadlock"] is False
    second = env.step("right||right")
    assert second.info["deadlock"] is True
    assert second.terminated is end_on_deadlock
    assert second.info["success"] is False
    assert ("stuck in a corner" in env.instructions()) is end_on_deadlock


def test_c27_surplus_and_unknown_actions_make_the_answer_invalid(tmp_path: Path) -> None:
    env = _from_level(tmp_path, CORNER)
    surplus = env.step("down||up||down||up")
    assert surplus.info["actions_taken"] == ("down", "up")
    assert surplus.info["action_is_valid"] is False
    unknown = env.step("jump || DOWN")
    assert unknown.info["actions_taken"] == ("down",)
    assert unknown.info["action_is_valid"] is False
    assert env.step("Up").info["action_is_valid"] is True


def test_an_unusable_answer_changes_nothing_but_uses_a_turn() -> None:
    env = _env(max_turns=2, max_solution_len=4)
    before = env.reset(1).text
    first = env.step("I would push the box")
    assert (first.observation.text, first.reward, first.done) == (before, 0.0, False)
    assert first.info["action_is_valid"] is first.info["action_is_effective"] is False
    second = env.step("")
    assert second.truncated
    assert not second.terminated


def test_the_action_budget_cuts_the_last_answer_and_truncates(tmp_path: Path) -> None:
    env = _from_level(tmp_path, CORNER, max_actions=3)
    env.step("down||up")
    last = env.step("down||up")
    assert last.info["actions_taken"] == ("down",)
    assert last.info["action_is_valid"] is True
    assert last.truncated
    with pytest.raises(RuntimeError, match="call reset"):
        env.step("up")


def test_members_share_one_drawn_instance() -> None:
    env, other = _env(), _env()
    env.reset(41, 0)
    hits = puzzle_of_seed.cache_info().hits
    other.reset(41, 7)
    assert puzzle_of_seed.cache_info().hits == hits + 1
    assert env.puzzle is other.puzzle


@pytest.mark.parametrize(
    ("style", "vocabulary"),
    [(style, name) for style in FORMATS for name in VOCABULARIES if "grid" in style or name == "default"],
)
def test_every_symbol_shown_is_in_the_legend(style: str, vocabulary: str) -> None:
    env = _env(observation_format=style, vocabulary=vocabulary, boxes=2, max_turns=50, max_actions=100)
    rng = np.random.default_rng(0)
    legend = env.instructions()
    for seed in range(5):
        observation = env.reset(seed)
        for _ in range(20):
            if "grid" in style:
                grid = observation.text.split("\n")[-6:]
                assert {len(row) for row in grid} == {6}
                for symbol in set("".join(grid)):
                    assert re.search(rf"(Symbols: |, ){re.escape(symbol)} ", legend), symbol
            else:
                assert "Symbols" not in legend
            if style == "compact":
                assert "6 rows and 6 columns" in legend
            if "coord" in style:
                assert f"Player: {env.puzzle.room.position(env.state[0])}" in observation.text
                assert "(row, column)" in legend
            result = env.step(ACTIONS[rng.integers(4)])
            observation = result.observation
            if result.done:
                break


def test_no_two_things_share_a_symbol() -> None:
    assert all(len(set(symbols)) == len(symbols) == 7 for symbols in VOCABULARIES.values())


def test_the_letters_are_those_of_their_cells() -> None:
    env = _env(vocabulary="letters")
    shown = set()
    for seed in range(40):
        text = env.reset(seed).text
        shown |= set(text)
        assert text.translate(str.maketrans("W.GCBA@", "# .*$@+")) == env.canonical()
    assert "@" in shown, "no player began on a target"


def test_coordinates_list_the_walls() -> None:
    env = _env(observation_format="coord", min_walls=2, max_walls=2)
    text = env.reset(0).text
    room = env.puzzle.room
    inner = [str(room.position(cell)) for cell in cells(room.walls & ~room.border)]
    assert text.split("\n")[-1] == f"Walls: all of the border, and {', '.join(inner)}"


@given(st.integers(), st.lists(st.sampled_from(ACTIONS), max_size=8))
def test_the_compact_conversation_determines_the_state(seed: int, actions: list[str]) -> None:
    env = _env(observation_format="compact", max_turns=20, max_actions=20)
    texts = [env.reset(seed).text]
    for action in actions:
        result = env.step(action)
        texts.append(result.observation.text)
        if result.done:
            break
    first = re.findall(r"([PBGO]) (\d+) (\d+)", texts[0])
    room = env.puzzle.room
    fixed = {(letter, int(row), int(column)) for letter, row, column in first if letter in "GO"}
    assert fixed == {("G", *room.position(cell)) for cell in cells(room.targets)} | {
        ("O", *room.position(cell)) for cell in cells(room.walls & ~room.border)
    }
    player, boxes = env.state
    moving = [("P", player), *(("B", box) for box in cells(boxes))]
    assert texts[-1].startswith(" ".join(f"{letter} {cell // 6} {cell % 6}" for letter, cell in moving))
    assert len(texts) == 1 or "G" not in texts[-1]


@given(st.text())
def test_any_answer_is_data(answer: str) -> None:
    env = _env()
    env.reset(0)
    before = env.state
    result = env.step(answer)
    if not result.info["actions_taken"]:
        assert env.state == before
        assert result.reward == 0.0


def test_demonstrations_speak_of_the_state_and_solve_in_several_turns() -> None:
    env = _env(observation_format="compact", instructions="terse", action_separator=" ")
    rng = np.random.default_rng(0)
    assert env.instructions() == ""
    for seed in range(40):
        env.reset(seed)
        while True:
            demonstration = env.demonstrate(rng, skill=1.0)
            room, (player, boxes) = env.puzzle.room, env.state
            words = [("me", player), ("box", next(cells(boxes))), ("goal", next(cells(room.targets)))]
            for word, cell in words:
                row, column = room.position(cell)
                assert f"{word} {row} {column}" in demonstration.reasoning
            plan = demonstration.answer.split(" ")
            assert len(plan) <= 2
            assert demonstration.reasoning.endswith(plan[0])
            result = env.step(demonstration.answer)
            assert result.info["action_is_valid"]
            if result.done:
                break
        assert result.info["success"]


def test_hopeless_rooms_are_demonstrated_without_failing() -> None:
    env = _env(unsolvable_share=1.0)
    rng = np.random.default_rng(0)
    for seed in range(20):
        env.reset(seed)
        assert env.step(env.demonstrate(rng, skill=1.0).answer).info["action_is_valid"]


def test_pictures_follow_the_state() -> None:
    env = _env(render_images=True, max_actions_per_turn=1, max_turns=10)
    before = env.reset(2).image
    assert before is not None
    assert before.shape == (96, 96, 3)
    assert before.dtype == np.uint8
    action = next(a for a in range(4) if move(env.puzzle.room, env.state, a) != env.state)
    old = env.state[0]
    after = env.step(ACTIONS[action]).observation.image
    assert after is not None
    changed = {divmod(int(cell), 6) for cell in np.flatnonzero(_tiles_differ(before, after))}
    assert {env.puzzle.room.position(old), env.puzzle.room.position(env.state[0])} <= changed
    assert len(changed) <= 3
    walls = [env.puzzle.room.position(cell) for cell in cells(env.puzzle.room.walls)]
    assert len({before[r * 16 : r * 16 + 16, c * 16 : c * 16 + 16].tobytes() for r, c in walls}) == 1
    assert _env().reset(2).image is None


def _tiles_differ(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    different = (before != after).any(axis=-1)
    return different.reshape(6, 16, 6, 16).any(axis=(1, 3)).reshape(-1)


def test_instructions_say_what_a_box_costs_that_leaves_its_target() -> None:
    text = _env().instructions()
    assert "a box that comes onto a target pays 1, one that leaves it costs 1, and all on targets pay 10 more" in text
