"""A review as one HTML page: the source, with a column that is the warmer the more moves there."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from kspec.reviews.heat import HEAT_STYLE, HeatLine, heat_tables
from kspec.reviews.table import note_of, table

if TYPE_CHECKING:
    from kspec.reviews.lines import AccessedLine
    from kspec.reviews.review import LaunchReview, Review

_STYLE = """
:root { --paper: #ffffff; --ink: #1c2024; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14171a; --ink: #e6e9ec; }
}
body { margin: 2rem auto; max-width: 76rem; padding: 0 1rem; background: var(--paper);
  color: var(--ink); font: 15px/1.45 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .4rem; }
pre.summary { overflow-x: auto; color: var(--ink); font-size: .8rem; }
"""


def page(review: Review) -> str:
    """Return a page that needs nothing else."""
    title = escape(review.slowest.kernel)
    body = "\n".join(part for one in review.launches for part in _launch(one))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>Review of {title}</title>\n<style>{_STYLE}{HEAT_STYLE}</style>\n</head>\n<body>\n"
        f'<h1>Review of {title}</h1>\n<pre class="summary">{escape(table(review))}</pre>\n'
        f"{body}\n</body>\n</html>\n"
    )


def _launch(one: LaunchReview) -> Iterator[str]:
    lines = [HeatLine(line.file, line.line, _passes(line), note_of(line)) for line in one.lines]
    return heat_tables(one.kernel, lines, one.source)


def _passes(line: AccessedLine) -> float:
    """Return the passes through caches and shared memory that a line costs, in 128 bytes."""
    if line.space == "shared":
        return line.requests * max(1.0, line.conflict_ways)
    return max(line.requests, line.bytes_moved / 128)
