"""Time kspec beside CuPy, torch and NumPy: ``python -m benchmarks``.

Every figure is of one process, and every result is compared with a reference before it counts.
Compare ratios; absolute times of different runs, or of shared machines, say little.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.text import Text

import kspec
from benchmarks import report
from benchmarks.machines import make_machine
from benchmarks.plots import draw_plots
from benchmarks.results import (
    Figure,
    Journal,
    Overhead,
    Results,
    Scaling,
    Throughput,
    joined,
    load,
)
from benchmarks.suite import Suite, describe

_STYLES = {"ok": "green", "MISS": "yellow", "WRONG": "bold red", "FAILED": "bold red"}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Time kspec beside CuPy, torch and NumPy, and check the results.",
    )
    parser.add_argument(
        "--device", choices=("cuda", "host"), help="default: the GPU if there is one"
    )
    parser.add_argument(
        "--only", metavar="PATTERN", help="cases whose section/name contains or matches this"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything, row by row")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="draw PNG and SVG files")
    parser.add_argument(
        "--quick", action="store_true", help="without held-out shapes, fewer repetitions"
    )
    parser.add_argument("--elements", type=int, metavar="N", help="elements of a case")
    parser.add_argument(
        "--load",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="measure nothing; report the --json of earlier runs on one machine",
    )
    options = parser.parse_args(arguments)
    if options.elements is not None and options.elements < 1024:
        parser.error("--elements: at least 1024")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite; return 1 if a result was wrong or a case failed."""
    options = parse(arguments)
    console = Console(width=max(80, min(100, Console().width)), highlight=False)
    if options.load is not None:
        results = joined([load(one.read_text(encoding="utf-8")) for one in options.load])
        for text in report.summary(results):
            console.print(text, markup=False)
    else:
        results = measure(options, console)
    write(results, options, console)
    return 1 if results.problems else 0


def measure(options: argparse.Namespace, console: Console) -> Results:
    """Measure, and show each row when it is there."""
    kind = options.device or ("cuda" if len(kspec.devices()) > 1 else "host")
    if kind == "cuda" and len(kspec.devices()) == 1:
        console.print("no GPU here: measuring on the host device instead", markup=False)
        kind = "host"
    began = time.perf_counter()
    machine = make_machine(kind, options.elements)
    journal = Journal(describe(machine, datetime.now(UTC)), options.json)
    console.print(f"{machine.name}: {machine.elements:,} elements a case", markup=False)
    suite = Suite(machine, journal, options.only, options.quick)
    section = ""
    try:
        for row in suite.run():
            if isinstance(row, str):
                console.print(row, markup=False, style="dim")
                continue
            if section != (section := _section(row)):
                title = report.heading(journal.results, section)
                console.print(f"\n{title}", markup=False, style="bold")
            console.print(_styled(journal.results, row), soft_wrap=True)
    except KeyboardInterrupt:
        console.print("\ninterrupted: what is there is kept", markup=False)
    journal.update(seconds=time.perf_counter() - began)
    console.print()
    for text in report.summary(journal.results):
        console.print(text, markup=False)
    return journal.results


def write(results: Results, options: argparse.Namespace, console: Console) -> None:
    """Write the Markdown and the pictures that were asked for."""
    if options.markdown is not None:
        options.markdown.parent.mkdir(parents=True, exist_ok=True)
        options.markdown.write_text(report.markdown(results), encoding="utf-8")
    if options.plots is not None:
        try:
            draw_plots(results, options.plots)
        except ModuleNotFoundError as error:
            console.print(f"plots are left out: {error}", markup=False)


def _section(row: Throughput | Overhead | Figure | Scaling) -> str:
    if isinstance(row, Overhead):
        return "overhead"
    return row.group if isinstance(row, Throughput) else row.section


def _styled(results: Results, row: Throughput | Overhead | Figure | Scaling) -> Text:
    text = Text(report.line(results, row))
    for word, style in _STYLES.items():
        text.highlight_regex(rf"(?m) {word}$", style)
    return text


if __name__ == "__main__":
    sys.exit(main())
