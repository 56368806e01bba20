"""The picture of README: a few rows of RESULTS.md side by side.

``python -m benchmarks.summary`` draws ``plots/summary.svg``.  It measures nothing, so the picture
says what the page says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.plots import COLOURS, prepare

HERE = Path(__file__).parent
PICTURE = HERE / "plots" / "summary.svg"
_COPY = re.compile(r"^A copy on the device moves ([\d.]+) TB/s", re.MULTILINE)
_SECTION = re.compile(r"^##? (.+)$", re.MULTILINE)

# Section of the page, its row, and what the picture calls it.
_BANDWIDTH = (
    ("Elementwise", "f32 contiguous", "float32"),
    ("Elementwise", "f16 contiguous", "float16"),
    ("Elementwise", "row broadcast", "row broadcast"),
    ("Elementwise", "x.T + y", "x.T + y"),
    ("Reductions", "axis 1 of a square", "sums of rows"),
    ("Reductions", "axis 1 of (n,100)", "sums of 100"),
    ("Reductions", "axis 0 of (4M,64)", "sums of columns"),
    ("Fused functions, beside torch.compile and CuPy's fuse", "softmax", "softmax (fuse)"),
)
_CALLS = (
    ("Call overhead, 1000 elements", "output given", "elementwise"),
    ("Call overhead, 1000 elements", "generated function, given", "generated"),
    ("Call overhead, 1000 elements", "reduction, axis 1", "reduction"),
    ("Call overhead, 1000 elements", "raw, arguments made", "raw"),
    ("Call overhead, 1000 elements", "fused", "fused"),
)
_STARTS = (
    ("generated package", "", "precompiled"),
    ("lazy, warm cache", "CuPy, warm cache", "cached"),
    ("lazy, empty cache", "CuPy, empty cache", "compiled"),
)


class Panel(NamedTuple):
    """Bars of a part of the picture.

    Attributes
    ----------
    title, unit : str
        What is shown.
    names : tuple of str
        Of the groups of bars.
    values : mapping of str to tuple of float or None
        Of each library, one for each group; None where there is none.
    """

    title: str
    unit: str
    names: tuple[str, ...]
    values: Mapping[str, tuple[float | None, ...]]


def tables(text: str) -> dict[str, dict[str, dict[str, str]]]:
    """Return the tables of the page: cells by section, row and column."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    heads = list(_SECTION.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    for head, end in zip(heads, ends, strict=True):
        lines = [line for line in text[head.end() : end].splitlines() if line.startswith("|")]
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
        if len(rows) > 2:
            columns = rows[0][1:]
            found.setdefault(
                head[1], {row[0]: dict(zip(columns, row[1:], strict=False)) for row in rows[2:]}
            )
    return found


def panels(text: str) -> tuple[Panel, ...]:
    """Return the panels for the text of RESULTS.md.

    Raises
    ------
    KeyError
        If a row of the picture is not in the page.
    """
    page, copy = tables(text), _COPY.search(text)
    assert copy is not None
    bandwidths = [page[section][row] for section, row, _ in _BANDWIDTH]
    moved = {"kspec": "kspec TB/s", "CuPy": "CuPy", "torch": "torch"}
    calls = [page[section][row] for section, row, _ in _CALLS]
    took = {"kspec": "kspec µs", "CuPy": "CuPy", "torch": "torch"}
    starts = next(table for name, table in page.items() if name.startswith("Cold start"))
    return (
        Panel(
            "Bandwidth",
            "of a device copy",
            tuple(name for _, _, name in _BANDWIDTH),
            {who: _numbers(bandwidths, column, float(copy[1])) for who, column in moved.items()},
        ),
        Panel(
            "Cost of a call",
            "µs",
            tuple(name for _, _, name in _CALLS),
            {who: _numbers(calls, column, 1.0) for who, column in took.items()},
        ),
        Panel(
            "First results",
            "s from the start of Python",
            tuple(name for _, _, name in _STARTS),
            {
                "kspec": tuple(_number(starts[row]["measured"]) for row, _, _ in _STARTS),
                "CuPy": tuple(
                    _number(starts[row]["measured"]) if row else None for _, row, _ in _STARTS
                ),
            },
        ),
    )


def _numbers(
    rows: Sequence[Mapping[str, str]], column: str, unit: float
) -> tuple[float | None, ...]:
    found = [_number(row[column]) for row in rows]
    return tuple(None if one is None else one / unit for one in found)


def _number(cell: str) -> float | None:
    match = re.match(r"[\d.]+", cell)
    return float(match[0]) if match else None


def draw(parts: Sequence[Panel], path: Path) -> None:
    """Draw the picture."""
    pyplot = prepare()
    figure, axes = pyplot.subplots(
        1, len(parts), figsize=(11, 3.6), width_ratios=[len(one.names) + 1 for one in parts]
    )
    for one, area in zip(parts, axes, strict=True):
        _draw_panel(area, one)
    axes[0].axhline(1, color="black", linewidth=0.8, linestyle="--")
    figure.tight_layout(rect=(0, 0, 1, 0.93))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="upper center", ncols=3, fontsize=9)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _draw_panel(area: Any, panel: Panel) -> None:
    width = 0.8 / len(panel.values)
    for place, (who, values) in enumerate(panel.values.items()):
        shown = [(k, value) for k, value in enumerate(values) if value is not None]
        area.bar(
            [k + (place - (len(panel.values) - 1) / 2) * width for k, _ in shown],
            [value for _, value in shown],
            width,
            label=who,
            color=COLOURS[who],
        )
    area.set_title(panel.title, fontsize=10)
    area.set_ylabel(panel.unit, fontsize=9)
    area.set_xticks(range(len(panel.names)), panel.names, rotation=35, ha="right", fontsize=8)
    area.tick_params(axis="y", labelsize=8)
    for side in ("top", "right"):
        area.spines[side].set_visible(False)


if __name__ == "__main__":
    draw(panels((HERE / "RESULTS.md").read_text(encoding="utf-8")), PICTURE)
