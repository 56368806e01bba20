"""``kspec tune``: what is measured, what is written, and what calls make of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.build.load import import_package
from kspec.build.package import files
from kspec.build.project import build_project, check_project, plan_project
from kspec.build.report import lock as locks
from kspec.build.report import locking
from kspec.build.report.lock import Lock, LockedKernel
from kspec.build.tools import tune
from kspec.errors import ManifestError, ShapeError, SpecError
from kspec.model.tuning import Choice, Tuned, TunedTable, TuningCase
from kspec.runtime import driver
from kspec.runtime.driver.device import HOST
from kspec.runtime.modules.loader import KernelLoader
from tests.projects import SQUARES

FASTER = Tuned("H200", ("float64",), ((20,), (30,)), {"layout": "kspec::Lines", "lanes": 3}, 1.25)


def write_tuned(project: Path, *entries: Tuned) -> None:
    """Write entries for ``squares.total`` into the lock of a project, as of its source."""
    lock = locks.read_lock(project)
    assert lock is not None
    kernels = []
    for kernel in lock.kernels:
        own = [
            Tuned(one.gpu, one.types, one.sizes, one.choice, one.gain, kernel.source[:12])
            for one in entries
            if kernel.name == "total"
        ]
        kernels.append(
            LockedKernel(
                kernel.module, kernel.name, kernel.compiler, kernel.source, kernel.rows, (*own,)
            )
        )
    (project / locks.FILE_NAME).write_text(locks.dump(Lock(tuple(kernels))), encoding="utf-8")


@pytest.fixture
def tuned(built: Path) -> Path:
    """The toy project, whose lock has an entry and whose package was built with it."""
    write_tuned(built, FASTER)
    build_project(built)
    return built


class TestLock:
    def test_loading_undoes_dumping(self) -> None:
        lock = Lock((LockedKernel("a", "f", "nvrtc", "5f0c", (), (FASTER,)),))
        text = locks.dump(lock)
        assert locks.load(text) == lock
        assert (
            '  { gpu = "H200", types = ["float64"], sizes = [[20], [30]], '
            'choice = { layout = "kspec::Lines", lanes = 3 }, gain = 1.25, source = "" },'
        ) in text.splitlines()

    def test_damage_is_named(self) -> None:
        text = locks.dump(Lock((LockedKernel("a", "f", "nvrtc", "5f0c", (), (FASTER,)),)))
        with pytest.raises(ManifestError, match=r"kspec.lock is damaged .*run `kspec build`"):
            locks.load(text.replace("gain = 1.25", 'gain = "much"'))

    def test_a_new_measurement_goes_in_the_place_of_an_old_one(self) -> None:
        kernel = LockedKernel("squares", "total", "nvrtc", "0123456789abcdef", (), (FASTER,))
        lock = Lock((kernel,))
        subject = tune.Tunable("squares", "total", None, print, None)  # type: ignore[arg-type]
        same = TuningCase("H200", ("float64",), ((20,), (30,)), list)
        other = TuningCase("H200", ("float64",), ((20,), (31,)), list)
        better = tune.Measured(subject, same, 9, {"lanes": 1}, 3e-6, 2e-6)
        (found,) = tune.updated_lock(lock, [better]).kernels
        assert found.tuned == (
            Tuned("H200", FASTER.types, FASTER.sizes, {"lanes": 1}, 1.5, "0123456789ab"),
        )
        (found,) = tune.updated_lock(lock, [tune.Measured(subject, other, 9)]).kernels
        assert found.tuned == (FASTER,)
        (found,) = tune.updated_lock(lock, [tune.Measured(subject, same, 9)]).kernels
        assert found.tuned == ()


class TestBuild:
    def test_wheels_carry_what_was_measured(self, tuned: Path) -> None:
        folder = plan_project(tuned).settings.package_folder
        index = files.read_manifest(folder)
        assert index is not None
        (entry,) = index.module("squares").tuned["total"]
        assert (entry.gpu, entry.sizes, entry.choice) == (FASTER.gpu, FASTER.sizes, FASTER.choice)
        package = import_package(folder)
        case = TuningCase("H200", ("float64",), ((25,), (40,)), list)
        assert package.squares._total.tuned.choice(case) == FASTER.choice
        assert not package.squares._square.tuned

    def test_a_build_keeps_it(self, tuned: Path) -> None:
        before = (tuned / locks.FILE_NAME).read_bytes()
        assert b"tuned = [" in before
        assert not build_project(tuned).lock.written
        assert (tuned / locks.FILE_NAME).read_bytes() == before
        assert not check_project(tuned) and not locking.lock_diff(plan_project(tuned))

    def test_a_package_without_it_is_stale(self, toy: Path) -> None:
        build_project(toy)
        write_tuned(toy, FASTER)
        assert '"gain": 1.25' in check_project(toy)

    def test_a_changed_kernel_is_to_be_tuned_again(self, tuned: Path) -> None:
        spec = tuned / "specs/squares.toml"
        spec.write_text(SQUARES.replace('map = "x"', 'map = "x + 0"'), encoding="utf-8")
        for _ in range(2):
            note = build_project(tuned).lock.note
            assert note == "changed since they were tuned; run `kspec tune squares.total`"
        assert "tuned = [" in (tuned / locks.FILE_NAME).read_text(encoding="utf-8")

    def test_a_newer_lock_is_left_alone(self, tuned: Path) -> None:
        path = tuned / locks.FILE_NAME
        path.write_text(path.read_text().replace("lock-version = 1", "lock-version = 2"))
        before = path.read_bytes()
        for use in (build_project, check_project):
            with pytest.raises(ManifestError, match="version 2, this kspec knows 1: upgrade kspec"):
                use(tuned)
        assert path.read_bytes() == before

    def test_a_damaged_lock_has_none(self, tuned: Path) -> None:
        (tuned / locks.FILE_NAME).write_text("lock-version = [", encoding="utf-8")
        assert not any(unit.tuned for unit in plan_project(tuned).units)


class Watch:
    """Takes the time that the kernel's choice has in a table."""

    def __init__(self, times: Callable[[Choice | None, int], float], kernel: Any) -> None:
        self.times, self.kernel, self.turn = times, kernel, 0

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def median(self, function: Callable[[], Any], runs: int) -> float:
        function()
        self.turn += 1
        return self.times(self.kernel.last, self.turn)


