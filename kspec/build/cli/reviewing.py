"""``kspec review``: the use of memory by kernels, without a GPU."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from kspec import config
from kspec.build.atomic_replace import write_whole
from kspec.build.cli.app import Project, app, project_folder
from kspec.build.cli.building import build_and_report
from kspec.build.cli.output import Form, FormOption, print_filled, progress_bar
from kspec.build.load import import_package
from kspec.build.report import lock as locks
from kspec.errors import SpecError, counted
from kspec.files import naming

if TYPE_CHECKING:
    from kspec.build.tools.review import Reviewed


@app.command("review")
def review_command(
    kernels: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KERNEL]...", help="With or without module; default: all with an example."
        ),
    ] = None,
    args: Annotated[
        list[str] | None,
        typer.Option(
            "--args",
            metavar="ARGUMENT",
            help="What the kernel is called with, instead of its example: float32[4096,1024] for "
            "an array, a number, axis=1; repeat it.",
        ),
    ] = None,
    gpu: Annotated[str, typer.Option(help="GPU that is reckoned with: H200, A100, sm_89.")] = (
        "H200"
    ),
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write the coloured source of one kernel."),
    ] = None,
    numbers: Annotated[
        bool, typer.Option("--numbers", help="Print the figures of each line and launch, too.")
    ] = False,
    save: Annotated[
        bool,
        typer.Option(
            "--save", help="Write the figures into kspec.lock, where budgets are checked."
        ),
    ] = False,
    form: FormOption = Form.text,
    folder: Project = None,
) -> None:
    """Review the use of memory: sectors, bank conflicts, divergence, an estimated time.

    They run on the host device, with the schedule of the GPU.
    """
    from kspec.build.tools import review as reviewing

    config.allow_compiling()
    project = project_folder(folder)
    report = build_and_report(project, (), compiling=save, with_reviews=not save)
    package = import_package(report.plan.settings.package_folder)
    found = reviewing.reviewables(report.plan, package, tuple(kernels or ()))
    if (args or html) and len(found) != 1:
        raise SpecError(f"{'--args' if args else '--html'} is for one kernel; name it")
    results = []
    with progress_bar("reviewing", len(found)) as advance:
        for one in reviewing.reviews(found, gpu, tuple(args or ())):
            results.append(one)
            advance(one.kernel.name)
    if form is Form.json:
        print(json.dumps([_data(one) for one in results if one.review], indent=1))
    elif html is not None and results[0].review is not None:
        with naming(html):
            html.write_text(results[0].review.html(), encoding="utf-8")
        print_filled(f"{html}: {results[0].kernel.name}")
    else:
        _print(results, numbers)
    failed = [one for one in results if one.problem]
    for one in failed:
        print(f"kspec: {one.kernel.name}: {one.problem}", file=sys.stderr)
    if failed:
        print(f"kspec: {counted(len(failed), 'kernel')} not reviewed", file=sys.stderr)
    if save:
        _save(project, results, bool(kernels), sys.stderr if form is Form.json else sys.stdout)
    if failed:
        raise typer.Exit(1)


def _save(project: Path, results: list[Reviewed], named: bool, stream: TextIO) -> None:
    """Write reviews into the lock, and check the budgets of the reviewed kernels."""
    from kspec.build.project import plan_project
    from kspec.build.report.budgets import check_reviews
    from kspec.build.tools.review import updated_lock

    before = locks.read_lock(project) or locks.Lock()
    after, unknown = updated_lock(before, results)
    if after != before:
        write_whole(project / locks.FILE_NAME, locks.dump(after).encode())
        print(f"written: {locks.FILE_NAME}", file=stream)
    else:
        print(f"{locks.FILE_NAME} is up to date", file=stream)
    if unknown:
        message = (
            f"not saved: {', '.join(unknown)}; {locks.FILE_NAME} has precompiled kernels only, "
            "so list their 'types'"
        )
        if named:
            raise SpecError(message)
        print(f"kspec: {message}", file=sys.stderr)
    check_reviews(plan_project(project), [one.kernel.spec.name for one in results])


def _print(results: list[Reviewed], numbers: bool) -> None:
    for one in results:
        if one.review is not None:
            print(f"{one.kernel.name}({', '.join(one.arguments)})")
            print(one.review if numbers else one.review.summary(), end="\n\n")


def _data(one: Reviewed) -> dict[str, object]:
    assert one.review is not None
    return {"name": one.kernel.name, "arguments": list(one.arguments), **one.review.to_dict()}
