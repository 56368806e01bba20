"""Lines of a source in, HTML tables out, with a column that is the warmer the more moves there.

::

    lines = [HeatLine("specs/norms.toml", 14, 256, "global store, 1.0 sectors")]
    "".join(heat_tables("l2norm", lines, {"specs/norms.toml": text.splitlines()}))

`kspec.reviews.page` shows a review so, `kspec.build.report.heat` the reviews in ``kspec.lock``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from kspec.dataclass import dataclass

_CONTEXT = 8  # lines around those that are shown
# The warmest cell lets its text be read: on dark paper that is less of the colour.
HEAT_STYLE = """
:root { --heat: 193, 66, 16; --warmest: .75; --heat-rule: #d9dee3; --heat-faint: #5a6570; }
@media (prefers-color-scheme: dark) {
  :root { --heat: 240, 140, 80; --warmest: .5; --heat-rule: #333a41; --heat-faint: #9aa5b0; }
}
div.heat { overflow-x: auto; border: 1px solid var(--heat-rule); border-radius: 6px; }
div.heat table { border-collapse: collapse; font: 13px/1.5 ui-monospace, monospace; width: 100%; }
div.heat td { padding: 0 .6rem; white-space: pre; vertical-align: top; border-bottom: 0;
  min-width: 0; }
div.heat td.number { color: var(--heat-faint); text-align: right; }
div.heat td.warm { border-left: 1px solid var(--heat-rule); text-align: right;
  border-right: 1px solid var(--heat-rule);
  background: rgba(var(--heat), calc(var(--warm, 0) * var(--warmest))); }
div.heat td.note { color: var(--heat-faint); }
"""


@dataclass(frozen=True)
class HeatLine:
    """Accesses that a line makes.

    Attributes
    ----------
    file, line : str, int
        Its place.
    passes : float
        Passes through caches and shared memory, of 128 bytes: the heat.
    note : str
        Text beside it.
    """

    file: str
    line: int
    passes: float
    note: str


def heat_tables(
    title: str, lines: Sequence[HeatLine], sources: Mapping[str, Sequence[str]], heading: str = "h2"
) -> Iterator[str]:
    """Yield the parts of tables for `HEAT_STYLE`, one for each file, with a heading.

    Parameters
    ----------
    title : str
        Begins each heading.
    lines : sequence of HeatLine
        The accesses; a line of the source may have several.
    sources : mapping of str to (sequence of str)
        Lines of the files.
    heading : str
        Tag of the headings.
    """
    passes: dict[tuple[str, int], float] = {}
    for one in lines:
        passes[one.file, one.line] = passes.get((one.file, one.line), 0.0) + one.passes
    most = max(passes.values(), default=0.0) or 1.0
    for file, text in sources.items():
        shown = _shown({line for name, line in passes if name == file}, len(text))
        if not shown:
            continue
        yield (
            f"<{heading}>{escape(title)}: {escape(file)}</{heading}>\n"
            '<div class="heat" tabindex="0"><table>'
        )
        last = 0
        for number in shown:
            if last and number > last + 1:
                yield '<tr><td class="number">…</td><td class="warm"></td><td></td><td></td></tr>'
            last = number
            notes = [one.note for one in lines if (one.file, one.line) == (file, number)]
            yield _row(number, text[number - 1], passes.get((file, number), 0.0) / most, notes)
        yield "</table></div>"


def _shown(lines: set[int], count: int) -> list[int]:
    wanted = {near for one in lines for near in range(one - _CONTEXT, one + _CONTEXT + 1)}
    return sorted(number for number in wanted if 0 < number <= count)


def _row(number: int, text: str, heat: float, notes: Sequence[str]) -> str:
    percent = f"{heat:.0%}" if notes else ""
    said = "; ".join(filter(None, notes))
    return (
        f'<tr><td class="number">{number}</td>'
        f'<td class="warm" style="--warm: {heat:.3f}">{percent}</td>'
        f'<td>{escape(text)}</td><td class="note">{escape(said)}</td></tr>'
    )
