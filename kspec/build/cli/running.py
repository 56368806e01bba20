"""``kspec demo`` and ``warm``: what needs devices."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from kspec import config
from kspec.build.cli.app import Project, app, exit_code, project_folder
from kspec.build.cli.building import build_and_report
from kspec.build.cli.output import print_filled, progress_bar
from kspec.build.load import import_package
from kspec.errors import SpecError

if TYPE_CHECKING:
    from kspec.build.project import BuildReport
    from kspec.build.tools import warm as warming
    from kspec.runtime.driver.device import Device


@app.command()
def demo(folder: Project = None) -> None:
    """Run every kernel that has an example on every device present.

    Brings the generated package up to date first; kernels without an image are compiled for the
    devices present alone.
    """
    # Only what runs kernels imports NumPy and the runtime: 0.1 s that a build would wait for.
    from kspec.build.tools import demo as demo_view
    from kspec.runtime.driver.device import devices

    config.allow_compiling()  # NumPy arrays always need it
    report = build_and_report(project_folder(folder), (), compiling=False)
    if lazy := _without_image(report):
        print(
            f"kspec: compiled on first use: {lazy}; `kspec build` makes their images",
            file=sys.stderr,
        )
    package = import_package(report.plan.settings.package_folder)
    present = devices()
    total = demo_view.count_rows(report.plan, present)
    if not total:
        print(
            "kspec: nothing to run: no kernel has both an example and a reference "
            "(docs/writing-kernels.md describes them)",
            file=sys.stderr,
        )
        raise typer.Exit(1)
    rows = []
    with progress_bar("running", total) as advance:
        for row in demo_view.run_demo(report.plan, package, present):
            rows.append(row)
            advance(f"{row.kernel} on {row.device}")
    # Wide enough for the table where the output is not a terminal.
    Console(width=None if sys.stdout.isatty() else 110).print(demo_view.demo_table(rows))
    wrong = [row for row in rows if row.problem]
    for row in wrong:
        end = "\n" if "\n" in row.problem else " "
        print(f"kspec: {row.kernel} on {row.device}:{end}{row.problem}", file=sys.stderr)
    if wrong:
        print(f"kspec: {len(wrong)} of {len(rows)} results are wrong", file=sys.stderr)
        raise typer.Exit(1)


def _without_image(report: BuildReport) -> str:
    """Return the kernels that are precompiled, but have no image, as text."""
    wanted = [group.name for unit in report.plan.units for group in unit.groups]
    found = {name for name, built in report.images.items() if built.code}
    missing = [name for name in wanted if name not in found]
    return "all kernels" if missing == wanted else ", ".join(missing)


@app.command("warm")
def warm_command(
    package: Annotated[
        str | None,
        typer.Argument(
            metavar="PACKAGE", help="Installed generated package; default: the project's."
        ),
    ] = None,
    device: Annotated[
        list[str] | None,
        typer.Option("--device", help="host, cuda or cuda:N; repeat it. Default: every GPU."),
    ] = None,
    folder: Project = None,
) -> None:
    """Load or compile every kernel that a generated package declares, before it is called."""
    from kspec.build.tools import warm as warming

    if package is not None and folder is not None:
        raise SpecError("give a package or --project, not both")
    chosen = warming.wanted_devices(tuple(device or ()))
    if package is None:
        opened = warming.project_package(project_folder(folder))
    else:
        opened = warming.installed_package(package)
    failed = [one for place in chosen for one in _warm(opened, place)]
    lazy = warming.undeclared_kernels(opened)
    if lazy:
        print_filled(f"without types, so compiled when called: {', '.join(lazy)}")
    for one in failed:
        print(f"kspec: {one.kernel} on {one.kernel.device}:\n{one.error}", file=sys.stderr)
    if failed:
        raise typer.Exit(max(exit_code(one.error) for one in failed if one.error))


def _warm(package: warming.Package, device: Device) -> list[warming.Warmed]:
    """Warm a package on one device and print a summary; return what failed."""
    from kspec.build.tools import warm as warming

    kernels = warming.wanted_kernels(package, device)
    start, rows = time.perf_counter(), []
    with progress_bar("warming", len(kernels)) as advance:
        for row in warming.warm(kernels):
            rows.append(row)
            advance(_shortened(f"{row.kernel}: {row.origin or 'failed'}"))
    failed = [row for row in rows if row.error]
    found = [row.origin for row in rows]
    origins = ", ".join(f"{found.count(origin)} {origin}" for origin in warming.ORIGINS)
    ready = f"{len(rows) - len(failed)} of {len(kernels)} ready"
    seconds = time.perf_counter() - start
    print_filled(f"{package.index.package} on {device}: {ready}, {seconds:.1f} s ({origins})")
    return failed


def _shortened(label: str, most: int = 46) -> str:
    # What is left of 80 columns beside "warming 1234/1234: " and ", 119 s left".
    return label if len(label) <= most else f"{label[: most - 3]}..."