class Sums:
    """A kernel of choices between lanes: with 3 of them it is wrong, with 4 it does not run."""

    def __init__(self) -> None:
        self.tuned: Any = TunedTable()
        self.last: Choice | None = None

    def __call__(self, x: np.ndarray, axis: Any, keepdims: bool) -> np.ndarray:
        options = [{"lanes": number} for number in range(6)]
        case = TuningCase("GPU", ("float64",), (x.shape,), lambda: options, lambda: {"lanes": 0})
        self.last = self.tuned.choice(case)
        lanes = (self.last or {}).get("lanes")
        if lanes == 4:
            raise ShapeError("too many lanes")
        return x.sum(axis, keepdims=keepdims) + (lanes == 3)


class TestTune:
    @pytest.fixture
    def total(self, toy: Path) -> tune.Tunable:
        plan = plan_project(toy)
        (spec,) = (one for one in plan.specs if one.name == "total")
        kernel: Any = Sums()
        return tune.Tunable("squares", "total", spec, kernel, kernel)

    def measured(
        self,
        monkeypatch: pytest.MonkeyPatch,
        total: tune.Tunable,
        times: Callable[[Choice | None, int], float],
        **options: Any,
    ) -> tune.Measured:
        monkeypatch.setattr(tune, "Stopwatch", lambda ordinal: Watch(times, total.kernel))
        before = total.kernel.tuned
        (found,) = tune.tune([total], HOST, **options)
        assert total.kernel.tuned is before
        return found

    def test_the_fastest_that_is_right_is_chosen(
        self, monkeypatch: pytest.MonkeyPatch, total: tune.Tunable
    ) -> None:
        def times(choice: Choice | None, turn: int) -> float:
            return {None: 8.0, 1: 7.0, 2: 4.0, 3: 1.0, 5: 9.0}[choice and choice["lanes"]]

        found = self.measured(monkeypatch, total, times)
        assert (found.choice, found.seconds, found.best, found.gain) == ({"lanes": 2}, 8, 4, 2)
        assert found.choices == 5 and not found.problem  # the rules' own is not tried again
        assert found.case is not None and found.case.sizes == ((20, 30),)

    def test_a_little_faster_is_not_enough(
        self, monkeypatch: pytest.MonkeyPatch, total: tune.Tunable
    ) -> None:
        def times(choice: Choice | None, turn: int) -> float:
            return 1.02 if choice is None else 1.0

        found = self.measured(monkeypatch, total, times)
        assert (found.choice, found.gain) == (None, 1.0)
        assert self.measured(monkeypatch, total, times, least_gain=1.01).choice is not None

    def test_nor_is_often(self, monkeypatch: pytest.MonkeyPatch, total: tune.Tunable) -> None:
        def times(choice: Choice | None, turn: int) -> float:
            return 2.0 if choice is None or turn > 20 else 1.0

        assert self.measured(monkeypatch, total, times).choice is None

    def test_only_what_is_precompiled(
        self, monkeypatch: pytest.MonkeyPatch, total: tune.Tunable
    ) -> None:
        def times(choice: Choice | None, turn: int) -> float:
            return 1.0

        options = [{"layout": "kspec::Lines"}, {"layout": "kspec::Flat"}, {}]
        case = TuningCase("GPU", (), (), lambda: options, lambda: {})
        tried: list[object] = []

        def call(*args: Any, **keywords: Any) -> np.ndarray:
            tried.append(total.kernel.tuned.choice(case))
            return np.zeros(1)

        monkeypatch.setattr(Sums, "__call__", lambda self, *args, **rest: call(*args, **rest))
        assert self.measured(monkeypatch, total, times).choices == 1
        assert {"layout": "kspec::Lines"} in tried and {"layout": "kspec::Flat"} not in tried

    def test_shapes_and_types_of_the_user(
        self, monkeypatch: pytest.MonkeyPatch, total: tune.Tunable
    ) -> None:
        def times(choice: Choice | None, turn: int) -> float:
            return 1.0

        found = self.measured(monkeypatch, total, times, shapes={"x": (7, 5)})
        assert found.case is not None and found.case.sizes == ((7, 5),)
        assert tune.shapes_of(total) == [{}]
        found = self.measured(monkeypatch, total, times, shapes={"z": (7, 5)})
        assert found.problem == "SpecError: the example of total has no array 'z'"


