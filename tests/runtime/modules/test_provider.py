"""Where kernels come from: compiled once by many threads, failures remembered."""

from __future__ import annotations

import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.compiler import compilation
from kspec.errors import CompileError, ToolNotFoundError
from kspec.model.stages import CudaSource, Image, Target
from tests.devices import ArrayDevice


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return the names of what is compiled for an empty cache, in order."""
    monkeypatch.setenv("KSPEC_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("KSPEC_JIT", "auto")
    names: list[str] = []
    real = compilation._compile

    def spy(source: CudaSource, target: Target, *rest: Any) -> Image:
        names.append(source.name_expressions[0])
        return real(source, target, *rest)

    monkeypatch.setattr(compilation, "_compile", spy)
    return names


def add(name: str, operation: str = "z = x + y") -> kspec.ElementwiseKernel:
    return kspec.ElementwiseKernel("T x, T y", "T z", operation, name)


@pytest.mark.threads
def test_eight_first_calls_compile_once(compiles: list[str], place: ArrayDevice) -> None:
    kernel = add("add_once")
    start = threading.Barrier(8)

    def work(number: int) -> bool:
        x = np.full(1000, number, "float32")
        mine = place.array(x)
        start.wait()
        return bool((place.numpy(kernel(mine, mine)) == 2 * number).all())

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert compiles == ["add_once<float, kspec::Flat>"]


@pytest.mark.threads
def test_different_specializations_compile_at_the_same_time(
    compiles: list[str], place: ArrayDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = compilation._compile
    both = threading.Barrier(3)

    def together(source: CudaSource, target: Target, *rest: Any) -> Image:
        both.wait(timeout=200)  # broken unless the other two get here too
        return real(source, target, *rest)

    monkeypatch.setattr(compilation, "_compile", together)
    kernel, other = add("add_parallel"), add("subtract_parallel", "z = x - y")
    x, y = place.array(np.ones(5, "float32")), place.array(np.ones(5, "float64"))
    with ThreadPoolExecutor(3) as pool:
        tasks = [pool.submit(kernel, x, x), pool.submit(kernel, y, y), pool.submit(other, x, x)]
        results = [place.numpy(task.result()).tolist() for task in tasks]
    assert results == [[2] * 5, [2] * 5, [0] * 5]


@pytest.mark.threads
def test_one_module_for_threads_of_a_raw_module(compiles: list[str], place: ArrayDevice) -> None:
    code = """
    __device__ int counter;
    extern "C" __global__ void count(int* seen) { *seen = atomicAdd(&counter, 1); }
    extern "C" __global__ void twice(int* seen) { *seen = atomicAdd(&counter, 2); }
    """
    module = kspec.RawModule(code=code, name_expressions=["count", "twice"])
    start = threading.Barrier(4)

    def work(name: str) -> int:
        seen = place.zeros(1, "int32")
        start.wait()
        module.get_function(name)((1,), (1,), (seen,))
        return int(place.numpy(seen)[0])

    with ThreadPoolExecutor(4) as pool:
        seen = list(pool.map(work, ["count", "twice", "count", "twice"]))
    assert len(compiles) == 1
    # All of them counted in one variable: nobody saw the same number.
    assert len(set(seen)) == 4 and max(seen) < 6


# NVRTC's way of writing a position, and that of g++ and clang.
WHERE = r"<misspelt\.operation>(\(2\)|:2:\d+): error: .*yy"


class TestFailures:
    def test_are_compiled_once_and_point_at_the_users_text(
        self, compiles: list[str], place: ArrayDevice
    ) -> None:
        kernel = add("misspelt", "z = x + y;\nz = x + yy")
        x = place.zeros(3)
        errors = []
        for _ in range(3):
            with pytest.raises(CompileError, match=WHERE):
                kernel(x, x)
            try:
                kernel(x, x)
            except CompileError as error:
                errors.append(error)
        assert compiles == ["misspelt<double, kspec::Flat>"]
        assert len(set(map(id, errors))) == 3
        # Each has the frames of its own call only.
        depths = {len(traceback.extract_tb(error.__traceback__)) for error in errors}
        assert len(depths) == 1
        assert len({str(error) for error in errors}) == 1

    @pytest.mark.parametrize(
        ("fields", "where"),
        [
            ({"map_expr": "x +\n  xx"}, r"<misspelt\.map>(\(2\)|:2:\d+): error: .*xx"),
            ({"reduce_expr": "a + c"}, r"<misspelt\.reduce>(\(1\)|:1:\d+): error: .*c"),
            ({"post_map_expr": "y = a;\ny = q"}, r"<misspelt\.post_map>(\(2\)|:2:\d+): error: .*q"),
            ({"identity": "zero"}, r"<misspelt\.identity>(\(1\)|:1:\d+): error: .*zero"),
            ({"preamble": "\n\nint f() { return g(); }"}, r"<misspelt\.preamble>(\(3\)|:3:\d+): "),
        ],
        ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
    )
    def test_of_reductions_too(
        self, fields: dict[str, str], where: str, compiles: list[str], place: ArrayDevice
    ) -> None:
        given = {"map_expr": "x", "reduce_expr": "a + b", "post_map_expr": "y = a", "identity": "0"}
        kernel = kspec.ReductionKernel("T x", "T y", **{**given, **fields}, name="misspelt")
        out = place.empty(())
        for _ in range(3):
            with pytest.raises(CompileError, match=where):
                kernel(place.zeros(3), out)
        assert len(compiles) == 1
        assert place.numpy(out) == -77

    def test_leave_other_specializations_alone(
        self, compiles: list[str], place: ArrayDevice
    ) -> None:
        kernel = kspec.ElementwiseKernel("T x", "T y", "y = x % 2", "parity")
        for _ in range(2):
            with pytest.raises(CompileError, match="parity"):
                kernel(place.zeros(3, "float32"))
        assert place.numpy(kernel(place.array([1, 2, 3]))).tolist() == [1, 0, 1]
        assert compiles == ["parity<float, kspec::Flat>", "parity<long long, kspec::Flat>"]

    @pytest.mark.threads
    def test_of_eight_threads(self, compiles: list[str], place: ArrayDevice) -> None:
        kernel = add("broken_for_all", "z = ")
        x = place.zeros(3)

        def work(_: int) -> CompileError:
            with pytest.raises(CompileError) as caught:
                kernel(x, x)
            return caught.value

        with ThreadPoolExecutor(8) as pool:
            errors = list(pool.map(work, range(8)))
        assert len(compiles) == 1
        assert len(set(map(id, errors))) == 8

    def test_that_are_the_machines_are_not_remembered(
        self, compiles: list[str], place: ArrayDevice, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kernel = add("add_later")
        x = place.array([1.0])
        with monkeypatch.context() as patch:

            def missing(source: CudaSource, target: Target, *rest: Any) -> Image:
                raise ToolNotFoundError("no compiler")

            patch.setattr(compilation, "_compile", missing)
            with pytest.raises(ToolNotFoundError, match="no compiler"):
                kernel(x, x)
        assert place.numpy(kernel(x, x)).tolist() == [2]

    def test_never_is_not_remembered(
        self, compiles: list[str], place: ArrayDevice, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kernel = add("add_allowed_later")
        x = place.array([1.0])
        monkeypatch.setenv("KSPEC_JIT", "never")
        with pytest.raises(kspec.SpecializationNotBuilt, match="forbidden by KSPEC_JIT=never") as e:
            kernel(x, x)
        assert "add_allowed_later is made in Python: declare it in a spec file" in str(e.value)
        monkeypatch.setenv("KSPEC_JIT", "auto")
        assert place.numpy(kernel(x, x)).tolist() == [2]
