"""All raw kernels, each with one launch.

::

    for case in raw_cases():
        case.kernel()(case.grid, case.block, case.arguments(), shared_mem=case.shared_mem)
"""

from __future__ import annotations

from benchmarks.review.case import ELEMENTS, Case
from benchmarks.review.copies import copies
from benchmarks.review.divergent import divergent
from benchmarks.review.patterns import patterns
from benchmarks.review.reductions import reductions
from benchmarks.review.shared import shared
from benchmarks.review.transposes import transposes


def raw_cases(elements: int = ELEMENTS) -> list[Case]:
    """Return the raw kernels, each with one launch.

    Parameters
    ----------
    elements : int
        A power of two, at least 2**16: elements of the larger arrays.
    """
    tables = (copies, transposes, shared, divergent, patterns, reductions)
    return [case for table in tables for case in table(elements)]
