"""Results as pictures, PNG and SVG: bandwidth by case, overhead by call, roofline.

matplotlib is imported when something is drawn, so that runs without it lose the pictures only.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.results import Overhead, Results, Throughput, fraction

# A palette that stays apart for colour-blind readers (Okabe and Ito).
COLOURS = {
    "kspec": "#0072B2",
    "CuPy": "#E69F00",
    "torch": "#D55E00",
    "NumPy": "#E69F00",
    "numba": "#009E73",
    "JAX": "#CC79A7",
    "floor": "#999999",
}
_MARKERS = {"CuPy": "o", "torch": "D", "NumPy": "o"}


def prepare() -> Any:
    """Return matplotlib's functions, set so that the same results make the same files."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "kspec"
    matplotlib.rcParams["svg.fonttype"] = "none"
    return importlib.import_module("matplotlib.pyplot")


def draw_plots(results: Results, folder: Path) -> list[Path]:
    """Draw what the results allow.

    Parameters
    ----------
    results : Results
        A run, complete or not.
    folder : Path
        Where to write; it is made.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    ModuleNotFoundError
        If there is no matplotlib.
    """
    prepare()
    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for group in ("elementwise", "reduction"):
        rows = [row for row in results.throughput if row.group == group and row.bandwidth()]
        if rows:
            paths += _save(_bandwidths(results, group, rows), folder / f"bandwidth-{group}")
    calls = [row for row in results.overhead if row.samples]
    if calls:
        paths += _save(_overheads(results, calls), folder / "overhead")
    shipped = [row for row in results.throughput if row.group == "shipped" and row.bandwidth()]
    if shipped:
        paths += _save(_roofline(results, shipped), folder / "roofline")
    return paths


def _save(figure: Any, stem: Path) -> list[Path]:
    import matplotlib.pyplot as plt

    paths = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    figure.savefig(paths[0], dpi=150)
    figure.savefig(paths[1], metadata={"Date": None})
    plt.close(figure)
    return paths


def _bandwidths(results: Results, group: str, rows: Sequence[Throughput]) -> Any:
    import matplotlib.pyplot as plt

    parts = {
        "tuned shapes": [row for row in rows if not row.held_out],
        "held-out shapes": [row for row in rows if row.held_out],
    }
    parts = {title: part for title, part in parts.items() if part}
    longest = max(map(len, parts.values()))
    figure, columns = plt.subplots(
        ncols=len(parts),
        figsize=(6.5 * len(parts), 1.4 + 0.17 * longest),
        sharex=True,
        squeeze=False,
        layout="constrained",
    )
    for axes, (title, part) in zip(columns[0], parts.items(), strict=True):
        _bars(axes, results, part)
        axes.set_ylim(longest - 0.4, -0.6)
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("bandwidth, in units of a copy on the device", fontsize=9)
    columns[0][0].set_xlim(left=0)  # of all: when every point is there
    figure.suptitle(f"{results.name}: {group} kernels")
    handles = {
        label: handle
        for axes in columns[0]
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(), handles, loc="outside lower center", ncols=6, fontsize=8, frameon=False
    )
    return figure


def _bars(axes: Any, results: Results, rows: Sequence[Throughput]) -> None:
    places = range(len(rows))
    shares = [fraction(results, row, "copy") or 0.0 for row in rows]
    axes.barh(places, shares, color=COLOURS["kspec"], height=0.7, label="kspec")
    for peer, marker in _MARKERS.items():
        points = [
            (value / results.copy_bandwidth, place)
            for place, row in zip(places, rows, strict=True)
            if (value := row.bandwidth(peer)) and results.copy_bandwidth
        ]
        if points:
            x, y = zip(*points, strict=True)
            axes.plot(x, y, marker, color=COLOURS[peer], markersize=4, label=peer)
    targets = [
        (row.target, place)
        for place, row in zip(places, rows, strict=True)
        if row.target is not None and row.of == "copy"
    ]
    if targets:
        x, y = zip(*targets, strict=True)
        axes.plot(x, y, "|", color="black", markersize=9, label="target")
    axes.axvline(1, color="black", linewidth=0.8, linestyle="--", label="copy")
    axes.set_yticks(places, [row.name for row in rows], fontsize=7)


def _overheads(results: Results, rows: Sequence[Overhead]) -> Any:
    import matplotlib.pyplot as plt

    bars = [[name for name in COLOURS if name in row.samples] for row in rows]
    height = 0.8 / max(map(len, bars))
    figure, axes = plt.subplots(figsize=(8, 1.2 + 0.3 * len(rows)), layout="constrained")
    for name in COLOURS:
        points = [
            (
                place + (own.index(name) - (len(own) - 1) / 2) * height,
                1e6 * row.samples[name].median,
            )
            for place, (row, own) in enumerate(zip(rows, bars, strict=True))
            if name in own
        ]
        if not points:
            continue
        y, x = zip(*points, strict=True)
        axes.barh(y, x, height=height, color=COLOURS[name], label=name)
    axes.set_yticks(range(len(rows)), [row.name for row in rows], fontsize=7)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel("microseconds per call, median of bursts")
    axes.set_title(f"{results.name}: calls with 1000 elements")
    axes.legend(fontsize=7, frameon=False)
    return figure


def _roofline(results: Results, rows: Sequence[Throughput]) -> Any:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    points = [
        (
            row.flops * row.elements / row.nbytes,
            row.flops * row.elements / row.samples["kspec"].median,
        )
        for row in rows
    ]
    low, high = min(x for x, _ in points) / 2, max(x for x, _ in points) * 4
    if results.copy_bandwidth:
        if results.peak_flops:
            high = max(high, 2 * results.peak_flops / results.copy_bandwidth)
            axes.axhline(results.peak_flops, color="grey", label="float32 peak")
        ends = (low, high)
        axes.plot(
            ends,
            [results.copy_bandwidth * x for x in ends],
            color="black",
            label="bandwidth of the copy",
        )
    for row, (x, y), number in zip(rows, points, range(len(rows)), strict=True):
        marker = "os^vD<>phXP*"[number % 12]
        axes.plot([x], [y], marker, markersize=6, label=row.name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("operations per byte moved")
    axes.set_ylabel("operations per second")
    axes.set_title(f"{results.name}: the shipped kernels")
    axes.legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure
