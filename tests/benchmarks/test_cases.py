"""The table of cases: complete, computable at any size, and right on the host device."""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import kspec
from benchmarks import (
    aggregate_cases,
    elementwise_cases,
    kernels,
    overhead,
    reduction_cases,
    sample_cases,
    shipped,
    stencil_cases,
)
from benchmarks.cases import BoundCase, Case, select
from benchmarks.kernels import Text
from benchmarks.machines import HostMachine
from benchmarks.operands import FULL_SIZE, array, bits, like, rows_in, rows_of, square, transposed
from benchmarks.suite import CASES
from benchmarks.throughput import Runner, beside_peers
from kspec.model.stages import CudaSource, Target
from kspec.render import render_specs, specializations
from kspec.spec.building import build_spec
from kspec.spec.models import ElementwiseSpec, ReductionSpec
from tests.benchmarks.fakes import fake_cupy
from tests.compiling import compiled

TINY = 3000
PTX = Target("compute_90")  # in a sixth of the time of a cubin
EVERY = [*CASES, *shipped.CASES]


def by_name(name: str) -> Case:
    (found,) = [case for case in CASES if case.name == name]
    return found


class TestAggregates:
    @pytest.mark.parametrize("size", [TINY, 2**16])
    @pytest.mark.parametrize("case", aggregate_cases.CASES, ids=lambda case: case.name)
    def test_bounds(self, case: Case, size: int) -> None:
        inputs = case.bind(size).inputs
        if case.text.form in ("scan", "window"):
            assert [one.values for one in inputs] == [None]
            return
        operand, (length,) = inputs[-1], inputs[0].view_shape
        assert operand.values is not None
        bounds = operand.values(operand.shape)
        if case.text.form == "by_key":
            assert operand.shape == (length,)
            assert bounds.min() >= 0
            assert bounds.max() < (
                1 if "all one" in case.name else case.bind(size).outputs[0].count
            )
            return
        assert (bounds.shape, bounds.dtype) == (operand.shape, operand.dtype)
        assert (bounds[0], bounds[-1]) == (0, length)
        lengths = np.diff(bounds)
        assert lengths.min() >= 0
        if "power" in case.name:
            assert 0.45 * length < lengths.max() <= 0.55 * length


