"""A review as text, 80 columns wide."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kspec.reviews.lines import AccessedLine

if TYPE_CHECKING:
    from kspec.reviews.review import LaunchReview, Review

_WIDTH = 80
_HEAD = f"{'line':>24} {'access':<15} {'requests':>10} {'sectors':>7} {'used':>5}  notes"


def table(review: Review) -> str:
    """Return a review as text."""
    return "\n\n".join("\n".join(_launch(one)) for one in review.launches)


def row_of(one: LaunchReview) -> list[str | float]:
    """Return a launch in short.

    Kernel, launch, sectors of those needed, most sectors and passes of a line, threads, time.
    """
    sectors = [line.sectors_per_request for line in one.lines if line.space == "global"]
    ways = [line.conflict_ways for line in one.lines if line.space == "shared"]
    needed = sum(line.sectors_needed * line.requests for line in one.lines)
    moved = sum(max(1.0, line.sectors_per_request) * line.requests for line in one.lines)
    return [
        one.kernel,
        f"{_shape(one.grid)}, {_shape(one.block)}",
        moved / needed if needed else 1.0,
        max(sectors, default=0.0),
        max(ways, default=0.0),
        one.warp_efficiency,
        one.prediction.microseconds,
    ]


def rows_text(rows: list[list[Any]]) -> str:
    """Return launches as a table, those first that move the most beside what they need."""
    if not rows:
        return "nothing was launched on the host device"
    lines = [f"{'kernel':<36} {'grid, block':<18} {'sectors':>7} {'ways':>5} {'threads':>7}"]
    for kernel, launch, _, sectors, ways, threads, _ in sorted(rows, key=lambda row: -row[2]):
        name = kernel if len(kernel) <= 36 else kernel[:35] + "…"
        lines.append(f"{name:<36} {launch:<18} {sectors:7.2f} {ways:5.1f} {threads:7.1f}")
    lines.append("the worst line of each: sectors of a request, passes of a request of shared")
    lines.append("memory for each that is needed; threads of 32 in an instruction")
    return "\n".join(lines)


def _launch(one: LaunchReview) -> Iterator[str]:
    yield f"{one.kernel}  grid {_shape(one.grid)}, block {_shape(one.block)}"
    yield _HEAD
    for line in one.lines:
        yield _line(line)
    for branch in one.branches:
        place = _place(branch.file, branch.line)
        yield (
            f"{place:>24} {'branch':<15} {branch.visits:>10} {'':>7} {'':>5}  "
            f"{branch.diverged:.0%} of warps part, {branch.active:.0f} threads active"
        )
    yield f"{one.warp_efficiency:.1f} of 32 threads take part in an instruction (estimated)"
    for gpu in one.residencies[:1]:
        registers = "unknown" if gpu.registers < 0 else str(gpu.registers)
        yield (
            f"{gpu.machine}: {registers} registers, {gpu.shared_bytes} bytes shared; occupancy "
            f"{gpu.occupancy:.0%}, limited by {gpu.limit}; {gpu.waves:.1f} waves"
        )
    prediction = one.prediction
    yield (
        f"{prediction.machine}: about {prediction.microseconds:.3g} µs, "
        f"{prediction.of_copy:.2f} of a copy; bound by {prediction.bound} (estimated)"
    )
    if one.sampled < one.blocks:
        yield f"{one.sampled} of {one.blocks} blocks were looked at"
    if one.lost:
        yield f"{one.lost} threads did more than was looked at: counts of their loops are low"


def _shape(extents: tuple[int, int, int]) -> str:
    """Return extents as CUDA programmers write them: without ones at the end."""
    kept = max((k + 1 for k, extent in enumerate(extents) if extent > 1), default=1)
    return "x".join(str(extent) for extent in extents[:kept])


def _place(file: str, line: int) -> str:
    place = f"{file}:{line}" if file else "?"
    return place if len(place) <= 24 else "…" + place[-23:]


def _line(one: AccessedLine) -> str:
    sectors = f"{one.sectors_per_request:.2f}" if one.space == "global" else ""
    used = f"{one.efficiency:.0%}" if one.space == "global" else ""
    return (
        f"{_place(one.file, one.line):>24} {f'{one.space} {one.kind}':<15} {one.requests:>10} "
        f"{sectors:>7} {used:>5}  {', '.join(_notes(one))}"
    ).rstrip()


def note_of(one: AccessedLine) -> str:
    """Return the note on a line, beside its source."""
    sectors = f"{one.sectors_per_request:.1f} sectors" if one.space == "global" else ""
    return ", ".join(filter(None, [f"{one.space} {one.kind}", sectors, *_notes(one)]))


def _notes(one: AccessedLine) -> Iterator[str]:
    if one.space == "shared" and one.conflict_ways > 1.005:
        yield f"{one.conflict_ways:.1f}-way conflicts"
    if one.space == "global" and one.sectors_per_request >= 2 * one.sectors_needed:
        yield "not coalesced"
    if one.kind == "atomic" and one.contention > 1.005:
        yield f"{one.contention:.1f} threads at one address"
    if one.active < 31.5:
        yield f"{one.active:.0f} threads"
