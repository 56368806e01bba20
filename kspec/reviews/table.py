"""A review as text, 80 columns wide: sentences, and the figures behind them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kspec.reviews.lines import AccessedLine
from kspec.reviews.summary import summary

if TYPE_CHECKING:
    from kspec.reviews.review import LaunchReview, Review

_MANY_WAITS = 16  # from here on they are worth a line


def table(review: Review) -> str:
    """Return a review as text, with all figures."""
    return "\n\n".join(f"{_sentences(one)}\n\n{_figures(one)}" for one in review.launches)


def sentences(review: Review) -> str:
    """Return sentences on the limit of each launch, and on the way to a faster one."""
    return "\n".join(map(_sentences, review.launches))


def _sentences(one: LaunchReview) -> str:
    return textwrap.fill(summary(one), 80, break_long_words=False, break_on_hyphens=False)


def _figures(one: LaunchReview) -> str:
    return "\n".join(_launch(one))


def row_of(one: LaunchReview) -> list[str | float]:
    """Return a launch in short.

    Kernel, launch, sectors for each needed, most passes of a line for each needed, threads.
    """
    ways = [line.conflict_ways for line in one.lines if line.space == "shared"]
    needed = sum(line.sectors_needed * line.requests for line in one.lines)
    moved = sum(max(1.0, line.sectors_per_request) * line.requests for line in one.lines)
    return [
        one.kernel,
        f"{_shape(one.grid)}, {_shape(one.block)}",
        moved / needed if needed else 1.0,
        max(ways, default=0.0),
        one.warp_efficiency,
    ]


def rows_text(rows: list[list[Any]]) -> str:
    """Return launches as a table, those first that move the most beside their needs."""
    if not rows:
        return "nothing was launched on the host device"
    lines = [f"{'kernel':<40} {'grid, block':<18} {'moved':>5} {'ways':>5} {'threads':>7}"]
    for kernel, launch, moved, ways, threads in sorted(rows, key=lambda row: -row[2]):
        name = kernel if len(kernel) <= 40 else kernel[:39] + "…"
        lines.append(f"{name:<40} {launch:<18} {moved:5.2f} {ways:5.1f} {threads:7.1f}")
    lines.append("moved: sectors for each that is needed; ways: passes of shared memory for each")
    lines.append("that is needed, of the worst line; threads: of 32, in an instruction")
    return "\n".join(lines)


def _launch(one: LaunchReview) -> Iterator[str]:
    yield f"{one.kernel}  grid {_shape(one.grid)}, block {_shape(one.block)}"
    yield _row("line", "access", "requests", "sectors", "used", ["notes"])
    for line in one.lines:
        is_global = line.space == "global"
        yield _row(
            _place(line.file, line.line),
            f"{line.space} {line.kind}",
            str(line.requests),
            f"{line.sectors_per_request:.2f}" if is_global else "",
            f"{line.efficiency:.0%}" if is_global else "",
            [*_notes(line)],
        )
    for branch in one.branches:
        note = f"{branch.diverged:.0%} diverge"
        yield _row(_place(branch.file, branch.line), "branch", str(branch.visits), "", "", [note])
    yield f"{one.warp_efficiency:.1f} of 32 threads take part in an instruction (estimated)"
    for gpu in one.residencies[:1]:
        registers = "unknown" if gpu.registers < 0 else str(gpu.registers)
        filled = (
            f"{gpu.waves:.1f} waves" if gpu.waves >= 1 else f"{100 * gpu.waves:.2g}% of the GPU"
        )
        yield (
            f"{gpu.machine}: {registers} registers, {gpu.shared_bytes} bytes shared, occupancy "
            f"{gpu.occupancy:.0%} ({gpu.limit}), {filled}"
        )
    prediction = one.prediction
    yield (
        f"{prediction.machine}: about {prediction.microseconds:.3g} µs, "
        f"{prediction.of_copy:.2f} of a copy, bound by {prediction.bound} (estimated)"
    )
    if one.waits >= _MANY_WAITS:
        yield f"a warp waits {one.waits:.0f} times for a load before it can make the next"
    if one.sampled < one.blocks:
        yield f"{one.sampled} of {one.blocks} blocks were looked at"
    if one.lost:
        yield f"{one.lost} threads did more than was looked at; the rest is taken to be alike"


def _row(
    place: str, access: str, requests: str, sectors: str, used: str, notes: Sequence[str]
) -> str:
    """Return a row of at most 80 columns; each note after the first is on a line of its own."""
    figures = f"{place:>22} {access:<14} {requests:>9} {sectors:>7} {used:>4}  "
    return f"\n{'':>{len(figures)}}".join([figures + "".join(notes[:1]), *notes[1:]]).rstrip()


def _shape(extents: tuple[int, int, int]) -> str:
    """Return extents as CUDA programmers write them: without ones at the end."""
    kept = max((k + 1 for k, extent in enumerate(extents) if extent > 1), default=1)
    return "x".join(str(extent) for extent in extents[:kept])


def _place(file: str, line: int) -> str:
    place = f"{file}:{line}" if file else "?"
    return place if len(place) <= 22 else "…" + place[-21:]


def note_of(one: AccessedLine) -> str:
    """Return the note on a line, beside its source."""
    sectors = f"{one.sectors_per_request:.1f} sectors" if one.space == "global" else ""
    return ", ".join(filter(None, [f"{one.space} {one.kind}", sectors, *_notes(one)]))


def _notes(one: AccessedLine) -> Iterator[str]:
    if one.space == "shared" and one.conflict_ways > 1.005:
        yield f"{one.conflict_ways:.1f}-way conflicts"
    if one.space == "global" and not one.is_coalesced:
        yield "not coalesced"
    if one.kind == "atomic" and one.contention > 1.005:
        yield f"{one.contention:.1f} threads at one address"
    if one.active < 31.5:
        yield f"{one.active:.0f} threads"