class TestTable:
    def test_labels_differ(self) -> None:
        labels = [case.label for case in EVERY]
        assert len(set(labels)) == len(labels)

    def test_as_many_held_out_shapes_as_tuned_ones(self) -> None:
        for cases in (elementwise_cases, reduction_cases):
            assert len(cases.HELD_OUT) >= len(cases.TUNED)
        assert all(case.target is None for case in CASES if case.held_out)

    def test_targets(self) -> None:
        targets = {case.name: case.target for case in CASES if case.of == "copy" and case.target}
        assert targets == {
            "f32 contiguous": 0.95,
            "f16 contiguous": 0.95,
            "int8 contiguous": 0.90,
            "row broadcast": 0.95,
            "column broadcast": 0.95,
            "x.T + y": 0.80,
            "x.T + y, odd": 0.80,
            "(n,3) with (3,)": 0.90,
            "all Fortran": 0.95,
            "axis 1 of (n,3)": 0.90,
            "axis 1 of (n,17)": 0.80,
            "axis 1 of (n,100)": 0.95,
            "axis 0 of (n,100)": 0.95,
            "full": 0.95,
            "axis 1 of a square": 0.95,
            "axis 0 of a square": 0.95,
            "axis 1 of (8M,32)": 0.90,
            "axis 1 of (64,4M)": 0.95,
            "axis 0 of (64,4M)": 0.95,
            "axis 0 of (4M,64)": 0.90,
            "axis 1 of (256,1024,1024)": 0.95,
            "axes 0, 2 of (256,1024,1024)": 0.90,
            "f16 full": 0.95,
            "3x3": 0.92,
            "5-point": 0.92,
            "5x5": 0.92,
            "7x7": 0.80,
            "7-point, 3-D": 0.88,
            "27-point, 3-D": 0.88,
            "31 taps in rows": 0.85,
            "31 taps in columns": 0.85,
            "f16 3x3": 0.85,
            "uint8 median of 3x3": 0.6,
            "scan": 0.92,
            "scan of rows of 1000": 0.90,
            "scan of rows of 1001": 0.90,
            "scan of rows of 10^6": 0.90,
            "scan of axis 0": 0.85,
            "scan of axis 0, 64 columns": 0.85,
            "f16 scan of rows": 0.85,
            "f64 scan": 0.92,
            "segments of about 8": 0.70,
            "segments of about 32": 0.85,
            "segments of about 1000": 0.90,
            "segments by a power law": 0.75,
            "256 keys": 0.80,
            "windows of 15": 0.80,
            "windows of 15, rows of 16384": 0.80,
            "largest of 15": 0.80,
            "solve 3×3, f32": 0.85,
            "solve 3×3, f64": 0.85,
            "product 4×4, f32": 0.85,
            "product 4×4, f64": 0.85,
            "quaternion product, f32": 0.90,
            "quaternion product, f64": 0.90,
            "rotation, f32": 0.90,
            "rotation, f64": 0.90,
            "Cholesky 8×8, f32": 0.60,
            "Cholesky 8×8, f64": 0.60,
        }
        assert (by_name("3x3, odd rows").of, by_name("3x3, odd rows").target) == ("3x3", 0.9)
        assert (by_name("stride 2").of, by_name("stride 2").target) == ("CuPy", 0.95)
        assert by_name("dot, 16M").of == "full, 16M"

    def test_times_as_fast_as_peers(self) -> None:
        times = {case.name: dict(case.times) for case in CASES if case.times}
        assert times.pop("sample, order 1") == {"CuPy": 1.2}
        assert times.pop("sample, order 0") == times.pop("sample, order 3") == {"CuPy": None}
        assert times.pop("CSR product, rows of about 32") == {"CuPy": 1.0, "CUB": 0.95}
        assert times.pop("30000 keys") == {"CuPy": 1.0}
        assert times.pop("10^6 keys") == {"CuPy": 1.0, "torch": 1.0}
        for size, wanted in ((3, 10.0), (4, 10.0), (16, 2.0), (32, 2.0)):
            for dtype in ("f32", "f64"):
                both = {"CuPy": wanted, "torch": wanted}
                assert times.pop(f"solve {size}×{size}, {dtype}") == both
        assert times.pop("Gaussian sum of pairs") == {"torch": 5.0}
        assert times.pop("nearest of pairs") == {"torch": 5.0}
        aggregates = {
            case.name for case in aggregate_cases.CASES if case.text.form in ("scan", "segments")
        }
        beside_cub = {name: times.pop(name) for name in aggregates & set(times)}
        assert aggregates - set(beside_cub) == {
            "CSR product, rows of about 32",
            "scan of axis 0",
            "scan of axis 0, 64 columns",
        }
        assert {name for name, one in beside_cub.items() if one == {"CUB": 3.0}} == {
            "segments of about 8",
            "segments of about 32",
        }
        assert all(one in ({"CUB": 0.95}, {"CUB": 3.0}) for one in beside_cub.values())
        assert set(times) == {case.name for case in stencil_cases.CASES}
        assert all(one == {"CuPy": 3.0, "torch": 1.2} for one in times.values())

    def test_a_case_that_others_are_compared_with_comes_first(self) -> None:
        names = [case.name for case in CASES]
        for case in CASES:
            if case.of not in ("copy", "CuPy"):
                assert names.index(case.of) < names.index(case.name)

    def test_select(self) -> None:
        assert len(select(CASES, None)) == len(CASES)
        assert [case.name for case in select(CASES, "DOT, 16m")] == ["dot, 16M"]
        assert {case.group for case in select(CASES, "reduction/*axis 1*")} == {"reduction"}
        assert select(CASES, "nothing like it") == []


@pytest.mark.parametrize("size", [FULL_SIZE, 2**22, TINY])
def test_every_case_has_operands_that_fit(size: int) -> None:
    # Tiny sizes may not divide as they should, and rows stay as long as they are.
    limit = 1.1 * size if size == FULL_SIZE else 2.1 * max(size, 65536)
    for case in EVERY:
        bound = case.bind(size)
        for operand in (*bound.inputs, *bound.outputs):
            assert all(extent > 0 for extent in operand.view_shape), (case.label, str(operand))
            assert operand.count * np.dtype(operand.dtype).itemsize <= 2**32, case.label
        if case.text.kind == "elementwise":
            shape = bound.outputs[0].view_shape
            assert all(one.view_shape == shape for one in bound.outputs), case.label
        assert bound.elements <= limit * max(1.0, case.scale), case.label


def test_full_size_shapes_are_those_of_the_tables() -> None:
    shapes = {
        case.name: [one.view_shape for one in case.bind(FULL_SIZE).inputs]
        for case in CASES
        if not case.held_out
    }
    assert shapes["row broadcast"] == [(16384, 16384), (16384,)]
    assert shapes["axis 1 of (8M,32)"] == [(8388608, 32)]
    assert shapes["axis 0 of (64,4M)"] == [(64, 4194304)]
    assert shapes["axis 1 of (256,1024,1024)"] == [(256, 1024, 1024)]
    assert shapes["dot, 16M"] == [(2**24,), (2**24,)]
    assert shapes["full, 1000003 elements"] == [(1000003,)]
    assert shapes["int8 to int32 axis 0"] == [(32768, 32768)]
    assert shapes["x.T + y, odd"] == [(16381, 16381)] * 2


