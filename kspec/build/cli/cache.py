"""``kspec cache info``, ``clear`` and ``verify``."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Annotated

import typer

from kspec import config
from kspec.build.cli.app import app
from kspec.build.cli.output import Form, FormOption
from kspec.build.tools import cache
from kspec.build.tools.cache import CacheReport, FolderReport
from kspec.errors import counted

commands = typer.Typer(help="Look at, empty or check the cache of compiled kernels.")
app.add_typer(commands, name="cache", no_args_is_help=True)


@commands.command()
def info(form: FormOption = Form.text) -> None:
    """Print where compiled kernels are kept, how many, and how often they were found."""
    report = cache.examine(config.cache_dir(), config.cache_layers(), config.cache_size())
    print(json.dumps(report.as_json(), indent=2) if form is Form.json else _text(report))


@commands.command()
def clear(
    older_than: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="Only what was not used for so long, such as 30d or 12h."),
    ] = None,
) -> None:
    """Remove compiled kernels; they are compiled again when they are called."""
    age = cache.parse_age(older_than) if older_than is not None else 0.0
    cleared = cache.clear(config.cache_dir(), age)
    removed = f"removed {counted(len(cleared.removed), 'file')} ({_size(cleared.size)})"
    print(f"{removed}, kept {cleared.kept}: {config.cache_dir()}")
    if cleared.stuck:
        print(f"kspec: {cleared.stuck} could not be removed or are in use", file=sys.stderr)
        raise typer.Exit(1)


@commands.command()
def verify(
    repair: Annotated[bool, typer.Option("--repair", help="Remove what is damaged.")] = False,
    form: FormOption = Form.text,
) -> None:
    """Check every compiled kernel; exit with 1 if damaged ones are left."""
    report = cache.examine(config.cache_dir(), config.cache_layers(), config.cache_size())
    own = cache.damaged(report.folder.path)
    left = cache.repair(own) if repair else own
    layers = [one for layer in report.layers for one in cache.damaged(layer.path)]
    total = report.folder.entries + sum(layer.entries for layer in report.layers)
    found, removed = [*own, *layers], len(own) - len(left)
    if form is Form.json:
        damage = [one.as_json() for one in found]
        print(json.dumps({"checked": total, "damaged": damage, "removed": removed}, indent=2))
    else:
        for one in found:
            print(f"{one.file.path}\n    {one.reason}")
        print(f"{total} checked, {len(found)} damaged, {removed} removed")
    if left:
        print(
            "kspec: damaged kernels are compiled again when they are called; "
            "`kspec cache verify --repair` removes them",
            file=sys.stderr,
        )
    if layers:
        print("kspec: layers are only read; have theirs replaced", file=sys.stderr)
    if left or layers:
        raise typer.Exit(1)


def _text(report: CacheReport) -> str:
    counters = report.counters
    found = f"{counters.disk_hits} here, {counters.layer_hits} in layers"
    lines = [
        *_folder_lines("folder", report.folder),
        f"limit     {_size(report.limit)}",
        f"found     {found}, by processes that ended",
        f"compiled  {counters.misses}, {counters.damaged} of them damaged",
    ]
    for layer in report.layers:
        lines += _folder_lines("layer", layer)
    return "\n".join(lines)


def _folder_lines(title: str, folder: FolderReport) -> list[str]:
    lines = [
        f"{title:10}{folder.path} ({folder.state})",
        f"images    {folder.entries} ({_size(folder.size)})",
    ]
    if folder.oldest is not None and folder.newest is not None:
        lines.append(f"used      {_day(folder.oldest)} to {_day(folder.newest)}")
    return lines


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().isoformat(" ", "minutes")[:16]


def _size(count: int) -> str:
    """Return a number of bytes for people.

    >>> _size(512), _size(3 << 20), _size(1536)
    ('512 bytes', '3.0 MiB', '1.5 KiB')
    """
    if count < 1024:
        return f"{count} bytes"
    number, units = count / 1024, iter(("KiB", "MiB", "GiB", "TiB"))
    unit = next(units)
    while number >= 1024 and unit != "TiB":
        number, unit = number / 1024, next(units)
    return f"{number:.1f} {unit}"
