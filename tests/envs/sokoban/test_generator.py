"""Generated rooms: solvable, inside their band and split, quick, and the wanted share of hopeless ones."""

from __future__ import annotations

import pytest

from ragen_jax.envs import env_config, make_env
from ragen_jax.envs.instances import in_split
from ragen_jax.envs.sokoban import Puzzle, SokobanConfig
from ragen_jax.envs.sokoban.generator import generate
from ragen_jax.envs.sokoban.rules import boxes_on_targets, cells, is_solved, reachable
from tests.oracles import sokoban as oracle


def _config(**options: object) -> SokobanConfig:
    config = env_config("sokoban", **options)
    assert isinstance(config, SokobanConfig)
    return config


def test_c24_a_thousand_rooms_are_solvable_and_not_solved() -> None:
    config = _config()
    for seed in range(1000):
        puzzle = generate(config, seed)
        board = puzzle.text()
        assert not is_solved(puzzle.room, puzzle.start)
        assert board.count("$") == 1
        if seed % 10 == 0:
            assert oracle.shortest(board) == puzzle.optimal_length
        assert puzzle.optimal_length is not None
        assert 1 <= puzzle.optimal_length <= 10


@pytest.mark.parametrize(("shortest", "longest"), [(1, 2), (3, 5), (6, 10)])
def test_difficulty_bands_are_kept_and_filled(shortest: int, longest: int) -> None:
    config = _config(min_solution_len=shortest, max_solution_len=longest)
    lengths = [oracle.shortest(generate(config, seed).text()) for seed in range(60)]
    assert set(lengths) == set(range(shortest, longest + 1))


@pytest.mark.parametrize(
    "options",
    [
        {"boxes": 2, "height": 8, "width": 8},
        {"boxes": 3},
        {"height": 3, "width": 5, "max_walls": 0, "max_solution_len": 1},
        {"height": 5, "width": 9, "min_walls": 3, "max_walls": 3},
    ],
)
def test_sizes_boxes_and_walls(options: dict[str, int]) -> None:
    config = _config(**options)
    for seed in range(8):
        puzzle = generate(config, seed)
        room = puzzle.room
        assert (room.height, room.width) == (config.height, config.width)
        assert room.targets.bit_count() == puzzle.start[1].bit_count() == config.boxes
        assert boxes_on_targets(room, puzzle.start) == 0
        assert config.min_walls <= (room.walls & ~room.border).bit_count() <= config.max_walls
        assert room.border & ~room.walls == 0
        assert reachable(room, next(cells(room.floor))) == room.floor
        assert oracle.shortest(puzzle.text(), limit=10) == puzzle.optimal_length


def test_unsolvable_share_is_met_in_training_and_zero_in_validation() -> None:
    def hopeless(puzzle: Puzzle, budget: int) -> bool:
        return oracle.shortest(puzzle.text(), limit=budget) is None

    training = _config(unsolvable_share=0.5, max_solution_len=4, max_turns=2)
    found = [generate(training, seed) for seed in range(200)]
    flags = [hopeless(puzzle, 4) for puzzle in found]
    assert 0.4 < sum(flags) / 200 < 0.6
    assert [puzzle.optimal_length is None for puzzle in found] == flags
    assert all(in_split(puzzle.text(), split="train", validation_percent=10) for puzzle in found)
    validation = _config(unsolvable_share=0.5, max_solution_len=4, max_turns=2, split="validation")
    assert not any(hopeless(generate(validation, seed), 4) for seed in range(60))


def test_c25_validation_rooms_lie_in_their_split_whatever_the_seed() -> None:
    rooms = {
        split: {generate(_config(split=split), seed).text() for seed in range(150)} for split in ("train", "validation")
    }
    assert rooms["train"].isdisjoint(rooms["validation"])
    for split, texts in rooms.items():
        assert len(texts) > 120
        assert all(in_split(text, split=split, validation_percent=10) for text in texts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"height": 2}, "height=2, width=6: use 3 or more"),
        ({"height": 3, "width": 4}, "a room of 3x4 has 2 inner cells, but max_walls=4 and boxes=1 need 7"),
        ({"boxes": 9}, "boxes=9 need 23"),
        ({"boxes": 0}, "boxes=0"),
        ({"min_walls": 3, "max_walls": 2}, "min_walls=3, max_walls=2"),
        ({"min_solution_len": 0}, "min_solution_len=0"),
        ({"min_solution_len": 5, "max_solution_len": 4}, "min_solution_len=5, max_solution_len=4"),
        ({"max_actions": 4}, "max_solution_len=10 is more than the 4 actions"),
        ({"unsolvable_share": 1.5}, r"unsolvable_share=1\.5"),
        ({"observation_format": "picture"}, "observation_format='picture': use one of grid, coord"),
        ({"vocabulary": "emoji"}, "vocabulary='emoji': use one of default"),
        ({"level_file": "x.txt", "observation_format": "compact"}, "levels of level_file='x.txt' differ in size"),
        ({"level_file": "x.txt", "boxes": 2}, "boxes=2 has no effect because levels come from level_file"),
    ],
)
def test_impossible_options_are_refused_with_their_values(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_env("sokoban", **options)


def test_a_room_that_cannot_be_that_hard_is_one_clear_error() -> None:
    config = _config(height=4, width=4, max_walls=0, min_solution_len=10)
    with pytest.raises(ValueError, match="seed 5: no instance of split 'train' in 2000 attempts"):
        generate(config, 5)


def test_rooms_that_are_too_large_or_too_rare_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="height=1000, width=1000: use 50 or less"):
        SokobanConfig(height=1000, width=1000)
    monkeypatch.setattr("ragen_jax.envs.sokoban.generator._MAX_STATES", 2_000)
    with pytest.raises(ValueError, match=r"no room fits after .* min_solution_len=10 to max_solution_len=10"):
        generate(SokobanConfig(height=3, width=12, max_walls=0, min_solution_len=10), 0)