class TestBytes:
    @pytest.mark.parametrize(
        ("name", "wanted"),
        [
            ("f32 contiguous", 12 * FULL_SIZE),
            ("f16 contiguous", 6 * FULL_SIZE),
            ("int8 contiguous", 3 * FULL_SIZE),
            ("f64 contiguous", 12 * FULL_SIZE),
            ("row broadcast", 8 * FULL_SIZE + 4 * 16384),
            ("stride 2", 6 * FULL_SIZE),
            ("f16 and f32 to f32", 10 * FULL_SIZE),
            ("(n,3) with (n,1)", 28 * (FULL_SIZE // 3)),
            ("full", 4 * FULL_SIZE + 4),
            ("axis 1 of (8M,32)", 4 * FULL_SIZE + 4 * FULL_SIZE // 32),
            ("dot, 16M", 2 * 4 * 2**24 + 4),
            ("int8 to int32 full", 4 * FULL_SIZE + 4),
            ("argmax axis 1", 4 * FULL_SIZE + 8 * 16384),
            ("two outputs", 16 * FULL_SIZE),
        ],
    )
    def test_each_input_once_each_output_once(self, name: str, wanted: int) -> None:
        assert by_name(name).bind(FULL_SIZE).nbytes == wanted


class TestShapes:
    def test_shapes(self) -> None:
        assert square(FULL_SIZE) == (16384, 16384)
        assert square(FULL_SIZE // 2) == (11584, 11584)
        assert square(100, 1) == (9, 9)
        assert rows_of(100, 7) == (14, 7)
        assert rows_in(100, 7) == (7, 14)
        assert bits(FULL_SIZE, 8, 10, 10) == (256, 1024, 1024)
        assert math.prod(bits(TINY, 8, 10, 10)) <= 2 * TINY
        assert like(FULL_SIZE, 501, 713, 747) == (501, 713, 747)

    def test_views_are_what_they_say(self) -> None:
        base = np.arange(60, dtype="int8")
        operand = array("int8", (5, 12), np.s_[1:, ::2], (1, 0))
        view = operand.view(base)
        np.testing.assert_array_equal(view, base.reshape(5, 12)[1:, ::2].T)
        assert operand.view_shape == view.shape == (6, 4)
        assert operand.nbytes == 24
        assert str(operand) == "int8[5, 12][1:, ::2].transpose(1, 0)"
        assert transposed("int8", (3, 4)).view(base).shape == (3, 4)
        assert np.shares_memory(view, base)


@pytest.fixture(scope="module")
def runner() -> Runner:
    machine = HostMachine(TINY)
    machine.cache_bytes = 0
    return Runner(machine, budget=0)


def spread(cases: Sequence[Case]) -> list[Any]:
    """Return cases as parameters; most of them are about the benchmarks, not about a change."""
    return [
        pytest.param(case, id=case.label, marks=() if number % 24 == 0 else pytest.mark.slow)
        for number, case in enumerate(cases)
    ]


@pytest.mark.parametrize("case", spread(CASES))
def test_kspec_gives_what_the_reference_says(case: Case, runner: Runner) -> None:
    row = runner.run(case)
    assert not row.problem
    assert row.error <= 1
    assert set(row.samples) == {"kspec", "NumPy"}
    assert not row.notes


@pytest.mark.parametrize("case", spread(shipped.CASES))
def test_shipped_kernels_give_what_the_reference_says(case: Case, runner: Runner) -> None:
    row = runner.run(case, with_peers=False, kernel=shipped.kernel_of(case))
    assert not row.problem
    assert set(row.samples) == {"kspec"}


class TestSamples:
    def test_coordinates_are_smooth(self) -> None:
        for axis, operand in enumerate(sample_cases.CASES[0].inputs(64 * 64)[1:]):
            assert operand.values is not None
            places = operand.values(operand.shape)
            assert (places.shape, places.dtype) == (operand.shape, np.float32)
            displacement = places - np.indices(operand.shape)[axis]
            assert 0 < np.abs(displacement).max() <= 8
            assert np.abs(np.diff(displacement, axis=0)).max() < 0.5
            assert np.abs(np.diff(displacement, axis=1)).max() < 0.5

    @pytest.mark.parametrize("case", sample_cases.CASES, ids=lambda case: case.name)
    def test_rows_beside_map_coordinates(self, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
        ndimage = pytest.importorskip("scipy.ndimage")
        seen = []

        def map_coordinates(*arrays: Any, output: Any, **options: Any) -> None:
            seen.append(output.copy())
            ndimage.map_coordinates(*arrays, output=output, **options)
            seen.append(output)

        monkeypatch.setitem(sys.modules, "cupyx", ModuleType("cupyx"))
        monkeypatch.setitem(sys.modules, "cupyx.scipy", ModuleType("cupyx.scipy"))
        theirs: Any = ModuleType("cupyx.scipy.ndimage")
        theirs.map_coordinates = map_coordinates
        monkeypatch.setitem(sys.modules, "cupyx.scipy.ndimage", theirs)
        machine = HostMachine(16 * TINY)
        machine.cache_bytes, machine.peers = 0, {"cupy": fake_cupy()}
        row = Runner(machine, budget=0).run(case)
        assert (row.problem, row.notes) == ("", ())
        np.testing.assert_allclose(seen[0], seen[1], atol=1e-6)
        (figure,) = beside_peers(case, row)
        assert figure.section == "stencil beside peers"
        assert figure.name == f"{case.name}, times as fast as CuPy"
        assert figure.value == row.samples["CuPy"].median / row.samples["kspec"].median
        assert (figure.limit, figure.at_least) == (case.times["CuPy"], True)


def test_a_peer_that_was_not_measured_has_no_figure(runner: Runner) -> None:
    case = by_name("5-point")
    assert list(beside_peers(case, runner.run(case))) == []


def binding_of(bound: BoundCase, kernel: Any) -> dict[str, str]:
    declaration = kernel.declaration
    pairs = [
        *zip(declaration.inputs, bound.inputs, strict=False),
        *zip(declaration.outputs, bound.outputs, strict=True),
    ]
    return {param.type: operand.dtype for param, operand in pairs if param.is_placeholder}


def texts() -> list[tuple[Text, list[dict[str, str]]]]:
    """Return each kernel with every binding that a case has."""
    found: dict[int, list[dict[str, str]]] = defaultdict(list)
    by_id: dict[int, Text] = {}
    for case in CASES:
        text = case.text
        by_id[id(text)] = text
        binding = binding_of(case.bind(TINY), text.build(kspec))
        if binding not in found[id(text)]:
            found[id(text)].append(binding)
    return [(by_id[key], bindings) for key, bindings in found.items()]


_BUILD: dict[str, Callable[..., Any]] = {
    "elementwise": lambda inputs, outputs, operation, name, **more: build_spec(
        ElementwiseSpec, name=name, inputs=inputs, outputs=outputs, operation=operation, **more
    ),
    "reduction": lambda inputs, outputs, map, reduce, post_map, identity, name, **more: build_spec(
        ReductionSpec,
        name=name,
        inputs=inputs,
        outputs=outputs,
        map=map,
        reduce=reduce,
        post_map=post_map,
        identity=identity,
        **more,
    ),
}


@pytest.mark.parametrize(("text", "bindings"), texts(), ids=lambda one: getattr(one, "name", ""))
def test_every_text_compiles_for_cuda(text: Text, bindings: list[dict[str, str]]) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    for binding in bindings:
        types = [binding] if binding else []
        forms = {"forms": [text.form]} if text.form else {}
        spec = _BUILD[text.kind](*text.arguments, **text.options, **forms, types=types)
        names = tuple(one.name_expression for one in specializations(spec))
        source = render_specs([spec], f"{spec.name}.cu", tuple(binding.items()))
        image = compiled(replace(source, name_expressions=names), PTX)
        assert set(image.symbols) == set(names)


@pytest.mark.parametrize("name", ["floor", "overhead"])
def test_raw_texts_compile_for_cuda(name: str) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    from benchmarks import floor

    code = {"floor": floor.CODE, "overhead": overhead.RAW_CODE}[name]
    assert compiled(CudaSource(f"{name}.cu", code), PTX).format == "ptx"


def test_kernel_names_do_not_change_what_cupy_makes_of_them() -> None:
    # CuPy treats reductions with these words in their names specially.
    for case in CASES:
        assert not {"mean", "argmax", "argmin"} & set(case.text.name.split("_"))


def test_outputs_of_texts() -> None:
    assert kernels.SUM_AND_DIFFERENCE.output_dtypes("float16") == ("float16", "float16")
    assert kernels.LESS.output_dtypes("float32") == ("bool",)
    assert kernels.SUM_INT8.output_dtypes("int8") == ("int32",)
