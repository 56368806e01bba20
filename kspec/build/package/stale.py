"""Is the committed package what the specs say?  A plan in, a unified diff out; no compiler."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator
from dataclasses import replace

from kspec.build.atomic_replace import read_folder
from kspec.build.package import files
from kspec.build.plan import BuildPlan
from kspec.diagnostics import Diagnostic
from kspec.model import manifest
from kspec.model.manifest import Manifest


def stale_diff(plan: BuildPlan) -> str:
    """Return the difference of the generated text to that of a build; empty if there is none.

    Images are left out on both sides: they are not committed, and their sizes and registers
    are the compiler's affair.

    Raises
    ------
    NewerSchemaError
        If a newer kspec has built the package.
    """
    return "".join(file_diff(*row) for row in _differences(plan))


def stale_findings(plan: BuildPlan) -> tuple[Diagnostic, ...]:
    """Return an error for each generated file that is not what a build would write."""
    return tuple(_finding(*row) for row in _differences(plan))


def _differences(plan: BuildPlan) -> Iterator[tuple[str, bytes | None, bytes | None]]:
    """Yield the path of each file that differs, its text, and that of a build."""
    folder = plan.settings.package_folder
    have = {name: data for name, data in read_folder(folder).items() if name[-7:] != ".fatbin"}
    have.pop(manifest.FILE_NAME, None)
    want = files.text_files(plan)
    found, path = files.read_manifest(folder), folder / manifest.FILE_NAME
    if found is not None:
        have[path.name] = _without_images(found)
    elif path.is_file():
        problem = files.manifest_problem(folder, f"{plan.settings.package}/{path.name}")
        have[path.name] = f"({problem})\n".encode()
    want[manifest.FILE_NAME] = _without_images(files.make_manifest(plan, {}))
    for name in sorted(name for name in {*have, *want} if have.get(name) != want.get(name)):
        yield f"{plan.settings.package}/{name}", have.get(name), want.get(name)


def _finding(name: str, have: bytes | None, want: bytes | None) -> Diagnostic:
    what = (
        "is missing" if have is None else "is not a generated file" if want is None else "is stale"
    )
    pairs = zip(_lines(have), _lines(want), strict=False)
    equal = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    line = 0 if have is None or want is None else equal + 1
    return stale_finding(name, what, line)


def stale_finding(name: str, what: str = "is stale", line: int = 0) -> Diagnostic:
    """Return the error for one file."""
    return Diagnostic("error", what, name, line, code="stale", hint="run `kspec build`")


def file_diff(name: str, have: bytes | None, want: bytes | None) -> str:
    """Return a unified diff of a committed file and what a build writes; None: no such file."""
    # An empty file has no lines to show, but a header still says that it is missing.
    before = "/dev/null" if have is None else f"{name} (committed)"
    after = "/dev/null" if want is None else f"{name} (by kspec build)"
    lines = list(difflib.unified_diff(_lines(have), _lines(want), before, after))
    return "".join(lines) if lines else f"--- {before}\n+++ {after}\n"


def _without_images(index: Manifest) -> bytes:
    modules = tuple(replace(module, images=()) for module in index.modules)
    return manifest.dump(replace(index, modules=modules)).encode()


def _lines(data: bytes | None) -> list[str]:
    text = (data or b"").decode("utf-8", "replace")
    return [line if line.endswith("\n") else f"{line}\n" for line in text.splitlines(True)]
