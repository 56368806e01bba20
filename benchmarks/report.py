"""Results as text: Markdown for ``RESULTS.md``, and the lines a terminal shows meanwhile.

Everything here is from values to strings; nothing is measured and nothing is printed.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from benchmarks.results import Figure, Overhead, Results, Scaling, Throughput, fraction, is_met
from benchmarks.timing import Sample

WIDTH = 79
_NAME = 31
_TARGET = 10
# Peers by what is measured where.
_THROUGHPUT_PEERS = {"cuda": ("CuPy", "torch"), "host": ("NumPy",)}
# Beside these in the Markdown, for which a terminal has no column left.
_MORE_PEERS = {("cuda", "aggregate"): ("CUB",), ("cuda", "overhead"): ("numba", "JAX")}
_OVERHEAD_PEERS = {"cuda": ("CuPy", "torch", "floor"), "host": ("NumPy",)}
_SECTIONS = {
    "elementwise": "Elementwise",
    "reduction": "Reductions",
    "stencil": "Stencils",
    "aggregate": "Scans, segments and keys",
    "core": "Core dimensions",
    "core beside peers": "Core dimensions beside CuPy and torch",
    "aggregate beside peers": "Scans, segments and keys beside CUB, cuSPARSE, CuPy and torch",
    "stencil beside peers": "Stencils beside cupyx.scipy.ndimage, torch and NumPy",
    "shipped": "Shipped kernels",
    "fuse": "Fused functions, beside torch.compile and CuPy's fuse",
    "fuse rows": "Fused functions of rows, beside a copy and torch.compile",
    "fuse beside CuPy": "Fused functions in units of CuPy's",
    "jit beside CUDA C++": "Kernels from Python functions, in units of the same ones in CUDA C++",
    "coldstart": "Cold start: process start to the first elementwise and reduction result",
    "build": "Build",
    "host device": "Costs of the host device",
    "gpus": "Several GPUs: time of a call until all have finished",
    "dask": "Dask: time on worker processes of one thread each",
}
_THROUGHPUT_SECTIONS = (
    "elementwise",
    "reduction",
    "stencil",
    "aggregate",
    "core",
    "shipped",
    "fuse",
    "fuse rows",
)
_MISSING = "–"


def verdict(results: Results, row: Throughput | Overhead | Figure) -> str:
    """Return "ok", "MISS", "FAILED", or nothing for a row without a target."""
    if row.problem:
        return "WRONG" if "WRONG RESULT" in row.problem else "FAILED"
    return {True: "ok", False: "MISS", None: ""}[is_met(results, row)]


# ---- terminal


def heading(results: Results, section: str) -> str:
    """Return the column titles above the lines of a section."""
    if section == "overhead":
        peers = _OVERHEAD_PEERS[results.kind]
        cells = [f"{'us':>7}", *(f"{peer:>6}" for peer in peers), f"{'ratio':>6}"]
    elif section in ("gpus", "dask"):
        unit = "GPU" if section == "gpus" else "worker"
        return f"{section:<{_NAME}}{f'1 {unit}':>13}{f'2 {unit}s':>13}{'speed-up':>13}"
    elif section in _THROUGHPUT_SECTIONS:
        peers = _THROUGHPUT_PEERS[results.kind]
        cells = [f"{_unit(results):>7}", f"{'/copy':>7}", *(f"{peer:>7}" for peer in peers)]
    else:
        return _SECTIONS.get(section, section)
    return _line(section, cells, "target", "")


def line(results: Results, row: Throughput | Overhead | Figure | Scaling) -> str:
    """Return the line of a row, with what went wrong behind or below it."""
    if isinstance(row, Throughput):
        text = _throughput_line(results, row)
    elif isinstance(row, Overhead):
        text = _overhead_line(results, row)
    elif isinstance(row, Scaling):
        cells = [f"{cell:>13}" for cell in _scaling_cells(row, "kspec")]
        text = f"{row.name:<{_NAME}.{_NAME}}{''.join(cells)}".rstrip()
    else:
        value = _MISSING if row.problem else f"{row.value:.3g} {row.unit}"
        text = f"{row.name:<50.50}{value:>10}{row.target:>9} {verdict(results, row)}".rstrip()
    notes = [row.problem] if row.problem else list(getattr(row, "notes", ()))
    return "\n".join([text, *(f"    {note}"[:WIDTH] for note in notes)])


def _throughput_line(results: Results, row: Throughput) -> str:
    cells = [
        f"{_bandwidth(results, row, 'kspec'):>7}",
        f"{_ratio(fraction(results, row, 'copy')):>7}",
        *(f"{_bandwidth(results, row, peer):>7}" for peer in _THROUGHPUT_PEERS[results.kind]),
    ]
    return _line(row.name, cells, _target(row), verdict(results, row))


def _overhead_line(results: Results, row: Overhead) -> str:
    cells = [
        f"{_micro(row.samples.get('kspec')):>7}",
        *(f"{_micro(row.samples.get(peer)):>6}" for peer in _OVERHEAD_PEERS[results.kind]),
        f"{_ratio(row.ratio()):>6}",
    ]
    return _line(row.name, cells, _overhead_target(row), verdict(results, row))


def _line(name: str, cells: Sequence[str], target: str, status: str) -> str:
    narrow = target.replace(" × ", "×")[: _TARGET - 1]
    return f"{name:<{_NAME}.{_NAME}}{''.join(cells)}{narrow:>{_TARGET}} {status}".rstrip()


def summary(results: Results) -> list[str]:
    """Return what to say at the end: targets met, targets missed, problems."""
    rows: tuple[Throughput | Overhead | Figure, ...] = (
        *results.throughput,
        *results.overhead,
        *results.figures,
    )
    judged = [(row, is_met(results, row)) for row in rows]
    met = sum(one is True for _, one in judged)
    missed = [row for row, one in judged if one is False]
    lines = [f"{met} of {met + len(missed)} targets met."] if met or missed else []
    lines += [f"missed: {_missed(results, row)}" for row in missed]
    return [*lines, *(f"PROBLEM: {problem}" for problem in results.problems)]


def _missed(results: Results, row: Throughput | Overhead | Figure) -> str:
    if isinstance(row, Throughput):
        return f"{row.label} {_ratio(fraction(results, row, row.of))}, target {_target(row)}"
    if isinstance(row, Overhead):
        return f"overhead/{row.name} {_ratio(row.ratio())}, target {_overhead_target(row)}"
    return f"{row.section}/{row.name} {row.value:.3g} {row.unit}, target {row.target}"


# ---- Markdown


def markdown(results: Results) -> str:
    """Return the whole report."""
    blocks = [_head(results), *_throughput_tables(results)]
    if results.overhead:
        blocks.append(_overhead_table(results))
    sections = dict.fromkeys(figure.section for figure in results.figures)
    blocks += [_figure_table(results, section) for section in sections]
    sections = dict.fromkeys(row.section for row in results.scaling)
    blocks += [_scaling_table(results, section) for section in sections]
    if results.problems:
        blocks.append("## Problems\n\n" + "\n".join(f"* {text}" for text in results.problems))
    return "\n\n".join(blocks) + "\n"


def _head(results: Results) -> str:
    versions = ", ".join(f"{name} {text}" for name, text in results.versions.items())
    runs = "One run" if results.runs == 1 else f"{results.runs} runs"
    lines = [
        "# Results",
        "",
        f"{results.name}, {results.date}; {versions}. {runs} of `python -m benchmarks`, "
        f"{results.seconds:.0f} s.",
    ]
    copy = results.copy_bandwidth
    if copy:
        after = ""
        if results.copy_after:
            after = (
                f", {_scaled(results, results.copy_bytes / results.copy_after.median)} at the end"
            )
        lines += [
            "",
            f"A copy on the device moves {_scaled(results, copy)} {_unit(results)} "
            f"(read and written){after}. Bandwidths count each input read once and each output "
            f"written once; {results.elements:,} elements unless said otherwise.",
        ]
    lines += ["", *(f"* {text}" for text in (*summary(results), *results.missing))]
    return "\n".join(lines).rstrip()


def _throughput_tables(results: Results) -> list[str]:
    tables = []
    for section in _THROUGHPUT_SECTIONS:
        for held_out in (False, True):
            rows = [
                row
                for row in results.throughput
                if row.group == section and row.held_out == held_out
            ]
            if rows:
                tables.append(_throughput_table(results, section, held_out, rows))
    return tables


def _throughput_table(
    results: Results, section: str, held_out: bool, rows: Sequence[Throughput]
) -> str:
    peers = (*_THROUGHPUT_PEERS[results.kind], *_MORE_PEERS.get((results.kind, section), ()))
    title = f"## {_SECTIONS[section]}" + (", held-out shapes" if held_out else "")
    titles = ("case", f"kspec {_unit(results)}", "of the copy", *peers, "µs", "target", "")
    body = [
        (
            row.name,
            _bandwidth(results, row, "kspec"),
            _ratio(fraction(results, row, "copy")),
            *(_bandwidth(results, row, peer) for peer in peers),
            _micro(row.samples.get("kspec")),
            _target(row),
            verdict(results, row),
        )
        for row in rows
    ]
    shares = sorted(share for row in rows if (share := fraction(results, row, "copy")) is not None)
    note = ""
    if len(shares) > 1:
        note = f"\n\nOf the copy: median {statistics.median(shares):.2f}, least {shares[0]:.2f}."
    return f"{title}\n\n{_table(titles, body)}{note}"


def _overhead_table(results: Results) -> str:
    peers = (*_OVERHEAD_PEERS[results.kind], *_MORE_PEERS.get((results.kind, "overhead"), ()))
    titles = ("call", "kspec µs", "minimum", *peers, "ratio", "of minima", "target", "")
    body = [
        (
            row.name,
            _micro(row.samples.get("kspec")),
            _micro(row.samples.get("kspec"), minimum=True),
            *(_micro(row.samples.get(peer)) for peer in peers),
            _ratio(row.ratio()),
            _ratio(row.ratio(minimum=True)),
            _overhead_target(row),
            verdict(results, row),
        )
        for row in results.overhead
    ]
    return f"## Call overhead, 1000 elements\n\n{_table(titles, body)}"


def _figure_table(results: Results, section: str) -> str:
    rows = [figure for figure in results.figures if figure.section == section]
    body = [
        (
            row.name,
            _MISSING if row.problem else f"{row.value:.3g} {row.unit}",
            row.target,
            verdict(results, row),
        )
        for row in rows
    ]
    table = _table(("what", "measured", "target", ""), body)
    return f"## {_SECTIONS.get(section, section)}\n\n{table}"


def _scaling_table(results: Results, section: str) -> str:
    rows = [row for row in results.scaling if row.section == section]
    unit, peer = rows[0].unit, rows[0].peer
    titles = ("what", f"1 {unit}", f"2 {unit}s", "speed-up")
    if peer:
        titles += (f"{peer}, 1", f"{peer}, 2", "speed-up")
    body = [
        (
            f"{row.name}: {row.nbytes / 2**30:.3g} GiB",
            *_scaling_cells(row, "kspec"),
            *(_scaling_cells(row, peer) if peer else ()),
        )
        for row in rows
    ]
    return f"## {_SECTIONS[section]}\n\n{_table(titles, body)}"


def _scaling_cells(row: Scaling, who: str) -> tuple[str, ...]:
    """Return the times on one and on two, and how much more two do."""
    samples = [row.samples.get(f"{who} {count}") for count in (1, 2)]
    times = (_MISSING if one is None else f"{1e3 * one.median:.3g} ms" for one in samples)
    return (*times, _ratio(row.speedup(who)))


def _table(titles: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    rule = ["---", *("---:" for _ in titles[1:])]
    if not titles[-1]:
        rule[-1] = "---"
    rows = [titles, rule, *body]
    return "\n".join(
        "| " + "".join(f"{cell} | " if cell else "| " for cell in row).rstrip() for row in rows
    )


# ---- cells


def _unit(results: Results) -> str:
    return "TB/s" if results.kind == "cuda" else "GB/s"


def _scaled(results: Results, bandwidth: float) -> str:
    return f"{bandwidth / 1e12:.2f}" if results.kind == "cuda" else f"{bandwidth / 1e9:.1f}"


def _bandwidth(results: Results, row: Throughput, who: str) -> str:
    value = row.bandwidth(who)
    return _MISSING if value is None else _scaled(results, value)


def _ratio(value: float | None) -> str:
    if value is None:
        return _MISSING
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def _micro(sample: Sample | None, minimum: bool = False) -> str:
    if sample is None:
        return _MISSING
    value = 1e6 * (sample.minimum if minimum else sample.median)
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _target(row: Throughput) -> str:
    if row.target is None:
        return ""
    return f"{row.target:.2f}" + ("" if row.of == "copy" else f" × {row.of}")


def _overhead_target(row: Overhead) -> str:
    if row.target is None:
        return ""
    if row.slack:
        return f"+{1e6 * row.slack:g} µs"
    return f"{row.target:.2f}"
