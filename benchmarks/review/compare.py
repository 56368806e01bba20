"""Reviews beside the counters of a GPU: cases in, misses and their sizes out.

::

    python -m benchmarks.review.compare benchmarks/review/measured_h200.json

It needs no GPU: the cases run on the host device, and the counters are those that
`benchmarks.review.measure` has written.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import kspec
from benchmarks.review.case import Case
from benchmarks.review.cases import raw_cases
from benchmarks.review.shipped import Call, shipped_calls
from kspec.errors import KspecError
from kspec.reviews.lines import AccessedLine
from kspec.reviews.review import LaunchReview, Review

_SATURATES = 0.7  # of a copy: from here on the memory is what limits a kernel
_CLOSE = 0.02
_NEAR = 0.15


@dataclass(frozen=True)
class Compared:
    """One figure of a case: as reviewed, and as measured."""

    case: str
    place: str
    reviewed: float
    measured: float

    @property
    def error(self) -> float:
        """Relative difference."""
        return abs(self.reviewed - self.measured) / max(abs(self.measured), 1e-12)


@dataclass(frozen=True)
class Comparison:
    """All figures of all cases.

    Attributes
    ----------
    sectors, conflicts : tuple of Compared
        Sectors of a request, and passes of a request of shared memory, by line.
    lanes : tuple of Compared
        Threads of a request, by line.
    active : tuple of Compared
        Threads of an instruction, of each case.
    times : tuple of Compared
        Microseconds of each case.
    saturating : frozenset of str
        Cases that are limited by the bandwidth of memory.
    """

    sectors: tuple[Compared, ...]
    conflicts: tuple[Compared, ...]
    lanes: tuple[Compared, ...]
    active: tuple[Compared, ...]
    times: tuple[Compared, ...]
    saturating: frozenset[str]

    @property
    def rank_correlation(self) -> float:
        """Spearman's, of predicted and measured times."""
        ranks = [
            np.argsort(np.argsort([getattr(one, name) for one in self.times]))
            for name in ("reviewed", "measured")
        ]
        return float(np.corrcoef(*ranks)[0, 1])


def review_of(case: Case | Call) -> Review:
    """Return the review of a case."""
    arguments = case.arguments()
    if isinstance(case, Call):
        return kspec.review(case.call, *arguments)
    return kspec.review(case.kernel(), case.grid, case.block, arguments, shared_mem=case.shared_mem)


def compare(reviews: Mapping[str, Review], measured: Mapping[str, Any]) -> Comparison:
    """Compare reviews with what was measured of the same cases."""
    sectors: list[Compared] = []
    conflicts: list[Compared] = []
    lanes: list[Compared] = []
    active: list[Compared] = []
    times: list[Compared] = []
    saturating = set()
    for case in measured["cases"]:
        name = case["name"]
        review = reviews.get(name)
        if review is None:
            continue
        for one, launch in _pairs(review.launches, case["launches"]):
            sectors += _by_line(name, one, launch, "global", "sectors")
            conflicts += _by_line(name, one, launch, "shared", "wavefronts")
            lanes += _by_line(name, one, launch, "global", "lanes")
        active += _active(name, review.launches, case["launches"])
        predicted = sum(one.prediction.microseconds for one in review.launches)
        times.append(Compared(name, "", predicted, case["seconds"] * 1e6))
        if case["copy_share"] >= _SATURATES:
            saturating.add(name)
    return Comparison(
        tuple(sectors),
        tuple(conflicts),
        tuple(lanes),
        tuple(active),
        tuple(times),
        frozenset(saturating),
    )


def _pairs(
    launches: Sequence[LaunchReview], measured: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[LaunchReview, Mapping[str, Any]]]:
    """Pair launches in their order, where there are as many of them."""
    if len(launches) == len(measured):
        yield from zip(launches, measured, strict=True)


def _active(
    case: str, launches: Sequence[LaunchReview], measured: Sequence[Mapping[str, Any]]
) -> Iterator[Compared]:
    """Compare threads of an instruction, on average over all launches."""
    pairs = [*_pairs(launches, measured)]
    counts = [launch["instructions"] for _, launch in pairs]
    if not sum(counts):
        return
    mine = np.average([one.warp_efficiency for one, _ in pairs], weights=counts)
    theirs = np.average([one["lanes_per_instruction"] for _, one in pairs], weights=counts)
    yield Compared(case, "", float(mine), float(theirs))


_Key = tuple[str, int, str]


