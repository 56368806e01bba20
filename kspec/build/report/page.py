"""A `Report` as one HTML page that needs nothing else: tables that sort, and bars.

Here are the numbers and strings, as frozen contexts; the skeleton is ``templates/report.html.j2``.
Same report, same bytes.

Bars are elements with a width, not pictures of a plotting library: authors need no such library to
build, the bytes do not depend on its version, names can be selected and searched, colours follow
the reader's scheme, and a phone has room for them.  matplotlib draws the measurements of
``benchmarks``, which have axes with scales.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kspec.build.report.heat import HeatSection
from kspec.build.report.table import Line, Report
from kspec.dataclass import dataclass
from kspec.render.environment import render_template
from kspec.reviews.heat import HEAT_STYLE

_COLOURS = 6  # that the template has
_FIGURES = ("registers", "spills", "stack", "shared", "bytes")


@dataclass(frozen=True)
class Bar:
    """The number of a kernel for one architecture: its text, and its part of the longest bar."""

    arch: str
    colour: int
    percent: str
    text: str


@dataclass(frozen=True)
class Chart:
    """Bars of each kernel, by its name."""

    title: str
    note: str
    kernels: tuple[tuple[str, tuple[Bar, ...]], ...]


@dataclass(frozen=True)
class Cell:
    """Text of a table cell, and its sort key."""

    text: str
    key: str
    is_number: bool


@dataclass(frozen=True)
class ReportPage:
    """Context of ``report.html.j2``."""

    title: str
    tiles: tuple[tuple[str, str], ...]
    charts: tuple[Chart, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    heat_style: str = HEAT_STYLE
    reviews: tuple[tuple[str, str, str], ...] = ()


def render_page(report: Report, package: str, reviews: Sequence[HeatSection] = ()) -> str:
    """Return the page, with the source of reviewed kernels below the tables.

    Raises
    ------
    RenderError
        If the template is broken.
    """
    return render_template("report.html.j2", {"page": page_context(report, package, reviews)})


def page_context(report: Report, package: str, reviews: Sequence[HeatSection] = ()) -> ReportPage:
    """Return the strings of the page."""
    return ReportPage(
        title=f"{package}: what the compiler made",
        tiles=(
            ("kernels", str(len(report.kernels))),
            ("specializations", str(report.specializations)),
            ("architectures", ", ".join(report.archs)),
            ("code", f"{report.code_bytes / 1024:.1f} KiB"),
            ("spill", str(report.spilling)),
            ("compiler", "; ".join(report.compilers)),
        ),
        charts=(
            _chart(report, "Size", "KiB of code, all specializations together", _kib, sum),
            _chart(
                report,
                "Registers",
                "of a thread, the most that a specialization takes",
                lambda line: line.number("registers"),
                max,
            ),
            _chart(
                report,
                "Occupancy",
                "percent of all warps, the least of its specializations",
                lambda line: 100 * line.occupancy.share if line.occupancy else -1,
                min,
            ),
        ),
        columns=("kernel", "specialization", "arch", *_FIGURES, "occupancy", "limited by"),
        rows=tuple(tuple(_cells(line)) for line in report.lines),
        reviews=tuple((one.title, one.note, one.tables) for one in reviews),
    )


def _kib(line: Line) -> float:
    return line.number("bytes") / 1024


def _chart(
    report: Report,
    title: str,
    note: str,
    value: Callable[[Line], float],
    joined: Callable[[Sequence[float]], float],
) -> Chart:
    """Return bars for each kernel, one for each architecture whose number is known."""
    archs = [arch for arch in report.archs if arch.startswith("sm_")]
    found: dict[tuple[str, str], list[float]] = {}
    for line in report.lines:
        if line.arch in archs and value(line) >= 0:
            found.setdefault((line.title, line.arch), []).append(value(line))
    numbers = {place: joined(values) for place, values in found.items()}
    most = max(numbers.values(), default=0) or 1
    bars: dict[str, tuple[Bar, ...]] = {}
    for (kernel, arch), number in numbers.items():
        colour = archs.index(arch) % _COLOURS
        bar = Bar(arch, colour, f"{100 * number / most:.1f}", _number(number))
        bars[kernel] = (*bars.get(kernel, ()), bar)
    return Chart(title, note, tuple(bars.items()))


def _number(number: float) -> str:
    return f"{number:.0f}" if number >= 10 or number == int(number) else f"{number:.1f}"


def _cells(line: Line) -> Iterator[Cell]:
    for text in (line.title, line.short_name, line.arch):
        yield Cell(text, text, False)
    for key in _FIGURES:
        number = line.number(key)
        yield Cell(str(number) if number >= 0 else "", str(number), True)
    found = line.occupancy
    yield Cell(f"{found.share:.0%}" if found else "", f"{found.share if found else -1:.4f}", True)
    yield Cell(found.limit if found else "", found.limit if found else "", False)
