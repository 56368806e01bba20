"""A review as one HTML page: the source, with a column that is the warmer the more moves there."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from kspec.reviews.table import note_of, table

if TYPE_CHECKING:
    from kspec.reviews.lines import AccessedLine
    from kspec.reviews.review import LaunchReview, Review

_CONTEXT = 8  # lines around those that are shown
_STYLE = """
:root { --paper: #ffffff; --ink: #1c2024; --faint: #5a6570; --rule: #d9dee3; --heat: 193, 66, 16; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14171a; --ink: #e6e9ec; --faint: #9aa5b0; --rule: #333a41;
    --heat: 240, 140, 80; }
}
body { margin: 2rem auto; max-width: 76rem; padding: 0 1rem; background: var(--paper);
  color: var(--ink); font: 15px/1.45 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .4rem; }
pre.summary { overflow-x: auto; color: var(--ink); font-size: .8rem; }
div.code { overflow-x: auto; border: 1px solid var(--rule); border-radius: 6px; }
table { border-collapse: collapse; font: 13px/1.5 ui-monospace, monospace; width: 100%; }
td { padding: 0 .6rem; white-space: pre; vertical-align: top; }
td.number { color: var(--faint); text-align: right; }
td.heat { border-left: 1px solid var(--rule); border-right: 1px solid var(--rule);
  text-align: right; background: rgba(var(--heat), var(--warm)); }
td.note { color: var(--faint); }
"""


def page(review: Review) -> str:
    """Return a page that needs nothing else."""
    title = escape(review.slowest.kernel)
    body = "\n".join(part for one in review.launches for part in _launch(one))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>Review of {title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f'<h1>Review of {title}</h1>\n<pre class="summary">{escape(table(review))}</pre>\n'
        f"{body}\n</body>\n</html>\n"
    )


def _launch(one: LaunchReview) -> Iterator[str]:
    weights: dict[tuple[str, int], float] = {}
    for line in one.lines:
        place = line.file, line.line
        weights[place] = weights.get(place, 0.0) + _weight(line)
    most = max(weights.values(), default=0.0) or 1.0
    for file, text in one.source.items():
        shown = _shown({line for name, line in weights if name == file}, len(text))
        if not shown:
            continue
        yield f'<h2>{escape(one.kernel)}: {escape(file)}</h2>\n<div class="code"><table>'
        last = 0
        for number in shown:
            if last and number > last + 1:
                yield '<tr><td class="number">…</td><td class="heat"></td><td></td><td></td></tr>'
            last = number
            notes = [line for line in one.lines if (line.file, line.line) == (file, number)]
            yield _row(number, text[number - 1], weights.get((file, number), 0.0) / most, notes)
        yield "</table></div>"


def _weight(line: AccessedLine) -> float:
    """Return the passes through caches and shared memory that a line costs, in 128 bytes."""
    if line.space == "shared":
        return line.requests * max(1.0, line.conflict_ways)
    return max(line.requests, line.bytes_moved / 128)


def _shown(lines: set[int], count: int) -> list[int]:
    wanted = {near for one in lines for near in range(one - _CONTEXT, one + _CONTEXT + 1)}
    return sorted(number for number in wanted if 0 < number <= count)


def _row(number: int, text: str, heat: float, lines: list[AccessedLine]) -> str:
    said = "; ".join(filter(None, map(note_of, lines)))
    percent = f"{heat:.0%}" if lines else ""
    return (
        f'<tr><td class="number">{number}</td>'
        f'<td class="heat" style="--warm: {0.75 * heat:.3f}">{percent}</td>'
        f'<td>{escape(text)}</td><td class="note">{escape(said)}</td></tr>'
    )
