"""A `Report` as one HTML page that needs nothing else: tables that sort, and plots as SVG.

Here are the numbers and strings, as frozen contexts; the skeleton is ``templates/report.html.j2``.
Same report, same bytes.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from jinja2 import TemplateError

from kspec.build.report.table import Line, Report
from kspec.errors import RenderError
from kspec.render.environment import template_environment

_LABELS = 230  # pixels left of the bars
_BARS = 480
_VALUES = 80  # right of them
_BAR = 9
_GAP = 8
_COLOURS = 6  # that the template has
_FIGURES = ("registers", "spills", "stack", "shared", "bytes")


@dataclass(frozen=True)
class Bar:
    """One rectangle; `tip` is shown when it is pointed at."""

    x: float
    y: float
    width: float
    height: float
    colour: int
    tip: str


@dataclass(frozen=True)
class Label:
    """One text, aligned to its end or its start."""

    x: float
    y: float
    anchor: str
    text: str


@dataclass(frozen=True)
class Chart:
    """Horizontal bars.

    Attributes
    ----------
    title, note : str
        What they show.
    width, height : int
        Of the drawing.
    bars, labels : tuple
        What is drawn.
    ticks : tuple of Label
        Of the axis; each has a line from top to bottom.
    """

    title: str
    note: str
    width: int
    height: int
    bars: tuple[Bar, ...]
    labels: tuple[Label, ...]
    ticks: tuple[Label, ...]


@dataclass(frozen=True)
class Cell:
    """Text of a table cell, and its sort key."""

    text: str
    key: str
    is_number: bool


@dataclass(frozen=True)
class Page:
    """Context of ``report.html.j2``; all text is escaped."""

    title: str
    tiles: tuple[tuple[str, str], ...]
    series: tuple[tuple[int, str], ...]
    charts: tuple[Chart, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def render_page(report: Report, package: str) -> str:
    """Return the page.

    Raises
    ------
    RenderError
        If the template is broken.
    """
    page = page_context(report, package)
    try:
        return template_environment().get_template("report.html.j2").render(page=page)
    except TemplateError as error:
        raise RenderError(f"report.html.j2: {error}") from error


def page_context(report: Report, package: str) -> Page:
    """Return the strings of the page."""
    archs = tuple(arch for arch in report.archs if arch.startswith("sm_"))
    tiles = (
        ("kernels", str(len(report.kernels))),
        ("specializations", str(report.specializations)),
        ("architectures", ", ".join(report.archs)),
        ("code", f"{report.code_bytes / 1024:.1f} KiB"),
        ("spill", str(report.spilling)),
        ("compiler", "; ".join(report.compilers)),
    )
    columns = ("kernel", "specialization", "arch", *_FIGURES, "occupancy", "limited by")
    return Page(
        title=html.escape(f"{package}: what the compiler made"),
        tiles=tuple((name, html.escape(text)) for name, text in tiles),
        series=tuple((k % _COLOURS, html.escape(arch)) for k, arch in enumerate(archs)),
        charts=tuple(_charts(report, archs)),
        columns=columns,
        rows=tuple(tuple(_cells(line)) for line in report.lines),
    )


def _charts(report: Report, archs: Sequence[str]) -> Sequence[Chart]:
    sizes = _by_kernel(report, archs, lambda line: line.number("bytes"), sum)
    registers = _by_kernel(report, archs, lambda line: line.number("registers"), max)
    shares = _by_kernel(report, archs, _percent, min)
    kib = {kernel: {a: n / 1024 for a, n in one.items()} for kernel, one in sizes.items()}
    return (
        _chart("Size", "KiB of code, all specializations together", kib, archs, "KiB"),
        _chart("Registers", "of a thread, the most that a specialization takes", registers, archs),
        _chart(
            "Occupancy", "percent of all warps, the least of its specializations", shares, archs
        ),
    )


def _percent(line: Line) -> float:
    return 100 * line.occupancy.share if line.occupancy else -1


def _by_kernel(
    report: Report,
    archs: Sequence[str],
    value: Callable[[Line], float],
    joined: Callable[[Sequence[float]], float],
) -> dict[str, dict[str, float]]:
    """Return one number for each kernel and architecture, where it is known."""
    found: dict[str, dict[str, list[float]]] = {}
    for line in report.lines:
        if line.arch in archs and value(line) >= 0:
            found.setdefault(line.title, {}).setdefault(line.arch, []).append(value(line))
    return {
        kernel: {arch: joined(numbers) for arch, numbers in one.items()}
        for kernel, one in found.items()
    }


def _chart(
    title: str,
    note: str,
    values: Mapping[str, Mapping[str, float]],
    archs: Sequence[str],
    unit: str = "",
) -> Chart:
    """Return bars for each kernel, one for each architecture."""
    most = max((number for one in values.values() for number in one.values()), default=0)
    step = _step(most)
    top = max(step, -(-most // step) * step)
    bars: list[Bar] = []
    labels: list[Label] = []
    y = 0.0
    for kernel, numbers in values.items():
        middle = y + len(numbers) * _BAR / 2 + 3.5
        labels.append(Label(_LABELS - 8, middle, "end", html.escape(_clipped(kernel))))
        for arch, number in numbers.items():
            width = _BARS * number / top
            tip = html.escape(f"{kernel}, {arch}: {_number(number)} {unit}".rstrip())
            colour = archs.index(arch) % _COLOURS
            bars.append(Bar(_LABELS, round(y, 1), round(width, 1), _BAR - 1, colour, tip))
            y += _BAR
        largest = max(numbers.values())
        end = _LABELS + _BARS * largest / top + 6
        labels.append(Label(round(end, 1), middle, "start", _number(largest)))
        y += _GAP
    ticks = tuple(
        Label(round(_LABELS + _BARS * k * step / top, 1), y + 12, "middle", _number(k * step))
        for k in range(round(top / step) + 1)
    )
    width = _LABELS + _BARS + _VALUES
    return Chart(title, note, width, round(y + 18), tuple(bars), tuple(labels), ticks)


def _step(most: float) -> float:
    """Return a distance of ticks, 1, 2 or 5 times a power of ten, of which five reach `most`."""
    if most <= 0:
        return 1.0
    power: float = 10.0 ** math.floor(math.log10(most / 5))
    return next(factor * power for factor in (1, 2, 5, 10) if 5 * factor * power >= most)


def _number(number: float) -> str:
    return f"{number:.0f}" if number >= 10 or number == int(number) else f"{number:.1f}"


def _clipped(name: str, most: int = 36) -> str:
    return name if len(name) <= most else f"{name[: most - 3]}..."


def _cells(line: Line) -> Sequence[Cell]:
    texts = [line.title, line.short_name, line.arch]
    cells = [Cell(html.escape(text), html.escape(text), False) for text in texts]
    for key in _FIGURES:
        number = line.number(key)
        cells.append(Cell(str(number) if number >= 0 else "", str(number), True))
    share = line.occupancy.share if line.occupancy else -1
    cells.append(Cell(f"{share:.0%}" if line.occupancy else "", f"{share:.4f}", True))
    limit = line.occupancy.limit if line.occupancy else ""
    return [*cells, Cell(limit, limit, False)]
