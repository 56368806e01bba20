"""The command line: ``kspec build``, ``check``, ``show``, ``schema``, ``demo``, ``warm``.

Commands parse arguments and print; the work is done elsewhere in `kspec.build`.  Results go to
the standard output, progress and errors to the standard error.

====  =================================================================
Exit  Means
====  =================================================================
0     all right
1     wrong results, stale files, a damaged package, a file that can not be written
2     bad input: arguments, settings, specs, CUDA that does not compile
3     something is not installed
====  =================================================================
"""

from __future__ import annotations

import contextlib
import sys
import textwrap
import time
from collections.abc import Iterator, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import kspec
from kspec.build import images, project, show
from kspec.build.load import import_package
from kspec.build.settings import find_project
from kspec.errors import CompileError, KspecError, RenderError, SpecError, ToolNotFoundError
from kspec.spec.schema import render_schema

if TYPE_CHECKING:
    from kspec.build import warm as warming
    from kspec.runtime.device import Device

SCHEMA_FILE = "kspec.schema.json"
_EXIT_CODES = ((ToolNotFoundError, 3), (SpecError, 2), (CompileError, 2), (RenderError, 2))

app = typer.Typer(
    name="kspec",
    help="CUDA kernels declared once, as data.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Project = Annotated[
    Path | None,
    typer.Option("--project", metavar="DIR", help="Folder of pyproject.toml; default: this one."),
]


def main() -> None:
    """Run the command line and exit."""
    try:
        app()
    except KspecError as error:
        sys.exit(_fail(error))
    except OSError as error:  # a folder that can not be written, a full disk
        if error.filename is None:
            raise
        sys.exit(_fail(KspecError(f"{error.filename}: {error.strerror}")))


def exit_code(error: KspecError) -> int:
    """Return the exit status that stands for an error."""
    return next((code for kind, code in _EXIT_CODES if isinstance(error, kind)), 1)


def _fail(error: KspecError) -> int:
    # Never wrapped or styled: carets must stay under what they point at.
    print(f"kspec: {error}" if "\n" not in str(error) else f"kspec:\n{error}", file=sys.stderr)
    return exit_code(error)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"kspec {kspec.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def build(
    arch: Annotated[
        list[str] | None,
        typer.Option("--arch", help="Architecture such as sm_90; repeat it. Default: configured."),
    ] = None,
    folder: Project = None,
    no_compile: Annotated[
        bool, typer.Option("--no-compile", help="Write text only; kernels compile on first use.")
    ] = False,
) -> None:
    """Render and compile the specs into the generated package."""
    _build(_project(folder), tuple(arch or ()), not no_compile)


@app.command()
def check(folder: Project = None) -> None:
    """Exit with 1 and a diff if the generated package is not what the specs say."""
    difference = project.check_project(_project(folder))
    if difference:
        print(difference, end="")
        print("kspec: generated files are stale; run `kspec build`", file=sys.stderr)
        raise typer.Exit(1)
    print("generated files are up to date")


@app.command("show")
def show_command(
    name: Annotated[str, typer.Argument(help="Kernel, with or without its module.")],
    stage: Annotated[
        str, typer.Option("--stage", help=f"One of {', '.join(show.STAGES)}.")
    ] = "signature",
    folder: Project = None,
) -> None:
    """Print one kernel at one stage of the pipeline."""
    print(show.show_kernel(project.plan_project(_project(folder)), name, stage).rstrip("\n"))


@app.command()
def schema(
    checking: Annotated[
        bool, typer.Option("--check", help=f"Exit with 1 if {SCHEMA_FILE} is stale.")
    ] = False,
    write: Annotated[bool, typer.Option("--write", help=f"Write {SCHEMA_FILE}.")] = False,
    folder: Project = None,
) -> None:
    """Print the JSON Schema of spec files, for editors."""
    text = render_schema()
    if not (checking or write):
        print(text, end="")
        return
    path = _project(folder) / SCHEMA_FILE
    if write:
        path.write_text(text, encoding="utf-8")
    elif not path.is_file() or path.read_text(encoding="utf-8") != text:
        state = "stale" if path.is_file() else "missing"
        print(f"kspec: {SCHEMA_FILE} is {state}; run `kspec schema --write`", file=sys.stderr)
        raise typer.Exit(1)
    else:
        print(f"{SCHEMA_FILE} is up to date")


