"""Options of the Sokoban environment."""

from __future__ import annotations

import dataclasses

from ragen_jax.envs.base import EnvConfig
from ragen_jax.envs.options import refuse_changed
from ragen_jax.envs.sokoban import views

MAX_SIDE = 50
_GENERATOR_OPTIONS = (
    "height",
    "width",
    "boxes",
    "min_walls",
    "max_walls",
    "min_solution_len",
    "max_solution_len",
    "unsolvable_share",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SokobanConfig(EnvConfig):
    """Options of Sokoban. Generated rooms are solvable and never solved at the start.

    Attributes:
      height: rows, the walls around included; at most 50.
      width: columns, the walls around included; at most 50.
      boxes: boxes, and targets.
      min_walls: fewest inner walls; the number is drawn uniformly.
      max_walls: most inner walls.
      min_solution_len: shortest optimal solution; difficulty bands are 1-2, 3-5 and 6-10.
      max_solution_len: longest optimal solution.
      unsolvable_share: share of the instances, validation excepted, that no play solves within the action budget. Their
        returns barely differ within a group: they are natural prompts without a signal.
      level_file: file of levels in the usual text notation, instead of generated rooms; a path, or a path below the
        folder that the environment variable RAGEN_DATA_DIR names, or below the cache.
      observation_format: "grid" (symbols), "coord" (coordinates), "grid_coord" (both), or "compact" (one short line;
        after the first turn only what moves).
      vocabulary: symbols of the grid: "default", "ascii" (as the default, in plain ASCII) or "letters".
      render_images: draw each observation as an image too, 16 pixels a cell.
      end_on_deadlock: end the episode as failed when a box is stuck in a corner off target.
    """

    height: int = 6
    width: int = 6
    boxes: int = 1
    min_walls: int = 0
    max_walls: int = 4
    min_solution_len: int = 1
    max_solution_len: int = 10
    unsolvable_share: float = 0.0
    level_file: str = ""
    observation_format: str = "grid"
    vocabulary: str = "default"
    render_images: bool = False
    end_on_deadlock: bool = False

    @property
    def action_budget(self) -> int:
        """Most actions that an episode can hold."""
        return min(self.max_actions, self.max_turns * self.max_actions_per_turn)

    def __post_init__(self) -> None:
        """Refuse rooms that cannot exist and options that contradict each other."""
        super().__post_init__()
        if self.observation_format not in views.FORMATS:
            raise ValueError(f"observation_format={self.observation_format!r}: use one of {', '.join(views.FORMATS)}")
        if self.vocabulary not in views.VOCABULARIES:
            raise ValueError(f"vocabulary={self.vocabulary!r}: use one of {', '.join(views.VOCABULARIES)}")
        if "grid" not in self.observation_format:
            drawn = f"observation_format={self.observation_format!r} draws no grid"
            refuse_changed(self, ("vocabulary",), because=drawn)
        if self.level_file:
            refuse_changed(self, _GENERATOR_OPTIONS, because="levels come from level_file")
            if self.observation_format == "compact":
                raise ValueError(
                    "observation_format='compact' leaves the size of the board to the instructions, but levels of "
                    f"level_file={self.level_file!r} differ in size: use 'grid', 'coord' or 'grid_coord'"
                )
            return
        if self.height < 3 or self.width < 3:
            raise ValueError(f"height={self.height}, width={self.width}: use 3 or more, the outer ring is wall")
        if max(self.height, self.width) > MAX_SIDE:
            raise ValueError(
                f"height={self.height}, width={self.width}: use {MAX_SIDE} or less; larger rooms take too long to draw"
            )
        if self.boxes < 1:
            raise ValueError(f"boxes={self.boxes}: use 1 or more")
        if not 0 <= self.min_walls <= self.max_walls:
            raise ValueError(f"min_walls={self.min_walls}, max_walls={self.max_walls}: use 0 <= min_walls <= max_walls")
        inner = (self.height - 2) * (self.width - 2)
        needed = self.max_walls + 2 * self.boxes + 1
        if inner < needed:
            raise ValueError(
                f"a room of {self.height}x{self.width} has {inner} inner cells, but max_walls={self.max_walls} and "
                f"boxes={self.boxes} need {needed} (walls, boxes, targets, player): enlarge the room or lower those"
            )
        if not 1 <= self.min_solution_len <= self.max_solution_len:
            raise ValueError(
                f"min_solution_len={self.min_solution_len}, max_solution_len={self.max_solution_len}: "
                "use 1 <= min_solution_len <= max_solution_len"
            )
        if self.max_solution_len > self.action_budget:
            raise ValueError(
                f"max_solution_len={self.max_solution_len} is more than the {self.action_budget} actions of an episode "
                "(max_actions, or max_turns * max_actions_per_turn): lower it or allow more actions"
            )
        if not 0.0 <= self.unsolvable_share <= 1.0:
            raise ValueError(f"unsolvable_share={self.unsolvable_share}: use 0 to 1")
