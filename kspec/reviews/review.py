"""`Review`: a kernel's use of memory, as data, as a table and as a page."""

from __future__ import annotations

from dataclasses import asdict, field
from typing import Any

from kspec.dataclass import dataclass
from kspec.host.recording import ReviewedLaunch
from kspec.reviews.launches import Residency, residencies
from kspec.reviews.lines import AccessedLine, Branch, locate
from kspec.reviews.machine import MACHINES, Machine
from kspec.reviews.prediction import Prediction, predict

SCHEMA = 1  # of `Review.to_dict`


@dataclass(frozen=True)
class LaunchReview:
    """One launch.

    Attributes
    ----------
    kernel : str
        Its name.
    grid, block : tuple of int
        Blocks, and threads of each.
    shared_mem : int
        Bytes of dynamic shared memory.
    blocks, sampled : int
        Blocks of the launch, and those that were looked at: all figures are theirs, scaled.
    lost : int
        Threads that did more than was looked at; figures are scaled by the rest.
    lines : tuple of AccessedLine
        Accesses, by line.
    branches : tuple of Branch
        Branches at which warps went apart.
    warp_efficiency : float
        Threads that take part in an instruction, of 32, on average.
    waits : float
        Times that a warp waits for a load before it can make the next, on average.
    residencies : tuple of Residency
        How the launch fills GPUs: first the machine that the prediction is for.
    prediction : Prediction
        The estimated time.
    source : dict of str to tuple of str
        Lines of the files of `lines` and `branches`.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_mem: int
    blocks: int
    sampled: int
    lost: int
    lines: tuple[AccessedLine, ...]
    branches: tuple[Branch, ...]
    warp_efficiency: float
    waits: float
    residencies: tuple[Residency, ...]
    prediction: Prediction
    source: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data; `Review.to_dict` says what is in it."""
        branches = [asdict(one) for one in self.branches]
        lines = [
            {
                **asdict(one),
                "efficiency": one.efficiency,
                "active_lanes": one.active,
            }
            for one in self.lines
        ]
        return {
            "kernel": self.kernel,
            "lines": lines,
            "branches": branches,
            "launch": {
                "grid": list(self.grid),
                "block": list(self.block),
                "shared_mem": self.shared_mem,
                "blocks": self.blocks,
                "sampled_blocks": self.sampled,
                "lost_threads": self.lost,
                "warp_efficiency": self.warp_efficiency,
                "waits": self.waits,
                "gpus": [asdict(one) for one in self.residencies],
            },
            "prediction": asdict(self.prediction),
        }


@dataclass(frozen=True)
class Review:
    """Use of memory by the launches of a call.

    Attributes
    ----------
    launches : tuple of LaunchReview
        In their order.
    """

    launches: tuple[LaunchReview, ...]

    @property
    def lines(self) -> tuple[AccessedLine, ...]:
        """The accesses of all launches."""
        return tuple(line for one in self.launches for line in one.lines)

    @property
    def branches(self) -> tuple[Branch, ...]:
        """The branches of all launches."""
        return tuple(branch for one in self.launches for branch in one.branches)

    @property
    def slowest(self) -> LaunchReview:
        """The launch that takes the longest."""
        return max(self.launches, key=lambda one: one.prediction.microseconds)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data.

        Returns
        -------
        dict
            ``schema`` (1), ``launches``, a dict for each, and the keys of the slowest of them:
            ``kernel``, ``lines`` (`AccessedLine` with ``efficiency`` and ``active_lanes``),
            ``branches`` (`Branch`), ``launch`` (``grid``, ``block``, ``shared_mem``, ``blocks``,
            ``sampled_blocks``, ``lost_threads``, ``warp_efficiency``, ``waits``, ``gpus``:
            `Residency` of each), ``prediction`` (`Prediction`).
        """
        data = [one.to_dict() for one in self.launches]
        slowest = self.launches.index(self.slowest)
        return {"schema": SCHEMA, **data[slowest], "launches": data}

    def html(self) -> str:
        """Return a page: the source with a column of colours, as profilers show it."""
        from kspec.reviews.page import page

        return page(self)

    def summary(self) -> str:
        """Return sentences on the limit of each launch, and on the way to a faster one."""
        from kspec.reviews.table import sentences

        return sentences(self)

    def __str__(self) -> str:
        from kspec.reviews.table import table

        return table(self)


def review_launch(
    launch: ReviewedLaunch, machine: Machine = MACHINES[0], everywhere: bool = False
) -> LaunchReview:
    """Return the review of a recorded launch; `everywhere`: on other architectures, too."""
    located = locate(launch, machine.arch)
    places = residencies(launch, machine, everywhere)
    recorded = launch.recording
    return LaunchReview(
        launch.kernel,
        launch.grid,
        launch.block,
        launch.shared_mem,
        recorded.blocks,
        recorded.sampled - recorded.skipped,
        recorded.lost,
        located.lines,
        located.branches,
        located.warp_efficiency,
        recorded.waits,
        places,
        predict(launch, located, places[0], machine),
        _source(launch, located.lines, located.branches),
    )


def _source(
    launch: ReviewedLaunch, lines: tuple[AccessedLine, ...], branches: tuple[Branch, ...]
) -> dict[str, tuple[str, ...]]:
    """Return the lines of the files that a review is about, as far as they are needed."""
    ends: dict[str, int] = {}
    places = [(one.file, one.line) for one in lines]
    for file, line in [*places, *((one.file, one.line) for one in branches)]:
        ends[file] = max(ends.get(file, 0), line)
    if launch.line_of is None:
        return {}
    return {
        file: tuple(launch.line_of(file, number) for number in range(1, end + 21))
        for file, end in ends.items()
        if file
    }
