"""Pictures of runs. Needs matplotlib (extra ``report``); draws without a display."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

Row = Mapping[str, Any]
Run = Sequence[Row]

# Okabe and Ito's palette: distinct under the common forms of colour blindness. Markers differ as well.
_STYLES = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D"), ("#E69F00", "v"), ("#56B4E9", "P"))
_GREY = "#666666"


@dataclasses.dataclass(frozen=True)
class _Panel:
    title: str
    unit: str
    batch: str
    validation: str
    ceiling: str = ""  # metric name behind the family of ``validation`` and ``batch``
    is_share: bool = False


_PANELS = (
    _Panel("Success", "share of episodes", "rollout/success", "validation/success", is_share=True),
    _Panel(
        "Mutual information of prompt and reasoning",
        "nats per sequence",
        "collapse/first_turn/mi_sequence_nats",
        "validation/collapse/mi_sequence_nats",
        ceiling="mi_sequence_ceiling_nats",
    ),
    _Panel(
        "Entropy of reasoning given its prompt, H(Z|X)",
        "nats per token",
        "collapse/first_turn/conditional_entropy_token_nats",
        "validation/collapse/conditional_entropy_token_nats",
    ),
    _Panel("Well-formed replies", "share of turns", "rollout/valid_format", "validation/valid_format", is_share=True),
)


def arms_figure(arms: Mapping[str, Sequence[Run]], path: str | os.PathLike[str], title: str) -> None:
    """Draw success, mutual information, entropy and validity over steps, one colour per arm, as a PNG.

    Marked points are measured on the fixed validation prompts; thin lines are training batches. Mutual information has
    a ceiling that depends on the number of prompts, so its panel shows one of the two: validation where measured.
    Several runs of an arm are drawn as their mean, with a band from the lowest to the highest.

    Args:
      arms: name of the arm -> its runs, one per seed; a run is the rows of its ``metrics.jsonl``.
      path: the PNG file.
      title: headline of the picture.

    Raises:
      ValueError: no arm, more arms than the palette has colours, or an arm without rows.
      ImportError: matplotlib is missing.
    """
    if not 1 <= len(arms) <= len(_STYLES):
        raise ValueError(f"{len(arms)} arms: draw 1 to {len(_STYLES)}")
    for name, runs in arms.items():
        if not runs or any(not run for run in runs):
            raise ValueError(f"arm {name!r} has no metric rows: nothing to draw")
    figure_module = _matplotlib()
    figure = figure_module.Figure(figsize=(10, 6.4), dpi=130, layout="constrained")
    axes = figure.subplots(2, 2, sharex=True).ravel()
    for axis, panel in zip(axes, _PANELS, strict=True):
        _draw_panel(axis, panel, arms)
    for axis in axes[2:]:
        axis.set_xlabel("training step")
    handles, labels = axes[0].get_legend_handles_labels()
    # The headline is the legend's title, so that the layout keeps the two apart.
    legend = figure.legend(handles, labels, loc="outside upper center", ncols=len(arms), frameon=False, fontsize=10.5)
    legend.set_title(title, prop={"size": 13, "weight": "bold"})
    figure.supxlabel(_caption(arms), fontsize=8, color=_GREY)
    figure.savefig(Path(path), format="png")


def _matplotlib() -> ModuleType:
    try:
        import matplotlib.figure
    except ImportError as error:
        raise ImportError("pictures need matplotlib: install it with pip install 'ragen_jax[report]'") from error
    return matplotlib.figure


def _draw_panel(axis: Any, panel: _Panel, arms: Mapping[str, Sequence[Run]]) -> None:
    validated = any(panel.validation in row for runs in arms.values() for run in runs for row in run)
    for (name, runs), (colour, marker) in zip(arms.items(), _STYLES, strict=False):
        # The named artist makes the legend, also when the panel has no data for this arm.
        axis.plot([], [], color=colour, marker=marker, markersize=5, label=name)
        if not (validated and panel.ceiling):
            steps, low, mean, high = _band(runs, panel.batch)
            axis.plot(steps, mean, color=colour, linewidth=0.9 if validated else 1.6, alpha=0.5 if validated else 1)
            if not validated:
                axis.fill_between(steps, low, high, color=colour, alpha=0.18, linewidth=0)
        steps, low, mean, high = _band(runs, panel.validation)
        axis.plot(steps, mean, color=colour, marker=marker, markersize=4.5, linewidth=1.8)
        axis.fill_between(steps, low, high, color=colour, alpha=0.18, linewidth=0)
    if panel.ceiling:
        _draw_ceiling(axis, panel, arms, validated)
    axis.set_title(panel.title, fontsize=10.5, loc="left")
    axis.set_ylabel(panel.unit, fontsize=9)
    axis.tick_params(labelsize=8.5)
    axis.grid(alpha=0.25, linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)
    axis.margins(x=0.02)
    if panel.is_share:
        axis.set_ylim(-0.02, 1.02)
    else:
        axis.set_ylim(bottom=min(0.0, axis.get_ylim()[0]), top=axis.get_ylim()[1] * 1.06)


def _draw_ceiling(axis: Any, panel: _Panel, arms: Mapping[str, Sequence[Run]], validated: bool) -> None:
    family = (panel.validation if validated else panel.batch).rsplit("/", 1)[0]
    rows = (row for runs in arms.values() for run in runs for row in run)
    values = [v for row in rows if (v := row.get(f"{family}/{panel.ceiling}")) is not None]
    if values:
        axis.axhline(max(values), color=_GREY, linestyle="--", linewidth=1)
        axis.annotate(
            f"ceiling {max(values):.2f}",
            (1, max(values)),
            xycoords=("axes fraction", "data"),
            xytext=(-2, 2),
            textcoords="offset points",
            ha="right",
            va="bottom",
            fontsize=8,
            color=_GREY,
        )


def _band(runs: Sequence[Run], name: str) -> tuple[list[int], list[float], list[float], list[float]]:
    """Steps, and the lowest, mean and highest value of the runs at each; what is not finite is left out."""
    at_step: dict[int, list[float]] = {}
    for step, value in _points(runs, name):
        at_step.setdefault(step, []).append(value)
    steps = sorted(at_step)
    columns = [at_step[step] for step in steps]
    return steps, [min(c) for c in columns], [sum(c) / len(c) for c in columns], [max(c) for c in columns]


def _points(runs: Sequence[Run], name: str) -> Iterator[tuple[int, float]]:
    for run in runs:
        for row in run:
            if row.get(name) is not None:
                yield row["step"], row[name]


def _caption(arms: Mapping[str, Sequence[Run]]) -> str:
    seeds = max(len(runs) for runs in arms.values())
    caption = "marked points: fixed validation prompts · thin lines: training batches"
    return caption if seeds == 1 else f"{caption} · mean of {seeds} seeds, band from the lowest to the highest"
