"""Cost of recording: cases in, their times on the host device with and without it out.

::

    python -m benchmarks.review.cost --elements 4194304

Compiling is left out; a review adds it once, and the lookup of lines.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmarks.review.case import Case
from benchmarks.review.cases import raw_cases
from kspec.model.checks import recording


def costs(cases: Sequence[Case]) -> Iterator[tuple[str, float, float]]:
    """Yield name, seconds of a plain launch and of a recorded one, each the best of three."""
    for case in cases:
        kernel, arguments = case.kernel(), case.arguments()

        def launch(kernel: Any = kernel, case: Case = case, arguments: Any = arguments) -> None:
            kernel(case.grid, case.block, arguments, shared_mem=case.shared_mem)

        plain = _best(launch)
        with recording(lambda launch: None):
            yield case.name, plain, _best(launch)


def _best(function: Callable[[], object]) -> float:
    function()
    times = []
    for _ in range(3):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    """Print the times of every raw case."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--elements", type=int, default=2**22)
    chosen = parser.parse_args()
    ratios = []
    for name, plain, recorded in costs(raw_cases(chosen.elements)):
        ratios.append(recorded / plain)
        print(f"{name:28} {1e3 * plain:9.2f} ms {1e3 * recorded:9.2f} ms {ratios[-1]:7.1f}")
    within = sum(ratio <= 60 for ratio in ratios) / len(ratios)
    print(
        f"median {statistics.median(ratios):.1f}, most {max(ratios):.1f}; {within:.0%} at most 60"
    )


if __name__ == "__main__":
    main()