@app.command()
def demo(folder: Project = None) -> None:
    """Build, then run every kernel that has an example on every device present."""
    # Only what runs kernels imports NumPy and the runtime: 0.1 s that a build would wait for.
    from kspec.build import demo as demo_view
    from kspec.runtime.device import devices

    report = _build(_project(folder), (), True)
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
    with _bar("running", total) as advance:
        for row in demo_view.run_demo(report.plan, package, present):
            rows.append(row)
            advance(f"{row.kernel} on {row.device}")
    # Wide enough for the table where nobody looks at a terminal.
    Console(width=None if sys.stdout.isatty() else 110).print(demo_view.demo_table(rows))
    wrong = [row for row in rows if row.problem]
    for row in wrong:
        print(f"kspec: {row.kernel} on {row.device}: {row.problem}", file=sys.stderr)
    if wrong:
        print(f"kspec: {len(wrong)} of {len(rows)} results are wrong", file=sys.stderr)
        raise typer.Exit(1)


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
    from kspec.build import warm as warming

    if package is not None and folder is not None:
        raise SpecError("give a package or --project, not both")
    chosen = warming.wanted_devices(tuple(device or ()))
    if package is None:
        opened = warming.project_package(_project(folder))
    else:
        opened = warming.installed_package(package)
    failed = [one for place in chosen for one in _warm(opened, place)]
    lazy = warming.undeclared_kernels(opened)
    if lazy:
        _fill(f"without types, so compiled when called: {', '.join(lazy)}")
    for one in failed:
        print(f"kspec: {one.kernel} on {one.kernel.device}:\n{one.error}", file=sys.stderr)
    if failed:
        raise typer.Exit(max(exit_code(one.error) for one in failed if one.error))


def _warm(package: warming.Package, device: Device) -> list[warming.Warmed]:
    """Warm a package on one device and print a summary; return what failed."""
    from kspec.build import warm as warming

    kernels = warming.wanted_kernels(package, device)
    start, rows = time.perf_counter(), []
    with _bar("warming", len(kernels)) as advance:
        for row in warming.warm(kernels):
            rows.append(row)
            advance(_shortened(f"{row.kernel}: {row.origin or 'failed'}"))
    failed = [row for row in rows if row.error]
    found = [row.origin for row in rows]
    origins = ", ".join(f"{found.count(origin)} {origin}" for origin in warming.ORIGINS)
    ready = f"{len(rows) - len(failed)} of {len(kernels)} ready"
    seconds = time.perf_counter() - start
    _fill(f"{package.index.package} on {device}: {ready}, {seconds:.1f} s ({origins})")
    return failed


def _fill(text: str) -> None:
    print(textwrap.fill(text, 80, break_on_hyphens=False, break_long_words=False))


def _shortened(label: str, most: int = 56) -> str:
    # What is left of 80 columns beside "warming 1234/1234: ".
    return label if len(label) <= most else f"{label[: most - 3]}..."


def _project(folder: Path | None) -> Path:
    return folder.resolve() if folder is not None else find_project(Path.cwd())


def _build(folder: Path, archs: tuple[str, ...], compiling: bool) -> project.BuildReport:
    with _compile_progress() as progress:
        report = project.build_project(folder, archs, compiling, progress)
    settings = report.plan.settings
    kernels = f"{_count(report.plan.specs, 'kernel')} in {_count(report.plan.units, 'module')}"
    for built in report.images.values():
        kernels += f", for {' '.join(built.entry.archs)}"
        break
    state = f"{_count(report.changed, 'file')} written" if report.changed else "up to date"
    print(f"{settings.package}: {kernels}; {state}")
    return report


def _count(things: Sized, noun: str) -> str:
    return f"{len(things)} {noun}{'' if len(things) == 1 else 's'}"


class _Advance:
    """Moves a progress bar, or prints lines where there is no terminal."""

    def __init__(self, verb: str, total: int, bar: Progress | None) -> None:
        self._verb = verb
        self._total = total
        self._done = 0
        self._bar = bar
        self._task = bar.add_task(verb, total=total) if bar else None

    def __call__(self, label: str, total: int | None = None) -> None:
        self._done += 1
        self._total = total or self._total
        if self._bar is None or self._task is None:
            print(f"{self._verb} {self._done}/{self._total}: {label}", file=sys.stderr)
        else:
            self._bar.update(
                self._task,
                completed=self._done,
                total=self._total,
                description=f"{self._verb} {label}",
            )


@contextlib.contextmanager
def _bar(verb: str, total: int) -> Iterator[_Advance]:
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Advance(verb, total, None)
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        yield _Advance(verb, total, bar)


@contextlib.contextmanager
def _compile_progress() -> Iterator[images.Progress]:
    with _bar("compiling", 0) as advance:
        yield lambda step: advance(f"{step.stem} for {step.arch}", step.total)


if __name__ == "__main__":
    main()
