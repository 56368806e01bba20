"""A project in, what has to change for this version of kspec out: spec files and their schema.

Reads each spec file by itself: one that this kspec does not accept can be one that it upgrades.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from kspec.build.atomic_replace import write_whole
from kspec.build.settings import Settings
from kspec.dataclass import dataclass
from kspec.errors import SpecError
from kspec.files import is_file, read_regular
from kspec.spec.document.positions import document_text
from kspec.spec.document.versions import upgraded
from kspec.spec.schema import SCHEMA_FILE, render_schema


@dataclass(frozen=True)
class Upgrade:
    """The new bytes of a file, and a line about each change in it."""

    path: Path
    data: bytes
    changes: tuple[str, ...]


def find_upgrades(settings: Settings) -> tuple[Upgrade, ...]:
    """Return the files of a project that this kspec writes otherwise.

    Raises
    ------
    SpecError
        A spec file is not TOML.
    OSError
        A file cannot be read.
    """
    found = [_spec(path, settings.project) for path in sorted(settings.spec_folder.glob("*.toml"))]
    schema = settings.project / SCHEMA_FILE
    text = render_schema().encode()
    if is_file(schema) and read_regular(schema) != text:
        found.append(Upgrade(schema, text, ("the schema by which editors check spec files",)))
    return tuple(one for one in found if one is not None)


def write_upgrades(upgrades: tuple[Upgrade, ...]) -> None:
    """Write the files, each of them whole."""
    for one in upgrades:
        write_whole(one.path, one.data)


def _spec(path: Path, project: Path) -> Upgrade | None:
    before = read_regular(path)
    try:
        text, changes = upgraded(document_text(before))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        name = path.relative_to(project).as_posix()
        raise SpecError(f"{name}: not TOML: {error}") from None
    if not changes:
        return None
    ending = "\r\n" if b"\r\n" in before else "\n"
    return Upgrade(path, text.replace("\n", ending).encode(), tuple(changes))
