"""A `Difference` as text of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from kspec.build.report.changes import ReviewChange
from kspec.build.report.diff import Difference, FigureChange
from kspec.build.report.saved import FIGURES as REVIEW_FIGURES
from kspec.build.report.table import short_name
from kspec.build.report.view import FIGURES, figure_table

_STYLES = {"+": "green", "-": "red"}
# Titles of the columns; each figure has one.
_TITLES = {
    "sectors_per_request": "sectors",
    "conflicts": "conflicts",
    "warp_efficiency": "active",
    "microseconds": "µs",
    "of_copy": "of copy",
}


def difference_view(found: Difference, with_text: bool = True) -> Iterator[RenderableType]:
    """Yield the parts to print, from the signatures to the CUDA text."""
    yield Text(f"{found.before.title} .. {found.after.title}", style="bold")
    if found.is_empty:
        yield Text("nothing has changed")
        return
    old, new = ("; ".join(one) or "none" for one in found.compilers)
    if old != new:
        yield Text(f"\ncompiler: {new}; before: {old}")
    if found.signatures:
        yield Text("\nsignatures")
        for one in found.signatures:
            yield from _changed(one.kernel, [one.before] * bool(one.before), "-")
            yield from _changed(one.kernel, [one.after] * bool(one.after), "+")
    if found.coverage or found.archs_added or found.archs_removed:
        yield Text("\ncoverage")
        yield from _changed("architecture", found.archs_removed, "-")
        yield from _changed("architecture", found.archs_added, "+")
    for change in found.coverage:
        kernel = change.kernel.partition(".")[2]
        yield from _changed(change.kernel, [short_name(kernel, x) for x in change.removed], "-")
        yield from _changed(change.kernel, [short_name(kernel, x) for x in change.added], "+")
    if found.figures:
        yield Text("\nfigures, and how much they have grown")
        yield _table(found.figures)
    if found.reviews:
        yield Text("\nreviews, and how their figures have changed")
        yield _review_table(found.reviews)
    for text in found.texts if with_text else ():
        yield Text()
        yield from map(_diff_line, text.diff.splitlines())


def _changed(kernel: str, texts: tuple[str, ...] | list[str], sign: str) -> Iterator[Text]:
    for text in texts:
        yield Text(f"  {sign} {kernel}: {text}", style=_STYLES[sign])


def _table(changes: tuple[FigureChange, ...]) -> Table:
    table = figure_table()
    kernel, name = "", ""
    for one in changes:
        if one.kernel != kernel:
            table.add_row(Text(one.kernel, style="bold"))
            kernel, name = one.kernel, ""
        shown = short_name(kernel.partition(".")[2], one.name) if one.name != name else ""
        name = one.name
        table.add_row(Text(f"  {shown}"), one.arch, *(_figure(one, key) for key in FIGURES))
    return table


def _figure(change: FigureChange, key: str) -> Text:
    """Return the value of a figure, and its change."""
    number, delta = change.after.get(key, -1), change.delta(key)
    text = Text(str(number) if number >= 0 else "-")
    if delta:
        text.append(f" {delta:+}", style="red" if delta > 0 else "green")
    return text


def _review_table(changes: tuple[ReviewChange, ...]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("kernel, call", overflow="fold", ratio=1)
    for key in REVIEW_FIGURES:
        table.add_column(_TITLES[key], justify="right", no_wrap=True)
    kernel = ""
    for one in changes:
        if one.kernel != kernel:
            table.add_row(Text(one.kernel, style="bold"))
            kernel = one.kernel
        call = f"  {', '.join(one.arguments)} on {one.gpu}"
        table.add_row(Text(call), *(_review_figure(one, key) for key in REVIEW_FIGURES))
    return table


def _review_figure(change: ReviewChange, key: str) -> Text:
    """Return the value of a figure, and its change; in red if that is for the worse."""
    text = Text(f"{change.after[key]:g}")
    delta = change.delta(key)
    if delta:
        text.append(f" {delta:+g}", style="red" if change.is_worse(key) else "green")
    return text


def _diff_line(line: str) -> Text:
    is_head = line.startswith(("+++", "---"))
    return Text(line, style="bold" if is_head else _STYLES.get(line[:1], ""), overflow="ignore")
