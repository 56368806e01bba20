"""Is the committed package what the specs say?  A plan in, a unified diff out; no compiler."""

from __future__ import annotations

import difflib
from dataclasses import replace

from kspec import manifest
from kspec.build import files
from kspec.build.plan import BuildPlan
from kspec.build.swap import read_folder
from kspec.manifest import Manifest


def stale_diff(plan: BuildPlan) -> str:
    """Return how the generated text differs from what a build would write; empty if it does not.

    Images are left out on both sides: they are not committed, and their sizes and registers
    are the compiler's affair.
    """
    folder = plan.settings.package_folder
    have = {name: data for name, data in read_folder(folder).items() if name[-7:] != ".fatbin"}
    have.pop(manifest.FILE_NAME, None)
    want = files.text_files(plan)
    found = files.read_manifest(folder)
    if found is not None:
        have[manifest.FILE_NAME] = _without_images(found)
    elif (folder / manifest.FILE_NAME).is_file():
        have[manifest.FILE_NAME] = b"(damaged)\n"
    want[manifest.FILE_NAME] = _without_images(files.make_manifest(plan, {}))
    names = sorted(name for name in {*have, *want} if have.get(name) != want.get(name))
    paths = {name: f"{plan.settings.package}/{name}" for name in names}
    return "".join(file_diff(path, have.get(name), want.get(name)) for name, path in paths.items())


def file_diff(name: str, have: bytes | None, want: bytes | None) -> str:
    """Return a unified diff of a committed file and what a build writes; None: no such file."""
    # An empty file has no lines to show, but a header still says that it is missing.
    before = "/dev/null" if have is None else f"{name} (committed)"
    after = "/dev/null" if want is None else f"{name} (by kspec build)"
    lines = list(difflib.unified_diff(_lines(have), _lines(want), before, after))
    return "".join(lines) if lines else f"--- {before}\n+++ {after}\n"


def _without_images(index: Manifest) -> bytes:
    modules = tuple(replace(module, image=None) for module in index.modules)
    return manifest.dump(replace(index, modules=modules)).encode()


def _lines(data: bytes | None) -> list[str]:
    text = (data or b"").decode("utf-8", "replace")
    return [line if line.endswith("\n") else f"{line}\n" for line in text.splitlines(True)]
