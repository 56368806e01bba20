"""What a run found: frozen rows, their judgement, and the JSON they are kept in.

``load(dump(results)) == results``: a report can be drawn again, on another machine, from the file
that a run left.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from benchmarks.timing import Sample

SCHEMA = 1


@dataclass(frozen=True)
class Throughput:
    """One case: how fast data moved.

    Attributes
    ----------
    group, name, kernel, layout : str
        Which case; `layout` prints its operands.
    nbytes, elements, flops : int
        Bytes counted, elements computed, operations for each of them.
    samples : mapping of str to Sample
        Time of a call of ``"kspec"`` and each peer.
    target : float or None
        Fraction to be reached of `of`: the copy, a peer, or another case.
    held_out, latency : bool
        As in the table of cases.
    error : float
        Worst error of the result, in units of what is allowed.
    problem : str
        Why there is no measurement, or that the result is wrong.
    notes : tuple of str
        Why peers have none.
    """

    group: str
    name: str
    kernel: str
    layout: str
    nbytes: int
    elements: int
    flops: int
    samples: Mapping[str, Sample] = field(default_factory=dict)
    target: float | None = None
    of: str = "copy"
    held_out: bool = False
    latency: bool = False
    error: float = 0.0
    problem: str = ""
    notes: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Group and name."""
        return f"{self.group}/{self.name}"

    def bandwidth(self, who: str = "kspec") -> float | None:
        """Return bytes per second, None where nothing was measured."""
        sample = self.samples.get(who)
        return self.nbytes / sample.median if sample else None


@dataclass(frozen=True)
class Overhead:
    """One kind of call: what it costs the host.

    Attributes
    ----------
    name : str
        How it is called.
    samples : mapping of str to Sample
        Of kspec and each peer.
    target : float or None
        Largest ratio to `of`.
    of : str
        The peer the target compares with.
    slack : float
        Seconds that may be added to the target's time.
    problem : str
        Why there is no measurement.
    """

    name: str
    samples: Mapping[str, Sample] = field(default_factory=dict)
    target: float | None = None
    of: str = ""
    slack: float = 0.0
    problem: str = ""

    def ratio(self, who: str | None = None, minimum: bool = False) -> float | None:
        """Return kspec's time in units of a peer's."""
        ours, theirs = self.samples.get("kspec"), self.samples.get(who or self.of)
        if ours is None or theirs is None:
            return None
        return ours.minimum / theirs.minimum if minimum else ours.median / theirs.median


@dataclass(frozen=True)
class Figure:
    """A single number with what it should be: a start-up time, the cost of a barrier.

    Attributes
    ----------
    section, name, unit : str
        What it is.
    value : float
        In that unit.
    limit : float or None
        What is promised.
    at_least : bool
        Whether the limit is one from below.
    problem : str
        Why there is no number.
    """

    section: str
    name: str
    value: float
    unit: str
    limit: float | None = None
    at_least: bool = False
    problem: str = ""

    @property
    def target(self) -> str:
        """The limit as text."""
        if self.limit is None:
            return ""
        return f"{'>=' if self.at_least else '<='} {self.limit:g}"


@dataclass(frozen=True)
class Scaling:
    """One call on arrays that are divided among several GPUs or workers.

    Attributes
    ----------
    section, name, unit : str
        What it is, and among what: ``"GPU"`` or ``"worker"``.
    nbytes : int
        Bytes that are read and written on one of them alone.
    weak : bool
        Whether each has as much work as one had, instead of a share of it.
    samples : mapping of str to Sample
        Times by who and how many: ``"kspec 2"``.
    peer : str
        Who else.
    problem : str
        Why there is no measurement, or that the result is wrong.
    """

    section: str
    name: str
    unit: str
    nbytes: int
    weak: bool
    samples: Mapping[str, Sample] = field(default_factory=dict)
    peer: str = ""
    problem: str = ""

    def speedup(self, who: str = "kspec", count: int = 2) -> float | None:
        """Return how many times as much work is done in the same time."""
        one, many = self.samples.get(f"{who} 1"), self.samples.get(f"{who} {count}")
        if one is None or many is None:
            return None
        return (count if self.weak else 1) * one.median / many.median


@dataclass(frozen=True)
class Results:
    """Everything that runs found; see `Machine` for `kind`, `name` and `elements`."""

    kind: str
    name: str
    date: str
    versions: Mapping[str, str]
    elements: int
    copy: Sample | None = None
    copy_bytes: int = 0
    copy_after: Sample | None = None
    peak_flops: float = 0.0
    throughput: tuple[Throughput, ...] = ()
    overhead: tuple[Overhead, ...] = ()
    figures: tuple[Figure, ...] = ()
    scaling: tuple[Scaling, ...] = ()
    missing: tuple[str, ...] = ()
    seconds: float = 0.0
    runs: int = 1

    @property
    def copy_bandwidth(self) -> float | None:
        """Bytes per second of the copy."""
        return self.copy_bytes / self.copy.median if self.copy else None

    @property
    def problems(self) -> list[str]:
        """A line for each case that failed or was wrong."""
        rows = [(row.label, row.problem) for row in self.throughput]
        rows += [(f"overhead/{row.name}", row.problem) for row in self.overhead]
        rows += [(f"{row.section}/{row.name}", row.problem) for row in self.figures]
        rows += [(f"{row.section}/{row.name}", row.problem) for row in self.scaling]
        return [f"{label}: {problem}" for label, problem in rows if problem]


