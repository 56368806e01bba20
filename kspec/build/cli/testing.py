"""``kspec test``: kernels against their references."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console

from kspec import config
from kspec.build.cli.app import Project, app, project_folder
from kspec.build.cli.building import build_and_report
from kspec.build.cli.output import print_filled, progress_bar
from kspec.build.load import import_package
from kspec.errors import counted


@app.command("test")
def test_command(
    kernels: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KERNEL]...",
            help="With or without their module, or a form: total.scan. "
            "Default: all with a reference.",
        ),
    ] = None,
    device: Annotated[
        list[str] | None,
        typer.Option("--device", help="host, cuda or cuda:N; repeat it. Default: all present."),
    ] = None,
    examples: Annotated[
        int, typer.Option(min=1, metavar="N", help="Calls of each kernel on each device.")
    ] = 50,
    seed: Annotated[int, typer.Option(help="Another seed tries other calls.")] = 0,
    folder: Project = None,
) -> None:
    """Build, then compare kernels with their references on arguments drawn at random.

    This evaluates the Python expressions that the specs have as 'reference'.
    """
    from kspec.build.properties.needs import require_hypothesis

    require_hypothesis()
    from kspec.build.properties import runner, table
    from kspec.build.tools.warm import wanted_devices
    from kspec.runtime.driver.device import devices

    config.allow_compiling()  # NumPy arrays always need it
    present = wanted_devices(tuple(device)) if device else devices()
    on_gpu = any(not one.is_host for one in present)
    plan = build_and_report(project_folder(folder), (), on_gpu).plan
    package = import_package(plan.settings.package_folder)
    subjects = runner.subjects(plan, package, tuple(kernels or ()))
    if not subjects:
        print(
            "kspec: nothing to test: no kernel has a reference "
            "(docs/testing-kernels.md describes them)",
            file=sys.stderr,
        )
        raise typer.Exit(1)
    count = len({id(one.spec) for one in subjects})
    print_filled(
        f"evaluating the reference of {counted(count, 'kernel')} from "
        f"{plan.settings.specs}/, with the names np and math; seed {seed}"
    )
    outcomes = []
    with progress_bar("testing", len(subjects) * len(present)) as advance:
        for outcome in runner.test_all(subjects, present, examples, seed):
            outcomes.append(outcome)
            advance(f"{outcome.kernel} on {outcome.device}")
    Console(width=None if sys.stdout.isatty() else 80).print(table.outcome_table(outcomes))
    failed = [one for one in outcomes if one.problem]
    for one in failed:
        problem = one.problem.replace("\n", "\n# ")
        print(f"\n# {one.kernel} on {one.device} fails:\n{one.reproducer or f'# {problem}'}")
    if failed:
        print(f"\nkspec: {len(failed)} of {len(outcomes)} fail", file=sys.stderr)
        raise typer.Exit(1)
