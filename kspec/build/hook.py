"""The build hook of hatchling: a project's specs become kernels in its wheel.

::

    [build-system]
    requires = ["hatchling", "kspec[build]"]

    [tool.hatch.build.hooks.kspec]
    archs = ["sm_90"]                    # optional, instead of those of [tool.kspec]

======================  ====================================================================
Target                  What the hook does
======================  ====================================================================
wheel                   builds everything and adds the package, with its images
editable wheel          writes the text if it is stale; kernels compile on first use
source distribution     the same, so that the text in it fits its specs
======================  ====================================================================

The wheel stays pure: the images are data that the driver takes, whatever the Python.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.plugin import hookimpl

from kspec.build.images import Step
from kspec.build.load import import_path
from kspec.build.project import build_project, check_project
from kspec.build.settings import Settings
from kspec.build.swap import read_folder
from kspec.errors import SpecError


class KspecBuildHook(BuildHookInterface):  # type: ignore[misc,type-arg,unused-ignore]
    """Runs `kspec build` when hatchling builds a project."""

    PLUGIN_NAME = "kspec"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build before hatchling collects the files.

        Raises
        ------
        KspecError
            As for `kspec.build.project.build_project`; hatchling ends the build.
        """
        project = Path(self.root)
        if self.target_name != "wheel" or version == "editable":
            if check_project(project):
                build_project(project, compiling=False)
            return
        report = build_project(project, self._archs(), progress=self._progress)
        self.app.display_info(f"kspec: {len(report.plan.specs)} kernels")
        build_data["force_include"].update(inclusions(report.plan.settings))

    def _archs(self) -> tuple[str, ...]:
        archs = self.config.get("archs", [])
        if not isinstance(archs, list) or not all(isinstance(arch, str) for arch in archs):
            raise SpecError("[tool.hatch.build.hooks.kspec] archs: must be a list of strings")
        return tuple(archs)

    def _progress(self, step: Step) -> None:
        self.app.display_info(f"kspec: compiled {step.done}/{step.total}: {step.stem} {step.arch}")


def inclusions(settings: Settings) -> dict[str, str]:
    """Return every file of the generated package and its place in the wheel.

    File by file, so that hatchling leaves out what ``packages`` of the project lists again.
    """
    folder = settings.package_folder
    place = import_path(folder)
    return {str(folder / name): f"{place}/{name}" for name in read_folder(folder)}


@hookimpl  # type: ignore[untyped-decorator,unused-ignore]
def hatch_register_build_hook() -> type[KspecBuildHook]:
    """Tell hatchling about the hook; found through the entry point group ``hatch``."""
    return KspecBuildHook