def fraction(results: Results, row: Throughput, of: str) -> float | None:
    """Return a case's bandwidth in units of the copy's, a peer's, or another case's."""
    ours, base = row.bandwidth(), row.bandwidth(of)
    if of == "copy":
        base = results.copy_bandwidth
    elif base is None:
        others = [other for other in results.throughput if other.name == of]
        base = others[0].bandwidth() if others else None
    return ours / base if ours and base else None


def is_met(results: Results, row: Throughput | Overhead | Figure) -> bool | None:
    """Return whether a row reached its target; None where it has none, or was not measured."""
    if isinstance(row, Figure):
        if row.limit is None or row.problem:
            return None
        return row.value >= row.limit if row.at_least else row.value <= row.limit
    if row.target is None:
        return None
    if isinstance(row, Throughput):
        reached = fraction(results, row, row.of)
        return None if reached is None else reached >= row.target
    ours, theirs = row.samples.get("kspec"), row.samples.get(row.of)
    if ours is None or theirs is None:
        return None
    return ours.median <= row.target * theirs.median + row.slack


def dump(results: Results) -> str:
    """Return the results as JSON text."""
    return json.dumps({"schema": SCHEMA, **asdict(results)}, indent=1) + "\n"


def load(text: str) -> Results:
    """Return the results in a JSON text; raise `ValueError` if it is none of ours."""
    data = json.loads(text)
    if not isinstance(data, dict) or data.pop("schema", None) != SCHEMA:
        raise ValueError(f'not the results of a run: no "schema": {SCHEMA}')
    return Results(
        **{
            **data,
            "copy": _sample(data["copy"]),
            "copy_after": _sample(data["copy_after"]),
            "throughput": tuple(_row(Throughput, row) for row in data["throughput"]),
            "overhead": tuple(_row(Overhead, row) for row in data["overhead"]),
            "figures": tuple(_row(Figure, row) for row in data["figures"]),
            "scaling": tuple(_row(Scaling, row) for row in data.get("scaling", ())),
            "missing": tuple(data["missing"]),
        }
    )


def _sample(data: Any) -> Sample | None:
    return None if data is None else Sample(**data)


def _row(kind: Any, data: dict[str, Any]) -> Any:
    names = {one.name for one in fields(kind)}
    values = {name: value for name, value in data.items() if name in names}
    if "samples" in values:
        values["samples"] = {who: Sample(**one) for who, one in values["samples"].items()}
    if "notes" in values:
        values["notes"] = tuple(values["notes"])
    return kind(**values)


def joined(parts: Sequence[Results]) -> Results:
    """Return the rows of several runs on one machine; the first copy is that of all of them.

    Raises
    ------
    ValueError
        If they are of different machines or versions.
    """
    first, *others = parts
    for one in others:
        if (one.name, one.versions, one.elements) != (first.name, first.versions, first.elements):
            raise ValueError("runs of different machines, versions or sizes are not one table")
    copied = [one for one in parts if one.copy]
    return replace(
        copied[0] if copied else first,
        copy_after=copied[-1].copy_after if copied else None,
        throughput=tuple(row for one in parts for row in one.throughput),
        overhead=tuple(row for one in parts for row in one.overhead),
        figures=tuple(row for one in parts for row in one.figures),
        scaling=tuple(row for one in parts for row in one.scaling),
        missing=tuple(dict.fromkeys(row for one in parts for row in one.missing)),
        seconds=sum(one.seconds for one in parts),
        runs=sum(one.runs for one in parts),
    )


class Journal:
    """The results so far, written to a file after every row, so that nothing is lost.

    Parameters
    ----------
    results : Results
        What is known before anything is measured.
    path : Path or None
        Where to write; None: nowhere.
    """

    def __init__(self, results: Results, path: Path | None = None) -> None:
        self.results = results
        self._path = path

    def add(self, row: Throughput | Overhead | Figure | Scaling) -> None:
        """Append a row."""
        field_of = {
            Throughput: "throughput",
            Overhead: "overhead",
            Figure: "figures",
            Scaling: "scaling",
        }
        name = field_of[type(row)]
        self.update(**{name: (*getattr(self.results, name), row)})

    def update(self, **changes: Any) -> None:
        """Change fields, and write."""
        self.results = replace(self.results, **changes)
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            partial = self._path.with_suffix(".partial")
            partial.write_text(dump(self.results), encoding="utf-8")
            partial.replace(self._path)
