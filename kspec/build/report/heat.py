"""Saved reviews in, sections of the page of `kspec report --html` out: the source with its heat.

Nothing runs: ``kspec.lock`` has the lines, and the project their text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from kspec.build.plan import BuildPlan
from kspec.build.report.lock import Lock, LockedKernel
from kspec.build.report.saved import SavedLine, SavedReview
from kspec.compiler.headers import package_include_dir
from kspec.dataclass import dataclass
from kspec.files import is_file, resolved
from kspec.reviews.heat import HeatLine, heat_tables

_PASS = 4  # sectors


@dataclass(frozen=True)
class HeatSection:
    """One reviewed call: its name and figures as text, and its source as HTML."""

    title: str
    note: str
    tables: str


def heat_sections(plan: BuildPlan, lock: Lock, kernels: Collection[str]) -> tuple[HeatSection, ...]:
    """Return a section for each saved review of some kernels, with their module.

    Reviews of another source than the lock has are left out.
    """
    return tuple(
        _section(plan, kernel, one)
        for kernel in lock.kernels
        if f"{kernel.module}.{kernel.name}" in kernels
        for one in kernel.reviews
        if one.is_of(kernel.source)
    )


def _section(plan: BuildPlan, kernel: LockedKernel, one: SavedReview) -> HeatSection:
    files = dict.fromkeys(line.file for line in one.lines if line.file)
    sources = {file: text for file in files if (text := _text(plan, file))}
    lines = [found for line in one.lines for found in _found(line, sources.get(line.file, ()))]
    return HeatSection(
        f"{kernel.module}.{kernel.name}({', '.join(one.arguments)})",
        _note(one),
        "\n".join(heat_tables(kernel.name, lines, sources, "h3")),
    )


def _note(one: SavedReview) -> str:
    figures = one.figures
    parts = [
        f"{figures['sectors_per_request']:g} sectors per request of the worst line",
        f"{figures['conflicts']:g} extra passes for bank conflicts",
        f"{figures['warp_efficiency']:g} of 32 threads active",
        f"about {figures['microseconds']:g} µs on {one.gpu}, {figures['of_copy']:g} of a copy",
    ]
    return ", ".join(parts)


def _text(plan: BuildPlan, name: str) -> Sequence[str]:
    """Return the lines of a header of kspec, or of a file of the project or its package."""
    settings = plan.settings
    for root in (package_include_dir(), settings.project, settings.package_folder):
        path = root / name
        if is_file(path) and resolved(path).is_relative_to(resolved(root)):
            return path.read_text(encoding="utf-8", errors="replace").splitlines()
    return ()


def _found(line: SavedLine, text: Sequence[str]) -> Iterator[HeatLine]:
    """Yield a line where it is now: the nearest one of its text, if it has moved."""
    places = [
        number for number, own in enumerate(text, 1) if not line.text or own.strip() == line.text
    ]
    number = min(places, key=lambda number: abs(number - line.line), default=0)
    if number:
        passes = max(line.requests * line.sectors_per_request / _PASS, line.requests)
        yield HeatLine(line.file, number, passes + line.requests * line.conflicts, line.note)
