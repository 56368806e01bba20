"""The build hook of hatchling: a project's specs become kernels in its wheel.

::

    [build-system]
    requires = ["hatchling", "kspec[build]"]

    [tool.hatch.build.hooks.kspec]
    archs = ["sm_90"]                    # optional, instead of those of [tool.kspec]
    watch = false                        # optional: an editable install leaves specs alone

======================  ====================================================================
Target                  What the hook does
======================  ====================================================================
metadata                nothing
wheel                   builds everything and adds the package, with its images, and a bill
                        of materials
editable wheel          writes the text if it is stale, and has it watched: it is written
                        again when it is imported and the specs have changed
source distribution     adds the specs and the text that they render to, without images
======================  ====================================================================

The wheel stays pure: the images are data that the driver takes, whatever the Python.

pip reads a project's metadata from a wheel that hatchling builds, and installs that wheel if it is
still there. The hook leaves it empty and removes it, so that pip asks for the wheel itself.
"""

from __future__ import annotations

import atexit
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.plugin import hookimpl

from kspec.build.atomic_replace import list_folder
from kspec.build.develop import editable_files
from kspec.build.images import Step
from kspec.build.load import import_path
from kspec.build.pace import Pace
from kspec.build.package import bill
from kspec.build.package.files import make_manifest
from kspec.build.plan import BuildPlan
from kspec.build.project import BuildReport, build_project, check_project, plan_project
from kspec.build.settings import Settings
from kspec.build.stamp import headers_elsewhere, write_stamp
from kspec.compiler.scratch import scratch_folder
from kspec.errors import SpecError
from kspec.files import resolved
from kspec.model import manifest


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
        # What only this build needs, until `finalize`.
        self._scratch = ExitStack()
        scratch = self._scratch.enter_context(scratch_folder("hook"))
        if _is_for_metadata():
            self._leave_out_everything()
            return
        if self.target_name == "wheel" and version != "editable":
            self._pace = Pace(0)
            report = build_project(project, self._archs(), progress=self._progress)
            self.app.display_info(f"kspec: {len(report.plan.specs)} kernels")
            build_data["force_include"].update(inclusions(report.plan.settings))
            build_data["sbom_files"].append(str(self._bill(report, scratch)))
            return
        started = time.time()
        if check_project(project):
            build_project(project, compiling=False)
        plan = plan_project(project)
        if self.target_name == "sdist":
            build_data["force_include"].update(sources(plan, scratch))
            self._leave_out(f"/{plan.settings.package}/*.fatbin")
        elif self._watching():
            # What is set here replaces what is configured, and hatchling looks at the one to see
            # whether there is anything to install, at the other for what it is.
            files = editable_files(plan, scratch)
            write_stamp(plan, started)
            build_data["force_include"].update(files)
            configured = self.build_config.get_force_include()
            build_data["force_include_editable"].update({**configured, **files})

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was only for hatchling to collect, or for its metadata to be read."""
        self._scratch.close()
        if _is_for_metadata():
            atexit.register(Path(artifact_path).unlink, missing_ok=True)

    def _bill(self, report: BuildReport, scratch: Path) -> Path:
        """Write the bill of materials for hatchling to collect; return its path."""
        made = bill.Distribution(self.metadata.name, self.metadata.version)
        place = import_path(report.plan.settings.package_folder)
        path = scratch / bill.FILE_NAME
        path.write_text(bill.render_bill(made, report.plan, report.images, place), encoding="utf-8")
        return path

    def _archs(self) -> tuple[str, ...]:
        archs = self.config.get("archs", [])
        if not isinstance(archs, list) or not all(isinstance(arch, str) for arch in archs):
            raise SpecError("[tool.hatch.build.hooks.kspec] archs: must be a list of strings")
        return tuple(archs)

    def _leave_out(self, pattern: str) -> None:
        # As if the project had configured it: hooks have no other way.
        table, common = self.build_config.target_config, self.build_config.build_config
        table["exclude"] = [*table.get("exclude", common.get("exclude", [])), pattern]

    def _leave_out_everything(self) -> None:
        # Files that are named have to exist, and may be what the hook has not made.
        nothing = {"exclude": ["*"], "artifacts": [], "force-include": {}, "bypass-selection": True}
        self.build_config.target_config.update(nothing)

    def _watching(self) -> bool:
        watching = self.config.get("watch", True)
        if not isinstance(watching, bool):
            raise SpecError("[tool.hatch.build.hooks.kspec] watch: must be true or false")
        return watching

    def _progress(self, step: Step) -> None:
        if not step.done:
            return
        self._pace.step(step.total, not step.cached)
        line = self._pace.line("compiling", f"{step.name} for {step.arch}")
        self.app.display_info(f"kspec: {line}")


def _is_for_metadata() -> bool:
    """Return whether this wheel is built for its metadata alone.

    pip calls backends through pyproject_hooks, each time in a new process. That builds a wheel if a
    backend has no function for metadata, and hatchling has none under pip.
    """
    program, call = (*sys.argv, "", "")[:2]
    return Path(program).name == "_in_process.py" and call == "prepare_metadata_for_build_wheel"


def inclusions(settings: Settings) -> dict[str, str]:
    """Return every file of the generated package and its place in the wheel.

    File by file, so that hatchling leaves out what ``packages`` of the project lists again.
    """
    folder = settings.package_folder
    place = import_path(folder)
    return {str(folder / name): f"{place}/{name}" for name in list_folder(folder)}


def sources(plan: BuildPlan, scratch: Path) -> dict[str, str]:
    """Return every file that a source distribution needs, and its place in it.

    The manifest is one that knows of no images: whether there are some here changes nothing.
    """
    settings = plan.settings
    found = {
        str(path): path.relative_to(settings.project).as_posix() for path in headers_elsewhere(plan)
    }
    for folder in (settings.spec_folder, settings.package_folder):
        for name in list_folder(folder):
            path = folder / name
            if not resolved(path).is_relative_to(settings.project):
                raise SpecError(
                    f"{path.relative_to(settings.project)} is a link out of the project, which "
                    "a source distribution would copy; remove it"
                )
            if path.suffix != ".fatbin" and path.name != manifest.FILE_NAME:
                found[str(path)] = path.relative_to(settings.project).as_posix()
    index = scratch / manifest.FILE_NAME
    index.write_bytes(manifest.dump(make_manifest(plan, {})).encode())
    found[str(index)] = f"{settings.package}/{manifest.FILE_NAME}"
    return found


@hookimpl  # type: ignore[untyped-decorator,unused-ignore]
def hatch_register_build_hook() -> type[KspecBuildHook]:
    """Tell hatchling about the hook; found through the entry point group ``hatch``."""
    return KspecBuildHook