def test_what_cannot_be_tuned_is_refused_by_name(toy: Path) -> None:
    plan = build_project(toy).plan
    package = import_package(plan.settings.package_folder)
    names = [(one.module, one.name) for one in tune.tunables(plan, package)]
    assert names == [("squares", "square"), ("squares", "total")]
    with pytest.raises(SpecError, match="there is no kernel 'cube'"):
        tune.tunables(plan, package, ["cube"])
    message = "kernel 'shift' cannot be tuned: its template has no integers with several values"
    with pytest.raises(SpecError, match=message):
        tune.tunables(plan, package, ["shifts.shift"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--device", "host"], "kspec tune measures on a GPU; the host device has nothing to"),
        (["--device", "gpu"], "--device: "),
    ],
)
def test_devices_that_cannot_be_measured(
    toy: Path, run: Any, arguments: list[str], message: str
) -> None:
    status, _, err = run("tune", *arguments, "--project", toy)
    assert status in (2, 3) and err.startswith(f"kspec: {message}")


@pytest.mark.parametrize(
    ("tuned_shapes", "message"),
    [
        ("[{ y = [1, 2] }]", "'y' is not an array of the example (it has: x)"),
        ("[{ x = [1] }]", "'x' has 2 dimensions in the example, not 1"),
        ("[{ x = [0, 4] }]", "an array to tune has 1 to 268435456 elements, not (0, 4)"),
        ("[{ x = [65536, 65536] }]", "an array to tune has 1 to 268435456 elements"),
    ],
)
def test_shapes_to_tune_are_checked(toy: Path, tuned_shapes: str, message: str) -> None:
    text = SQUARES.replace("axis = 1 }", f"axis = 1, tune = {tuned_shapes} }}")
    (toy / "specs/squares.toml").write_text(text, encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        plan_project(toy)
    assert message in str(caught.value)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The specializations that calls ask for."""
    found: list[Any] = []
    original = KernelLoader.kernel

    def kernel(self: KernelLoader, wanted: Any, *rest: Any) -> Any:
        found.append(wanted)
        return original(self, wanted, *rest)

    monkeypatch.setattr(KernelLoader, "kernel", kernel)
    yield found


@pytest.mark.gpu
class TestOnAGpu:
    def test_calls_do_what_was_measured(self, toy: Path, asked: list[Any]) -> None:
        build_project(toy)
        gpu = driver.device_name(0)
        strided = {"layout": "kspec::Strided<8>", "lanes": 5}
        blocks = Tuned(gpu, ("float32",), ((1000,),), {"layout": "kspec::Flat", "threads": 64})
        write_tuned(toy, Tuned(gpu, ("float64",), ((300,), (1000,)), strided))
        plan = build_project(toy).plan
        package = import_package(plan.settings.package_folder)
        x = np.random.default_rng(1).random((5000, 1000))
        for rows, layout in ((300, "kspec::Strided<8>"), (5000, "kspec::Lines")):
            got = package.squares.total(kspec.asarray(x[:rows], device="cuda"), axis=1)
            np.testing.assert_allclose(kspec.asnumpy(got), x[:rows].sum(1), rtol=1e-12)
            assert asked[-1].layout == layout
        square = package.squares._square
        square.tuned = TunedTable((blocks,))
        y = kspec.asarray(x[0].astype("float32"), device="cuda")
        assert square.prepare((y,)).launch.block == (64, 1, 1)
        np.testing.assert_array_equal(kspec.asnumpy(square(y)), x[0].astype("float32") ** 2)

    def test_integers_of_a_template(self, asked: list[Any]) -> None:
        import kspec_kernels

        a = np.random.default_rng(1).random((300, 200), "float32")
        b = np.random.default_rng(2).random((200, 100), "float32")
        kernel = kspec_kernels.raw._matmul
        before, entry = kernel.tuned, ("float32", "float32")
        sizes = ((300, 200), (200, 100))
        kernel.tuned = TunedTable((Tuned(driver.device_name(0), entry, sizes, {"TILE": 32}),))
        try:
            given = [kspec.asarray(one, device="cuda") for one in (a, b)]
            for options, tile in (({}, 32), ({"TILE": 16}, 16)):
                got = kspec_kernels.raw.matmul(*given, **options)
                np.testing.assert_allclose(kspec.asnumpy(got), a @ b, rtol=1e-4)
                assert asked[-1].name_expression == f"matmul<float, {tile}>"
        finally:
            kernel.tuned = before

    def test_the_command(self, toy: Path, run: Any) -> None:
        status, out, err = run("tune", "total", "--shape", "x=3000,50", "--project", toy)
        assert status == 0, err
        table = out[out.index(driver.device_name(0)) : out.index(" faster than by the rules")]
        assert "float64 3000 50" in table and max(map(len, table.splitlines())) <= 80
        lock = locks.read_lock(toy)
        assert lock is not None
        for kernel in lock.kernels:
            for one in kernel.tuned:
                assert (one.gpu, one.sizes) == (driver.device_name(0), ((3000,), (50,)))
                assert one.gain >= tune.LEAST_GAIN and math.isfinite(one.gain)
        status, _, err = run("tune", "--shape", "x=3000,50", "--project", toy)
        assert status == 2 and "--shape is for one kernel; name it" in err
        status, _, err = run("tune", "total", "--shape", "x=many", "--project", toy)
        assert status == 2 and "--shape x=many: expected extents, such as 4096,1000" in err