def _by_line(
    case: str, one: LaunchReview, launch: Mapping[str, Any], space: str, figure: str
) -> list[Compared]:
    """Compare a figure of each request, for the lines that both have, and for all others together.

    A compiler may load a value in the line that uses it; so the others are compared by their kind.
    """
    mine: dict[_Key, list[float]] = defaultdict(lambda: [0.0, 0.0])
    own_file = _file_of(one)
    for line in one.lines:
        if line.space == space and not _is_copied(line):
            file = "" if line.file == own_file else line.file
            _add(mine, (file, line.line, line.kind), line.requests, _amount(line, figure))
    theirs: dict[_Key, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for line in launch["lines"]:
        if line["space"] == space and line["kind"] != "bulk" and line.get("requests"):
            key = line.get("file", ""), line["line"], line["kind"]
            _add(theirs, key, line["requests"], line.get(figure, 0))
    both = mine.keys() & theirs.keys()
    mine, theirs = _others_by_kind(mine, both), _others_by_kind(theirs, both)
    return [
        Compared(
            case,
            f"{file}{':' if file else ''}{number or ''} {kind}".strip(),
            _ratio(mine[file, number, kind]),
            _ratio(theirs[file, number, kind]),
        )
        for file, number, kind in sorted(mine.keys() & theirs.keys())
    ]


def _file_of(one: LaunchReview) -> str:
    """Return the name of a raw kernel's text; lines of other files have theirs in the figures."""
    files = {line.file for line in one.lines}
    return next((file for file in files if file.endswith("kernel.cu")), "")


def _amount(line: Any, figure: str) -> float:
    if figure == "sectors":
        return float(line.sectors_per_request * line.requests)
    return float(line.passes if figure == "wavefronts" else line.lanes)


def _add(table: dict[_Key, list[float]], key: _Key, requests: float, amount: float) -> None:
    table[key][0] += requests
    table[key][1] += amount


def _is_copied(line: AccessedLine) -> bool:
    """Whether Nsight Compute counts what a line stores as a load: asynchronous copies."""
    return line.file == "kspec/copy_async.cuh" and (line.space, line.kind) == ("shared", "store")


def _others_by_kind(table: Mapping[_Key, list[float]], both: Set[_Key]) -> dict[_Key, list[float]]:
    joined: dict[_Key, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for (file, line, kind), (requests, amount) in table.items():
        key = (file, line, kind)
        _add(joined, key if key in both else ("", 0, kind), requests, amount)
    return joined


def _ratio(pair: Sequence[float]) -> float:
    return pair[1] / pair[0] if pair[0] else 0.0


def share_within(found: Iterable[Compared], bound: float) -> float:
    """Return the share of figures that differ by at most a bound."""
    listed = list(found)
    return sum(one.error <= bound for one in listed) / len(listed) if listed else 1.0


def text_of(found: Comparison) -> str:
    """Return the comparison as text: what is within its bound, and every miss."""
    timed = [one for one in found.times if one.case in found.saturating]
    rows = [
        ("sectors of a request within 2 %", found.sectors, _CLOSE),
        ("passes of shared memory within 2 %", found.conflicts, _CLOSE),
        ("threads of a request within 2 %", found.lanes, _CLOSE),
        ("threads of an instruction within 2 %", found.active, _CLOSE),
        ("times of saturating kernels within 15 %", timed, _NEAR),
    ]
    lines = [f"{len(found.times)} kernels, {len(timed)} of them saturate the memory"]
    for title, figures, bound in rows:
        lines.append(f"{title}: {share_within(figures, bound):.1%} of {len(figures)}")
    lines.append(f"rank correlation of times: {found.rank_correlation:.3f}")
    for title, figures, bound in rows:
        misses = [one for one in figures if one.error > bound]
        lines += [
            "",
            f"misses: {title}",
            *(
                f"  {one.case:30} {one.place:34} {one.reviewed:10.3f} {one.measured:10.3f}"
                for one in sorted(misses, key=lambda one: -one.error)
            ),
        ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Review every case and print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("measured", type=Path)
    parser.add_argument("--only", nargs="*", default=())
    chosen = parser.parse_args(arguments)
    measured = json.loads(chosen.measured.read_text(encoding="utf-8"))
    reviews = {}
    for case in (*raw_cases(), *shipped_calls()):
        if chosen.only and case.name not in chosen.only:
            continue
        try:
            reviews[case.name] = review_of(case)
        except KspecError as error:
            print(f"not reviewed: {case.name}: {error}")
    print(text_of(compare(reviews, measured)))


if __name__ == "__main__":
    main()
