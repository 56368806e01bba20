"""``kspec tune``: measure how kernels run fastest on the GPU that is there."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from kspec import config
from kspec.build.atomic_replace import write_whole
from kspec.build.cli.app import Project, app, project_folder
from kspec.build.cli.building import build_and_report
from kspec.build.cli.output import print_filled, progress_bar
from kspec.build.load import import_package
from kspec.build.report import lock as locks
from kspec.errors import SpecError, counted

if TYPE_CHECKING:
    from kspec.build.tools.tune import Measured


@app.command("tune")
def tune_command(
    kernels: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KERNEL]...",
            help="With or without their module. Default: all with an example and a reference.",
        ),
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=N,M", help="Shape of an array, instead of the examples'; repeat it."
        ),
    ] = None,
    dtype: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="T=NAME", help="Dtype of a placeholder; repeat it."),
    ] = None,
    device: Annotated[str, typer.Option(help="cuda or cuda:N.")] = "cuda",
    folder: Project = None,
) -> None:
    """Measure how kernels run fastest, and write that into kspec.lock and the package.

    Calls of about the same sizes on GPUs of the same name then run so.
    """
    from kspec.build.tools import tune
    from kspec.build.tools.warm import wanted_devices
    from kspec.runtime import driver

    (place,) = wanted_devices((device,))
    if place.is_host:
        raise SpecError("kspec tune measures on a GPU; the host device has nothing to choose")
    config.allow_compiling()
    project = project_folder(folder)
    plan = build_and_report(project, (), True).plan
    package = import_package(plan.settings.package_folder)
    found = tune.tunables(plan, package, tuple(kernels or ()))
    shapes = {name: _shape(name, text) for name, text in map(_pair, shape or ())}
    if shapes and len(found) != 1:
        raise SpecError("--shape is for one kernel; name it")
    results = []
    count = sum(len(tune.shapes_of(one, shapes)) for one in found)
    with progress_bar("tuning", count) as advance:
        for one in tune.tune(found, place, shapes, dict(map(_pair, dtype or ()))):
            results.append(one)
            advance(f"{one.kernel.module}.{one.kernel.name}")
    print(f"{driver.device_name(place.ordinal)}: medians of cold runs, in microseconds")
    Console(width=None if sys.stdout.isatty() else 80).print(_table(results))
    fixed = [one.kernel.name for one in results if one.case is None and not one.problem]
    if fixed:
        print_filled(f"nothing to choose: {', '.join(fixed)}")
    failed = [one for one in results if one.problem]
    for one in failed:
        print(f"kspec: {one.kernel.name}: {one.problem}", file=sys.stderr)
    faster = sum(one.choice is not None for one in results)
    print(f"{counted(faster, 'call')} of {len(results)} can be faster than by the rules")
    if _write(project, results):
        print(f"written: {locks.FILE_NAME}")
        build_and_report(project, (), True)
    if failed:
        raise typer.Exit(1)


def _write(project: Path, results: Sequence[Measured]) -> bool:
    """Write what was measured into the lock; return whether that has changed it."""
    from kspec.build.tools.tune import updated_lock

    before = locks.read_lock(project) or locks.Lock()
    after = updated_lock(before, results)
    if after != before:
        write_whole(project / locks.FILE_NAME, locks.dump(after).encode())
    return after != before


def _table(results: Sequence[Measured]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1))
    table.add_column("kernel", overflow="fold")
    table.add_column("call", overflow="fold")
    for title in ("rules", "tuned", "gain", "tried"):
        table.add_column(title, justify="right", no_wrap=True)
    for one in results:
        if one.case is None:
            continue
        is_faster = one.choice is not None
        table.add_row(
            one.kernel.name,
            " ".join([*one.case.types, *map(_extents, one.case.sizes)]),
            f"{one.seconds * 1e6:.1f}",
            f"{one.best * 1e6:.1f}" if is_faster else "",
            f"{one.gain:.2f}" if is_faster else "",
            str(one.choices),
        )
    return table


def _extents(sizes: tuple[int, ...]) -> str:
    return "\u00d7".join(map(str, sizes)) or "1"


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals or not value:
        raise SpecError(f"{text!r} is not NAME=VALUE")
    return name, value


def _shape(name: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(extent) for extent in text.split(","))
    except ValueError:
        raise SpecError(f"--shape {name}={text}: expected extents, such as 4096,1000") from None
