"""Hits and misses of a cache, from every process that used it: lines of numbers, summed when read.

::

    add_counts(folder, CacheStatistics(disk_hits=3, misses=1))     # one line more
    read_counts(folder)                                            # the sum of all lines

A process adds one line, when it ends.  Lines are appended in one write; where a file system does
not keep two writers apart, a line is lost or torn, and a torn one is left out.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import fields
from pathlib import Path

from kspec.compiler.cache import folder as files
from kspec.compiler.cache.trust import OPEN, check_regular, distrusted_folder
from kspec.dataclass import dataclass

FILE_NAME = "counters"
_LINE = re.compile(rb"1((?: \d{1,15}){4})\n")
# From this size on, the lines are replaced by one that is their sum.
_LONGEST = 256 * 1024


@dataclass(frozen=True)
class CacheStatistics:
    """Counts of a cache's answers.

    Attributes
    ----------
    memory_hits, disk_hits, layer_hits, misses : int
        Answers: from this process, its folder, a read-only layer, and none.
    damaged : int
        Entries that were there but could not be used.
    """

    memory_hits: int = 0
    disk_hits: int = 0
    layer_hits: int = 0
    misses: int = 0
    damaged: int = 0

    @property
    def hits(self) -> int:
        """Hits of all kinds."""
        return self.memory_hits + self.disk_hits + self.layer_hits


# What is counted across processes: what memory answers costs nothing and says nothing.
_KEPT = [field.name for field in fields(CacheStatistics)][1:]


def add_counts(folder: Path, counts: CacheStatistics) -> None:
    """Add what one process asked, if there is anything and it can be written."""
    numbers = [getattr(counts, name) for name in _KEPT]
    if not any(numbers):
        return
    path = folder / FILE_NAME
    if distrusted_folder(folder):
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | OPEN, 0o600)
        try:
            check_regular(descriptor, path)
            os.write(descriptor, _line(numbers))
            size = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        if size > _LONGEST:
            total = read_counts(folder)
            files.write_file(path, _line([getattr(total, name) for name in _KEPT]))


def read_counts(folder: Path) -> CacheStatistics:
    """Return the sums over processes that have ended; zeros if there is no such file."""
    try:
        data = files.read_file(folder / FILE_NAME)
    except OSError:
        return CacheStatistics()
    matches = map(_LINE.fullmatch, data.splitlines(keepends=True))
    rows = [[int(number) for number in match[1].split()] for match in matches if match]
    sums = [sum(column) for column in zip(*rows, strict=True)]
    return CacheStatistics(**dict(zip(_KEPT, sums, strict=True))) if sums else CacheStatistics()


def _line(numbers: list[int]) -> bytes:
    return f"1 {' '.join(map(str, numbers))}\n".encode()
