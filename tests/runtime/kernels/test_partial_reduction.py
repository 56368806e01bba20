"""Reductions in stages: what blocks are reduced to by themselves gives what one call gives."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.model.stages import (
    COLUMNS,
    LINES,
    Specialization,
    from_aggregates,
    strided,
    to_aggregates,
)
from kspec.runtime import driver
from kspec.runtime.driver.device import Device
from kspec.runtime.kernels.partial_reduction import SplitReduction
from kspec.runtime.modules.advice import advise
from kspec.runtime.package import read_manifest
from tests.devices import ArrayDevice
from tests.projects import ROOT

MOMENTS = """
template <class T> struct Pair { T sum; long long count; double rest[3]; };
"""
L2NORM = kspec.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "parts_l2norm")
LARGEST = kspec.ReductionKernel("T x", "T y", "x", "max(a, b)", "y = a", None, "parts_largest")
MEAN = kspec.ReductionKernel(
    "T x",
    "T y",
    "x",
    "a + b",
    "y = a / (_in_ind.size() / _out_ind.size())",
    "0",
    "parts_mean",
)
SUM_AND_COUNT = kspec.ReductionKernel(
    "T x, T w, float64 scale",
    "T sum, int64 count",
    "Pair<T>{x * w, 1}",
    "Pair<T>{a.sum + b.sum, a.count + b.count}",
    "sum = a.sum * scale; count = a.count",
    "Pair<T>{0, 0}",
    "parts_sum_and_count",
    reduce_type="Pair<T>",
    preamble=MOMENTS,
)
LOOKED_UP = kspec.ReductionKernel(
    "int32 x, raw T table", "T y", "table[x]", "a + b", "y = a * table[0]", "0", "parts_looked_up"
)
AXES = [None, 0, 1, 2, -1, (0, 1), (0, 2), (1, 2), (0, 1, 2), ()]


def cuts(length: int) -> list[slice]:
    """Cut an axis unevenly, with a block of nothing."""
    places = [0, length // 3, length // 3, length]
    return [slice(*pair) for pair in itertools.pairwise(places)]


def reduced(
    kernel: Any, place: ArrayDevice, args: list[np.ndarray | float], axis: Any, tree: bool = False
) -> Any:
    """Reduce three blocks of the first axis; unreduced, the blocks are put side by side."""
    split = SplitReduction(kernel)
    rest = [None if isinstance(one, np.ndarray) else one for one in args]
    partials = [
        split.partial(
            [place.array(one[cut]) if isinstance(one, np.ndarray) else one for one in args], axis
        )
        for cut in cuts(len(args[0]))  # type: ignore[arg-type]
    ]
    if axis is not None and 0 not in np.atleast_1d(axis):
        some = [split.finish([partial], rest) for partial in partials]
        if isinstance(some[0], tuple):
            return tuple(
                np.concatenate([place.numpy(one) for one in k]) for k in zip(*some, strict=True)
            )
        return np.concatenate([place.numpy(one) for one in some])
    if tree:
        partials = [split.combine(partials[:2], rest), split.combine(partials[2:], rest)]
    result = split.finish(partials, rest)
    return tuple(map(place.numpy, result)) if isinstance(result, tuple) else place.numpy(result)


class TestStages:
    @pytest.mark.parametrize("tree", [False, True])
    @pytest.mark.parametrize("axis", AXES)
    @pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
    def test_l2norm(self, place: ArrayDevice, axis: Any, dtype: str, tree: bool) -> None:
        x = np.random.default_rng(0).random((20, 33, 7)).astype(dtype)
        got = reduced(L2NORM, place, [x], axis, tree)
        expected = place.numpy(L2NORM(place.array(x), axis=axis))
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=2e-3 if dtype == "float16" else 1e-5)

    @pytest.mark.parametrize("axis", AXES)
    def test_accumulators_that_are_structs(self, place: ArrayDevice, axis: Any) -> None:
        x, w = np.random.default_rng(1).random((2, 20, 33, 7))
        got = reduced(SUM_AND_COUNT, place, [x, w, 0.5], axis)
        expected = SUM_AND_COUNT(place.array(x), place.array(w), 0.5, axis=axis)
        for one, other in zip(got, expected, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, place.numpy(other), rtol=1e-12)

    @pytest.mark.parametrize("axis", [None, 0, (0, 1), 2])
    def test_the_post_map_knows_how_many_there_were(self, place: ArrayDevice, axis: Any) -> None:
        x = np.random.default_rng(2).random((20, 33, 7))
        np.testing.assert_allclose(reduced(MEAN, place, [x], axis), x.mean(axis), rtol=1e-12)

    def test_raw_arrays(self, place: ArrayDevice) -> None:
        split = SplitReduction(LOOKED_UP)
        table = place.array([2.0, 3.0, 5.0])
        partials = [
            split.partial([place.array(one, "int32"), table]) for one in ([0, 1], [2, 2, 1])
        ]
        assert place.numpy(split.finish(partials, [None, table])) == 36

    @pytest.mark.parametrize("size", [1, 5, 100_000, 3_000_000])
    def test_sizes(self, place: ArrayDevice, size: int) -> None:
        x = np.random.default_rng(3).random(size)
        np.testing.assert_allclose(reduced(L2NORM, place, [x], None), np.linalg.norm(x), rtol=1e-12)

    def test_many_parts(self, place: ArrayDevice) -> None:
        x = np.random.default_rng(4).random((1000, 3))
        split = SplitReduction(L2NORM)
        partials = [split.partial([place.array(row[None])], 0) for row in x]
        expected = np.linalg.norm(x, axis=0)
        np.testing.assert_allclose(place.numpy(split.finish(partials, [None])), expected)
        one = split.combine(partials, [None])
        assert (one.count, one.length, one.outputs) == (1, 1000, (3,))
        np.testing.assert_allclose(place.numpy(split.finish([one], [None])), expected)

    def test_layouts_of_the_input(self, place: ArrayDevice) -> None:
        base = place.array(np.random.default_rng(5).random((64, 96)), "float32")
        split = SplitReduction(L2NORM)
        for x in (base, base.T, base[::2, ::-1], base[:, 3:50]):
            for axis in (0, 1, None):
                partial = split.partial([x], axis)
                got = place.numpy(split.finish([partial], [None]))
                np.testing.assert_allclose(got, place.numpy(L2NORM(x, axis=axis)), rtol=1e-6)

    def test_kept_axes(self, place: ArrayDevice) -> None:
        x = np.random.default_rng(6).random((4, 5, 6))
        split = SplitReduction(L2NORM)
        partial = split.partial([place.array(x)], (0, 2))
        got = place.numpy(split.finish([partial], [None], kept=(0, 2)))
        np.testing.assert_allclose(got, np.sqrt((x * x).sum((0, 2), keepdims=True)))

    def test_parts_are_pickled(self) -> None:
        split = SplitReduction(SUM_AND_COUNT)
        x = np.arange(12.0).reshape(3, 4)
        partials = [pickle.loads(pickle.dumps(split.partial([x, x, 1.0], 0))) for _ in range(2)]
        total, count = split.finish(partials, [None, None, 1.0])
        np.testing.assert_allclose(total, 2 * (x * x).sum(0))
        assert (count == 6).all()

    def test_parts_need_not_be_aligned(self) -> None:
        split = SplitReduction(L2NORM)
        partial = split.partial([np.arange(5.0)])
        memory = np.zeros(9, "uint8")
        memory[1:] = partial.array.ravel()
        moved = type(partial)(memory[1:].reshape(1, 8), partial.length, partial.binding)
        assert split.finish([moved], [None]) == split.finish([partial], [None])


class TestNothing:
    def test_all_blocks_are_empty(self, place: ArrayDevice) -> None:
        empty = place.array(np.zeros((0, 3)))
        split = SplitReduction(L2NORM)
        partials = [split.partial([empty], 0)] * 2
        np.testing.assert_array_equal(place.numpy(split.finish(partials, [None])), [0, 0, 0])
        partials = [split.combine(partials, [None])]
        np.testing.assert_array_equal(place.numpy(split.finish(partials, [None])), [0, 0, 0])

    def test_without_identity(self, place: ArrayDevice) -> None:
        split = SplitReduction(LARGEST)
        some, empty = place.array([3.0, 5.0]), place.array(np.zeros(0))
        partials = [split.partial([empty]), split.partial([some])]
        assert place.numpy(split.finish(partials, [None])) == 5
        with pytest.raises(kspec.ShapeError, match="parts_largest which has no identity"):
            split.finish(partials[:1], [None])

    def test_no_outputs(self, place: ArrayDevice) -> None:
        split = SplitReduction(SUM_AND_COUNT)
        x = place.array(np.zeros((4, 0)))
        partial = split.partial([x, x, 1.0], 0)
        total, count = split.finish([partial, partial], [None, None, 1.0])
        assert place.numpy(total).shape == place.numpy(count).shape == (0,)

    def test_no_parts(self) -> None:
        with pytest.raises(kspec.ShapeError, match="no parts"):
            SplitReduction(L2NORM).finish([], [None])


class TestIdentity:
    def test_it_is_folded_in_once(self, place: ArrayDevice) -> None:
        kernel = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "100", "parts_once")
        x = np.arange(30.0)
        assert reduced(kernel, place, [x], None) == place.numpy(kernel(place.array(x))) == 535


def refused(**fields: str) -> kspec.ReductionKernel:
    given = {
        "in_params": "T x",
        "out_params": "T y",
        "map_expr": "x",
        "reduce_expr": "a + b",
        "post_map_expr": "y = a",
        "identity": "0",
        "name": "not_in_parts",
    }
    return kspec.ReductionKernel(**{**given, **fields})


class TestRefused:
    @pytest.mark.parametrize(
        "fields",
        [
            {"map_expr": "_J"},
            {"map_expr": "x + _i"},
            {"map_expr": "x / _in_ind.size()"},
            {"identity": "_out_ind.size()"},
            {"map_expr": "WHERE", "preamble": "#define WHERE (x + _J)"},
            {"post_map_expr": "y = a + _i"},
        ],
    )
    def test_kernels_that_look_at_indices(self, fields: dict[str, str]) -> None:
        with pytest.raises(kspec.NotSupportedError, match=r"not_in_parts .* in parts: its map"):
            SplitReduction(refused(**fields))

    def test_kernels_that_write_to_inputs(self) -> None:
        with pytest.raises(kspec.NotSupportedError, match="it writes to x, which is _non_const"):
            SplitReduction(refused(in_params="_non_const T x"))

    def test_parts_of_other_outputs(self) -> None:
        split = SplitReduction(L2NORM)
        partials = [split.partial([np.zeros((2, n))], 0) for n in (3, 4)]
        with pytest.raises(kspec.ShapeError, match=r"outputs \(3,\) .* and \(4,\)"):
            split.combine(partials, [None])

    def test_an_array_for_a_scalar(self) -> None:
        split = SplitReduction(SUM_AND_COUNT)
        x = np.ones(3)
        with pytest.raises(
            kspec.ArgumentTypeError, match="scale is read by the reduce or post-map"
        ):
            split.partial([x, x, x])
        partial = split.partial([x, x, 2.0])
        with pytest.raises(kspec.ArgumentTypeError, match="scale"):
            split.finish([partial], [None, None, x])


@pytest.mark.parametrize("stage", ["partial", "combine", "finish"])
def test_memory_is_checked(stage: str) -> None:
    """Under `kspec.checking`, stages read and write what is theirs and nothing else."""
    split = SplitReduction(SUM_AND_COUNT)
    x = np.arange(12.0).reshape(3, 4)

    def steps() -> dict[str, Callable[[], Any]]:
        partial = split.partial([x, x, 1.0], 0)
        return {
            "partial": lambda: split.partial([x, x, 1.0], 0),
            "combine": lambda: split.combine([partial, partial], [None, None, 1.0]),
            "finish": lambda: split.finish([partial, partial], [None, None, 1.0]),
        }

    step = steps()[stage]
    with kspec.checking(sanitize="memory,race,undefined"):
        step()


class TestPrecompiled:
    """`layouts = ["parts"]` in the spec of a packaged kernel."""

    PACKAGE = ROOT / "generated" / "kspec_kernels"

    @pytest.fixture(autouse=True)
    def gpu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(driver, "compute_capability", lambda ordinal: (9, 0))

    @pytest.mark.parametrize(
        "layout", [to_aggregates(LINES), to_aggregates(from_aggregates(strided(1)))]
    )
    def test_the_advice_of_one_that_has_none(self, layout: str) -> None:
        wanted = Specialization("logsumexp", (("T", "float32"),), layout)
        entry = read_manifest(self.PACKAGE).module("norms")
        text = advise(self.PACKAGE, entry, wanted, Device("cuda", 0))
        assert "missing: norms.logsumexp, T = float32, layout 'parts', sm_90" in text
        assert (
            '[reduction.logsumexp], write\n    layouts = ["parts"]\nthen run `kspec build`' in text
        )

    def test_the_index_has_them(self) -> None:
        entry = read_manifest(self.PACKAGE).module("norms")
        for layout in (LINES, COLUMNS, from_aggregates(strided(1))):
            wanted = Specialization("l2norm", (("T", "float32"),), to_aggregates(layout))
            assert wanted.name_expression in entry.precompiled
