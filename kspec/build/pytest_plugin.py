"""``pytest --kspec``: every kernel with a reference is a test, on each device present.

With the option the spec files of the project around pytest's root are collected like files of
tests: ``specs/norms.toml::l2norm[host]``.  They join what is run unless the command line names
other files.

With ``--kspec-review`` every launch on the host device is reviewed (`kspec.review`), and kernels
are listed at the end, those that move the most for nothing first.

With ``kspec_watch = true`` in the configuration of pytest, the project's generated package is
written again when tests import it and the specs have changed, as in an editable install.

Without these the plugin does nothing and imports nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

Row = list[Any]  # `kspec.reviews.table.row_of`

if TYPE_CHECKING:
    from kspec.build.properties.runner import Outcome, Subject
    from kspec.runtime.driver.device import Device


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("kspec", "kernels of kspec")
    group.addoption(
        "--kspec",
        action="store_true",
        help="test the kernels of this project against their references",
    )
    group.addoption(
        "--kspec-examples", type=int, default=50, metavar="N", help="calls of each kernel (50)"
    )
    group.addoption(
        "--kspec-seed", type=int, default=0, metavar="N", help="another seed tries other calls (0)"
    )
    group.addoption(
        "--kspec-device",
        action="append",
        metavar="DEVICE",
        help="host, cuda or cuda:N; repeat it (all present)",
    )
    group.addoption(
        "--kspec-review",
        action="store_true",
        help="review what the tests launch on the host device: sectors, conflicts, divergence",
    )
    parser.addini(
        "kspec_watch",
        type="bool",
        default=False,
        help="write the generated package again when it is imported and the specs have changed",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Have the generated package watched, if it shall be, before a conftest.py imports it.

    Where specs cannot be read, because only what a deployment needs is installed, the package is
    tested as it is.
    """
    if not early_config.getini("kspec_watch"):
        return
    from kspec.build.develop import watch_package
    from kspec.build.properties.needs import can_build
    from kspec.build.settings import find_project, load_settings
    from kspec.errors import KspecError

    if not can_build():
        return
    try:
        watch_package(load_settings(find_project(early_config.rootpath)))
    except KspecError as error:
        raise pytest.UsageError(f"kspec_watch: {error}") from error


def pytest_configure(config: pytest.Config) -> None:
    """Open the project, if kernels shall be tested, and review launches if that is asked for."""
    if config.getoption("--kspec-review"):
        config.pluginmanager.register(Reviews(), "kspec-reviews")
    if not config.getoption("--kspec"):
        return
    from kspec.errors import KspecError

    try:
        project = Kernels(config)
    except KspecError as error:
        raise pytest.UsageError(f"--kspec: {error}") from error
    config.pluginmanager.register(project, "kspec-kernels")


class Kernels:
    """The kernels of the project that pytest runs in: collects its spec files."""

    def __init__(self, config: pytest.Config) -> None:
        from kspec.build.properties.needs import require_hypothesis
        from kspec.build.settings import find_project, load_settings

        require_hypothesis()
        self.folder = find_project(config.rootpath)
        self.specs = load_settings(self.folder).spec_folder
        self._subjects: dict[str, list[Subject]] = {}
        self._devices: tuple[Device, ...] = ()
        named = config.args_source is pytest.Config.ArgsSource.ARGS
        inside = any(self.specs.is_relative_to(_path(config, one)) for one in config.args)
        if not named and not inside:
            config.args.append(str(self.specs))

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> Any:
        """Collect the project's spec files."""
        if file_path.suffix != ".toml" or file_path.parent != self.specs:
            return None
        return SpecFileCollector.from_parent(parent, path=file_path, kernels=self)

    def subjects(self, stem: str, config: pytest.Config) -> list[Subject]:
        """Return the kernels of a spec file that have a reference."""
        if not self._subjects:
            self._open(config)
        return self._subjects.get(stem, [])

    @property
    def devices(self) -> tuple[Device, ...]:
        """Devices of the tests."""
        return self._devices

    def _open(self, config: pytest.Config) -> None:
        from kspec.build.develop import refresh
        from kspec.build.load import import_package
        from kspec.build.package.stale import stale_diff
        from kspec.build.project import plan_project
        from kspec.build.properties.runner import subjects
        from kspec.build.tools.warm import wanted_devices
        from kspec.errors import LoadError
        from kspec.runtime.driver.device import devices

        if config.getini("kspec_watch"):
            refresh(self.folder)
        plan = plan_project(self.folder)
        if stale_diff(plan):
            raise LoadError(f"{plan.settings.package} is not what the specs say; run `kspec build`")
        names = config.getoption("--kspec-device")
        self._devices = wanted_devices(tuple(names)) if names else devices()
        for unit in plan.units:
            self._subjects[unit.stem] = []
        for one in subjects(plan, import_package(plan.settings.package_folder)):
            self._subjects[one.name.partition(".")[0]].append(one)


_REVIEWED = "kspec-review"  # of the properties of a report, in which xdist's workers send them


class Reviews:
    """Reviews all launches of the tests, and lists them at the end."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], Row] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Record the launches of a test."""
        from kspec.reviews.call import reviewing
        from kspec.reviews.table import row_of

        with reviewing() as launches:
            yield
        rows = {tuple(row) for row in map(row_of, launches)}
        item.user_properties += [(_REVIEWED, list(row)) for row in sorted(rows)]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the reviews of a test."""
        for name, row in report.user_properties if report.when == "call" else ():
            if name == _REVIEWED and isinstance(row, list):
                self._rows[row[0], row[1]] = row

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """List the kernels."""
        from kspec.reviews.table import rows_text

        terminalreporter.section("kspec: reviews of launches on the host device")
        terminalreporter.write_line(rows_text(list(self._rows.values())))


class SpecFileCollector(pytest.File):
    """A spec file."""

    def __init__(self, *, kernels: Kernels, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.kernels = kernels

    def collect(self) -> Iterator[KernelTest]:
        """Yield a test for each kernel and device."""
        from kspec.errors import KspecError

        try:
            subjects = self.kernels.subjects(self.path.stem, self.config)
        except KspecError as error:
            raise self.CollectError(str(error)) from error
        for subject in subjects:
            for device in self.kernels.devices:
                name = f"{subject.name.partition('.')[2]}[{device}]"
                yield KernelTest.from_parent(self, name=name, subject=subject, device=device)


class KernelTest(pytest.Item):
    """One kernel on one device."""

    def __init__(self, *, subject: Subject, device: Device, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.subject = subject
        self.device = device

    def runtest(self) -> None:
        """Compare the kernel with its reference."""
        from kspec import config
        from kspec.build.properties.runner import test_kernel
        from kspec.errors import ToolNotFoundError

        count, seed = (self.config.getoption(f"--kspec-{one}") for one in ("examples", "seed"))
        with pytest.MonkeyPatch.context() as patch:
            config.allow_compiling(patch.setenv)
            try:
                outcome = test_kernel(self.subject, self.device, count, seed)
            except ToolNotFoundError as error:
                pytest.skip(str(error))
        if outcome.problem:
            raise KernelFailure(outcome)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return Python to paste instead of a traceback."""
        error = excinfo.value
        if isinstance(error, KernelFailure):
            return error.outcome.reproducer or error.outcome.problem
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the place of the test."""
        return self.path, None, f"{self.subject.name} on {self.device}"


class KernelFailure(AssertionError):
    """A kernel does not agree with its reference."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.problem)
        self.outcome = outcome


def _path(config: pytest.Config, argument: str) -> Path:
    path = config.invocation_params.dir / argument.partition("::")[0]
    return Path(os.path.realpath(path))
