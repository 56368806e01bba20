"""Bound calls: checked once, launched many times."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.model.forms.kinds import FORMS as ALL_FORMS
from tests.devices import ArrayDevice

ADD = kspec.ElementwiseKernel("T x, T y", "T z", "z = x + y", "add_bound")
COUNT = kspec.ElementwiseKernel("T x", "T y", "y += x", "count_bound")
FILL = kspec.ElementwiseKernel("float32 a", "raw float32 y", "y[i] = a", "fill_bound")
OUTSIDE = kspec.ElementwiseKernel("raw T x, T y", "T z", "z = x[i + 1] + y", "outside_bound")
SUM = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "sum_bound")
TRAP = kspec.ReductionKernel(
    "int64 x", "int64 y", "(x < 0 ? (__trap(), 0) : x)", "a + b", "y = a", "0", "trap_bound"
)
CODE = r"""
extern "C" __global__ void step(float* x, float a) { x[threadIdx.x] += a; }
"""


class TestElementwise:
    def test_each_call_launches(self, device: ArrayDevice) -> None:
        x, y = device.array([1.0, 2.0, 3.0]), device.zeros(3)
        step = COUNT.bind(x, y)
        np.testing.assert_array_equal(device.numpy(y), [0, 0, 0])  # binding does not
        for _ in range(5):
            assert step() is y
        np.testing.assert_array_equal(device.numpy(y), [5, 10, 15])
        assert step.result is y

    def test_outputs_are_made_once(self, device: ArrayDevice) -> None:
        x = device.array([1.0, 2.0])
        double = ADD.bind(x, x)
        first = double()
        assert double() is first
        np.testing.assert_array_equal(device.numpy(first), [2, 4])
        x[...] = np.array([5.0, 6.0]) if device.library != "cupy" else device.array([5.0, 6.0])
        double()
        np.testing.assert_array_equal(device.numpy(first), [10, 12])

    def test_outputs_by_keyword(self, device: ArrayDevice) -> None:
        x, y = device.array([1.0, 2.0]), device.zeros(2)
        assert ADD.bind(x, x, out=y)() is y
        np.testing.assert_array_equal(device.numpy(y), [2, 4])

    def test_options(self, place: ArrayDevice) -> None:
        y = place.zeros(6, "float32")
        assert FILL.bind(2.5, y, size=4, block_size=64, stream=0)() is y
        np.testing.assert_array_equal(place.numpy(y), [2.5] * 4 + [0] * 2)

    def test_empty_arrays(self, place: ArrayDevice) -> None:
        x = place.zeros((0, 3))
        z = ADD.bind(x, x)()
        assert z.shape == (0, 3)

    def test_bad_calls_are_refused_when_they_are_bound(self, place: ArrayDevice) -> None:
        x = place.zeros(3)
        with pytest.raises(kspec.ShapeError, match="could not be broadcast"):
            ADD.bind(x, place.zeros(4))
        with pytest.raises(kspec.ArgumentTypeError, match="takes 2 or 3 positional arguments"):
            ADD.bind(x)

    def test_arrays_are_kept_alive(self) -> None:
        x = np.arange(1000.0)
        reference = weakref.ref(x)
        double = ADD.bind(x, x)
        del x
        gc.collect()
        assert reference() is not None
        np.testing.assert_array_equal(double(), 2 * np.arange(1000.0))
        del double
        gc.collect()
        assert reference() is None

    @pytest.mark.threads
    def test_threads(self, place: ArrayDevice) -> None:
        x = place.array(np.arange(50.0))
        double = ADD.bind(x, x)
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(lambda _: double(), range(200)))
        assert all(result is double.result for result in results)
        np.testing.assert_array_equal(place.numpy(double.result), 2 * np.arange(50.0))


class TestReduction:
    @pytest.mark.parametrize("size", [12, 600_000])
    def test_each_call_launches(self, size: int, device: ArrayDevice) -> None:
        x, y = device.array(np.ones(size, "int64")), device.zeros((), "int64")
        total = SUM.bind(x, out=y)
        assert int(device.numpy(y)) == 0
        for _ in range(3):
            assert total() is y
            assert int(device.numpy(y)) == size
        assert int(device.numpy(SUM.bind(x)())) == size

    def test_axes(self, place: ArrayDevice) -> None:
        values = np.arange(12.0).reshape(3, 4)
        rows = SUM.bind(place.array(values), axis=1, keepdims=True)
        np.testing.assert_array_equal(place.numpy(rows()), values.sum(axis=1, keepdims=True))
        with pytest.raises(np.exceptions.AxisError):
            SUM.bind(place.array(values), axis=2)

    def test_a_fault_leaves_nothing_behind(self) -> None:
        x = np.ones(600_000, "int64")
        total = TRAP.bind(x)
        assert total() == 600_000
        x[0] = -1
        with pytest.raises(kspec.HostFault, match="trap"):
            total()
        x[0] = 1
        assert total() == 600_000


X, P = np.arange(12.0).reshape(6, 2), np.array([0, 1, 1, 6])
FORMS: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "reduce": ("reduce", (X,), {"axis": 0, "keepdims": True}),
    "scan": ("scan", (X,), {"axis": 0, "exclusive": True, "reverse": True}),
    "segments": ("segments", (X, P), {}),
    "segments by keyword": ("segments", (X,), {"indptr": P}),
    "window": ("window", (X, 2), {"axis": 0, "boundary": "wrap"}),
    "window by keyword": ("window", (X,), {"size": (2, 2), "axis": (0, 1), "step": 2}),
}


@pytest.mark.parametrize("name", FORMS)
class TestForms:
    def test_each_call_launches(self, name: str, device: ArrayDevice) -> None:
        form, arguments, keywords = FORMS[name]
        x, *rest = map(device.array, arguments) if form == "segments" else arguments
        x = device.array(X)
        keywords = {**keywords, **({"indptr": device.array(P)} if "indptr" in keywords else {})}
        call = SUM if form == "reduce" else getattr(SUM, form)
        step = SUM.bind(x, *rest, form=form, **keywords)
        first = step()
        for factor in (1, 10, 100):
            x[...] = factor * X if device.library != "cupy" else device.array(factor * X)
            assert step() is first
            wanted = device.numpy(call(x, *rest, **keywords))
            np.testing.assert_array_equal(device.numpy(first), wanted)

    def test_outputs(self, name: str, place: ArrayDevice) -> None:
        form, arguments, keywords = FORMS[name]
        x, *rest = (place.array(one) if isinstance(one, np.ndarray) else one for one in arguments)
        keywords = {**keywords, **({"indptr": place.array(P)} if "indptr" in keywords else {})}
        call = SUM if form == "reduce" else getattr(SUM, form)
        wanted = call(x, *rest, **keywords)
        out = place.zeros(wanted.shape)
        assert SUM.bind(x, *rest, form=form, out=out, **keywords)() is out
        np.testing.assert_array_equal(place.numpy(out), place.numpy(wanted))


def test_reductions_by_key(device: ArrayDevice) -> None:
    x, keys = device.array(X), device.array(np.arange(len(X)) % 3)
    wanted = device.numpy(SUM.by_key(x, keys, 3))
    for step in (
        SUM.bind(x, keys, 3, form="by_key"),
        SUM.bind(x, keys, form="by_key", n=3, deterministic=True),
    ):
        for _ in range(3):
            np.testing.assert_array_equal(device.numpy(step()), wanted)
    with pytest.raises(kspec.ArgumentTypeError, match=r"sum_bound\.by_key\(\) takes 3 positional"):
        SUM.bind(x, keys, form="by_key")


def test_wrong_forms_are_refused_when_they_are_bound() -> None:
    names = ", ".join(ALL_FORMS)
    with pytest.raises(
        kspec.ArgumentTypeError, match=f"sum_bound: form is 'scam'; expected one of {names}"
    ):
        SUM.bind(X, form="scam")
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'keepdims'"):
        SUM.bind(X, form="scan", keepdims=True)
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'exclusive'"):
        SUM.bind(X, exclusive=True)
    with pytest.raises(kspec.ArgumentTypeError, match=r"sum_bound\.segments\(\) takes 2 or 3 pos"):
        SUM.bind(X, form="segments")
    with pytest.raises(kspec.ArgumentTypeError, match=r"sum_bound\.window\(\) takes 2 positional"):
        SUM.bind(X, form="window")


class TestRaw:
    def test_each_call_launches(self, device: ArrayDevice) -> None:
        kernel = kspec.RawKernel(CODE, "step")
        x = device.zeros(4, "float32")
        step = kernel.bind((1,), (4,), (x, np.float32(0.5)))
        assert [step() for _ in range(6)] == [None] * 6
        np.testing.assert_array_equal(device.numpy(x), [3, 3, 3, 3])

    def test_bad_calls_are_refused_when_they_are_bound(self, place: ArrayDevice) -> None:
        kernel = kspec.RawKernel(CODE, "step")
        x = place.zeros(4, "float32")
        with pytest.raises(kspec.LaunchError, match=r"block\.x is 2000"):
            kernel.bind((1,), (2000,), (x, np.float32(1)))
        with pytest.raises(kspec.ArgumentTypeError, match="takes 2 parameters, not 1"):
            kernel.bind((1,), (4,), (x,))

    def test_cooperative(self) -> None:
        code = r"""
        #include <cooperative_groups.h>
        extern "C" __global__ void rounds(int* x) {
          atomicAdd(x, 1);
          cooperative_groups::this_grid().sync();
          if (threadIdx.x == 0) x[1 + blockIdx.x] = x[0];
        }
        """
        kernel = kspec.RawKernel(code, "rounds", enable_cooperative_groups=True)
        x = np.zeros(3, "int32")
        both = kernel.bind((2,), (8,), (x,))
        both()
        both()
        assert x.tolist() == [32, 32, 32]


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_is_not_copied(copied: Callable[[Any], Any]) -> None:
    x = np.zeros(4, "float32")
    raw = kspec.RawKernel(CODE, "step").bind((1,), (4,), (x, np.float32(1)))
    for call in (raw, OUTSIDE.bind(np.zeros(4, "int32"), np.zeros(4, "int32"))):
        message = "a Bound refers to memory of one process .* copy the kernel and its arguments"
        with pytest.raises(kspec.ArgumentTypeError, match=message):
            copied(call)


class TestChecks:
    def bound(self) -> Any:
        return OUTSIDE.bind(np.zeros(4, "int32"), np.zeros(4, "int32"))

    def test_those_of_the_call_count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        call = self.bound()
        with kspec.checking("none"):
            call()
        with kspec.checking("memory"), pytest.raises(kspec.HostFault, match="illegal-address"):
            call()
        with pytest.raises(kspec.HostFault, match="illegal-address"):
            call()
        monkeypatch.setenv("KSPEC_HOST_SANITIZE", "memory")
        with pytest.raises(kspec.HostFault, match="illegal-address"):
            call()

    def test_those_of_binding_do_not(self) -> None:
        with kspec.checking("memory", timeout=100):
            call = self.bound()
        with kspec.checking("none"):
            call()

    def test_of_raw_kernels(self) -> None:
        kernel = kspec.RawKernel(CODE, "step")
        step = kernel.bind((1,), (8,), (np.zeros(7, "float32"), np.float32(1)))
        with kspec.checking("memory"), pytest.raises(kspec.HostFault, match="illegal-address"):
            step()
