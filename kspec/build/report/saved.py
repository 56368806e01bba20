"""Figures of reviews, as ``kspec.lock`` keeps them: what `kspec review --save` writes.

::

    reviews = [
      { gpu = "H200", arguments = ["float32[256,1024]", "axis=1"], source = "5f0c...",
        sectors_per_request = 16.0, conflicts = 0.0, ..., lines = [
        { at = "specs/norms.toml:14", text = "y = sqrt(a)", note = "global store, ...", ... },
      ] },
    ]

One row for each reviewed call, in one line but for its list.  `kspec.build.tools.review` makes
them of a `kspec.reviews.review.Review`; `kspec.build.report.budgets`, ``changes`` and ``heat`` read
them.  This module knows no kernel and no reviews, since every build reads the lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kspec.dataclass import dataclass
from kspec.toml import toml_key, toml_value

# Figures of a call by name, each with the decimals that are kept and whether more is worse.
FIGURES: Mapping[str, tuple[int, bool]] = {
    "sectors_per_request": (2, True),
    "conflicts": (2, True),
    "warp_efficiency": (1, False),
    "microseconds": (2, True),
    "of_copy": (2, False),
}


@dataclass(frozen=True)
class SavedLine:
    """Accesses of one kind that a line of the source makes.

    Attributes
    ----------
    file, line : str, int
        Place at the time of the review; the file may have become longer above it.
    text : str
        The line, stripped; empty for kspec's own headers, which are part of the digest.
    note : str
        Kind of the access and remarks: ``"global load, 16.0 sectors"``.
    requests : int
        Warps that made one.
    sectors_per_request : float
        Sectors that a request touches; 0 for shared memory.
    conflicts : float
        Passes that bank conflicts add to a request; 0 for global memory.
    """

    file: str
    line: int
    text: str
    note: str
    requests: int
    sectors_per_request: float = 0.0
    conflicts: float = 0.0

    @property
    def place(self) -> str:
        """File and line."""
        return f"{self.file}:{self.line}" if self.file else "?"


@dataclass(frozen=True)
class SavedReview:
    """Review of one call.

    Attributes
    ----------
    gpu : str
        The GPU that was reckoned with.
    arguments : tuple of str
        Those of the call, as `kspec review` prints them.
    source : str
        Beginning of the digest of the kernel's source, as the lock has it.
    figures : mapping of str to float
        Numbers by name, all of `FIGURES`. ``sectors_per_request`` and ``conflicts`` are those of
        the worst line; ``warp_efficiency`` is that of the worst launch.
    lines : tuple of SavedLine
        Those with a share of the requests that is worth a look.
    """

    gpu: str
    arguments: tuple[str, ...]
    source: str
    figures: Mapping[str, float]
    lines: tuple[SavedLine, ...] = ()

    @property
    def call(self) -> tuple[str, tuple[str, ...]]:
        """GPU and arguments: a new review of the same goes in the place of an old one."""
        return self.gpu, self.arguments

    def is_of(self, digest: str) -> bool:
        """Whether the source with this digest was reviewed."""
        return bool(self.source) and digest.startswith(self.source)

    def worst(self, figure: str) -> SavedLine | None:
        """Return the line that a figure is of; None if it is of no line."""
        return next(
            (one for one in self.lines if getattr(one, figure, -1.0) == self.figures[figure]), None
        )


def review_text(one: SavedReview) -> str:
    """Return a review as an inline table of TOML, with a line for each of its lines."""
    keys = {"gpu": one.gpu, "arguments": one.arguments, "source": one.source, **one.figures}
    pairs = ", ".join(f"{toml_key(key)} = {toml_value(value)}" for key, value in keys.items())
    lines = "".join(f"    {toml_value(_line_data(line))},\n" for line in one.lines)
    listed = f"[\n{lines}  ]" if lines else "[]"
    return f"{{ {pairs}, lines = {listed} }}"


def _line_data(one: SavedLine) -> dict[str, Any]:
    is_shared = not one.sectors_per_request
    figure = "conflicts" if is_shared else "sectors_per_request"
    return {
        "at": one.place,
        **({"text": one.text} if one.text else {}),
        "note": one.note,
        "requests": one.requests,
        figure: getattr(one, figure),
    }


def review_of(data: Mapping[str, Any]) -> SavedReview:
    """Return the review in plain data; what is raised is what damaged files raise."""
    return SavedReview(
        _string(data["gpu"]),
        tuple(map(_string, data["arguments"])),
        _string(data["source"]),
        {key: float(data[key]) for key in FIGURES},
        tuple(map(_line_of, data["lines"])),
    )


def _line_of(data: Mapping[str, Any]) -> SavedLine:
    file, _, line = _string(data["at"]).rpartition(":")
    return SavedLine(
        file,
        int(line) if file else 0,
        _string(data.get("text", "")),
        _string(data["note"]),
        int(data["requests"]),
        float(data.get("sectors_per_request", 0)),
        float(data.get("conflicts", 0)),
    )


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value


def with_review(known: Iterable[SavedReview], new: SavedReview) -> tuple[SavedReview, ...]:
    """Return reviews of a kernel with a new one: those of other sources and of its call go."""
    kept = [one for one in known if one.source == new.source and one.call != new.call]
    return tuple(sorted([*kept, new], key=lambda one: one.call))
