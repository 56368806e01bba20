"""Raw kernels whose specs say how they are launched."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kspec
from kspec.model.declaration import RawDeclaration
from kspec.model.raw.c_params import parse_c_params
from kspec.model.raw.launch_rules import LaunchRules
from kspec.model.stages import CudaSource
from kspec.runtime.modules.loader import KernelLoader
from kspec.runtime.modules.provider import CompilingProvider, OneSource
from kspec.runtime.raw.completion import Completion
from kspec.runtime.raw.launch_rules import RawFunction, make_configure
from kspec.spec.models import RawSpec
from tests.devices import ArrayDevice
from tests.seeds.generated import generated_module

# What the kernel sees: its arguments and its launch.
SEEN = r"""
extern "C" __global__ void seen(const float* x, double* out, int n, float a, bool b) {
  extern __shared__ char shared[];
  if (blockIdx.x + blockIdx.y + threadIdx.x + threadIdx.y) return;
  out[0] = n; out[1] = a; out[2] = b;
  out[3] = gridDim.x; out[4] = gridDim.y; out[5] = blockDim.x; out[6] = blockDim.y;
}
"""
PARAMS = "const float* x, double* out, int n, float a, bool b"


def function(
    code: str = SEEN, name: str = "seen", params: str = PARAMS, **rules: Any
) -> RawFunction:
    declared = RawDeclaration(name, (name,), parse_c_params(params), "", LaunchRules(**rules))
    return RawFunction(
        declared, KernelLoader([CompilingProvider(OneSource(CudaSource("k.cu", code)))])
    )


COMPLETE = {
    "grid": ("ceil_div(n, block.x)", "2 if b else x.shape[0]"),
    "block": ("64", "1"),
    "shared_mem": "block.x * x.itemsize",
    "defaults": (("n", "x.size"), ("a", 2.5), ("b", False)),
}
KERNEL = function(**COMPLETE)


def seen(place: ArrayDevice, kernel: RawFunction, *args: Any, **keywords: Any) -> list[float]:
    out = place.zeros(7)
    grid, block = keywords.pop("grid", None), keywords.pop("block", None)
    for _ in range(4):  # the last ones are answered by a plan
        kernel(grid, block, (args[0], out, *args[1:]), **keywords)
    return list(place.numpy(out))


class TestCalls:
    def test_everything_follows(self, device: ArrayDevice) -> None:
        x = device.zeros((3, 50), "float32")
        assert seen(device, KERNEL, x, None, None, None) == [150, 2.5, 0, 3, 3, 64, 1]

    def test_what_is_given_goes_first(self, place: ArrayDevice) -> None:
        x = place.zeros((3, 50), "float32")
        assert seen(place, KERNEL, x, 65, 1, True) == [65, 1, 1, 2, 2, 64, 1]
        # The grid follows the block of the call.
        assert seen(place, KERNEL, x, 65, 1, True, block=(32,)) == [65, 1, 1, 3, 2, 32, 1]
        assert seen(place, KERNEL, x, 65, 1, True, grid=(1,)) == [65, 1, 1, 1, 1, 64, 1]
        sizes = {"grid": (5, 6), "block": (np.int64(4), 2)}
        assert seen(place, KERNEL, x, 65, 1, True, **sizes) == [65, 1, 1, 5, 6, 4, 2]

    def test_numbers_of_every_sort(self, place: ArrayDevice) -> None:
        """Expressions see what the kernel sees."""
        x = place.zeros((1, 1), "float32")
        for n in (65, np.uint8(65), np.int64(65), np.array(65), np.array([65])):
            assert seen(place, KERNEL, x, n, 1, False)[:4] == [65, 1, 0, 2]
        message = r"seen: argument n is declared int n, so it must be an integer, not 65\.0"
        for n in (65.0, np.float32(65), np.array(65.0)):
            with pytest.raises(kspec.ArgumentTypeError, match=message):
                seen(place, KERNEL, x, n, 1, False)
        for b in (True, np.bool_(True), 1, np.array(True)):
            assert seen(place, KERNEL, x, 65, 1, b)[2:5] == [1, 2, 2]

    def test_numbers_of_arrays_are_known_on_the_host(self, place: ArrayDevice) -> None:
        x, n = place.zeros((1, 1), "float32"), place.array([65], "int32")
        if place.is_host:
            assert seen(place, KERNEL, x, n, 1, False)[:4] == [65, 1, 0, 2]
            return
        message = r"argument n .*must be a number; that of an array on cuda:0 is not known"
        with pytest.raises(kspec.ArgumentTypeError, match=message):
            seen(place, KERNEL, x, n, 1, False)

    def test_arrays_change(self, place: ArrayDevice) -> None:
        out = place.zeros(7)
        for size in (1, 64, 65, 1, 1000, 65):
            for _ in range(3):
                KERNEL(None, None, (place.zeros((1, size), "float32"), out, None, None, None))
                got = place.numpy(out)
                assert (got[0], got[3]) == (size, -(-size // 64))

    def test_shared_memory(self, device: ArrayDevice) -> None:
        code = r"""extern "C" __global__ void reverse(float* data) {
          extern __shared__ float shared[];
          int t = threadIdx.x, n = blockDim.x;
          shared[t] = data[t];
          __syncthreads();
          data[t] = shared[n - 1 - t];
        }"""
        rules = {"grid": ("1",), "block": ("data.size",), "shared_mem": "block.x * data.itemsize"}
        kernel = function(code, "reverse", "float* data", **rules)
        data = device.array(np.arange(300, dtype="float32"))
        for _ in range(3):
            kernel(None, None, (data,))
        np.testing.assert_array_equal(device.numpy(data), np.arange(300)[::-1])

    def test_only_shared_memory(self, place: ArrayDevice) -> None:
        kernel = function(shared_mem="grid.x * block.y * 1000")
        x = place.zeros(1, "float32")
        sizes: dict[str, Any] = {"grid": (3,), "block": (2, 4)}
        assert seen(place, kernel, x, 1, 1, True, **sizes) == [1, 1, 1, 3, 1, 2, 4]
        with pytest.raises(kspec.ArgumentTypeError, match="grid must be a tuple"):
            seen(place, kernel, x, 1, 1, True)

    def test_without_parameters(self) -> None:
        code = 'extern "C" __global__ void nothing() {}'
        kernel = function(code, "nothing", "", grid=("2",), block=("3",))
        for _ in range(3):
            kernel(None, None, ())
        with pytest.raises(kspec.ArgumentTypeError, match="nothing takes 0 parameters"):
            kernel(None, None, (1,))

    def test_copies(self, place: ArrayDevice) -> None:
        x = place.zeros((3, 50), "float32")
        for kernel in (KERNEL, pickle.loads(pickle.dumps(KERNEL))):
            assert seen(place, kernel, x, None, None, None) == [150, 2.5, 0, 3, 3, 64, 1]
        again = pickle.loads(pickle.dumps(KERNEL))  # it has been called
        assert seen(place, again, x, 1, 1, True)[3] == 1

    def test_checks(self) -> None:
        x, out = np.zeros((1, 1), "float32"), np.zeros(3)
        with pytest.raises(kspec.HostFault, match="illegal-address"):
            KERNEL(None, None, (x, out, None, None, None), sanitize="memory")

    def test_lists_and_iterators(self) -> None:
        x, out = np.zeros((1, 65), "float32"), np.zeros(7)
        for args in ([x, out, None, None, None], iter((x, out, None, None, None))):
            out[:] = 0
            KERNEL(None, None, args)  # type: ignore[arg-type]
            assert out[0] == 65

    def test_arrays_without_a_shape(self) -> None:
        """Anything that lends memory is an array."""
        x = np.zeros((3, 50), "float32")
        lender = SimpleNamespace(__dlpack__=x.__dlpack__, __dlpack_device__=x.__dlpack_device__)

        class Lender:
            def __dlpack__(self, **keywords: Any) -> Any:
                return lender.__dlpack__(**keywords)

            def __dlpack_device__(self) -> Any:
                return lender.__dlpack_device__()

        out = np.zeros(7)
        for _ in range(3):
            KERNEL(None, None, (Lender(), out, None, None, None))
            assert list(out[[0, 3]]) == [150, 3]

    def test_repeated_calls_need_no_checks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        x, out = np.zeros((3, 50), "float32"), np.zeros(7)
        for _ in range(4):
            KERNEL(None, None, (x, out, None, None, None))
        monkeypatch.setattr(RawFunction, "prepare", None)
        KERNEL(None, None, (x, out, None, None, None))
        KERNEL(None, None, (x, out, 150, 2.5, False))


class TestGenerated:
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize("size", [0, 1, 255, 257, 100_003])
    def test_axpy(self, dtype: str, size: int, device: ArrayDevice) -> None:
        axpy = generated_module("vectors").axpy
        x = device.array(np.arange(size), dtype)
        y = device.array(np.full(size, 0.5), dtype)
        for _ in range(4):
            assert axpy(2, x, y) is None
        axpy(-2, x, y, n=min(size, 3), block=(32,))
        axpy(1, x, y, min(size, 1), grid=(1,), shared_mem=64)
        expected = np.arange(size) * 8 + 0.5
        expected[:3] -= 2 * np.arange(size)[:3]
        np.testing.assert_array_equal(device.numpy(y), expected.astype(dtype))

    def test_its_errors(self, place: ArrayDevice) -> None:
        axpy = generated_module("vectors").axpy
        x = place.zeros(3, "float32")
        with pytest.raises(kspec.ArgumentTypeError, match="axpy: T is float32, but y has dtype"):
            axpy(1, x, place.zeros(3))
        with pytest.raises(kspec.LaunchError, match=r"block\.x is 2048"):
            axpy(1, x, x, block=(2048,))


class TestBlocksOfTheCode:
    """A call cannot choose a block that the grid does not follow, unless the spec says so."""

    CODE = r"""
    extern "C" __global__ void turn(const float* x, float* y, int n) {
      __shared__ float tile[16][16];
      int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
      if (threadIdx.x < 16 && threadIdx.y < 16 && row < n && column < n) {
        tile[threadIdx.y][threadIdx.x] = x[row * n + column];
      }
      __syncthreads();
      row = blockIdx.x * 16 + threadIdx.y, column = blockIdx.y * 16 + threadIdx.x;
      if (row < n && column < n) y[row * n + column] = tile[threadIdx.x][threadIdx.y];
    }"""

    def kernel(self, **fields: Any) -> RawFunction:
        declared: dict[str, Any] = {
            "params": ["const float* x", "float* y", "int n"],
            "defaults": {"n": "x.shape[0]"},
            "grid": ["ceil_div(n, 16)"] * 2,
            "block": [16, 16],
        }
        spec = RawSpec(name="turn", code=self.CODE, **{**declared, **fields})
        source = OneSource(CudaSource("k.cu", self.CODE))
        return RawFunction(spec.declaration(), KernelLoader([CompilingProvider(source)]))

    def test_they_are_fixed(self, device: ArrayDevice) -> None:
        kernel = self.kernel()
        x = device.array(np.arange(400).reshape(20, 20), "float32")
        y = device.zeros((20, 20), "float32")
        message = (
            r"^turn: block=\(32, 32\), but the spec fixes it, here to \(16, 16\); leave it out$"
        )
        for _ in range(3):
            kernel(None, None, (x, y, None))
            kernel(None, (16, 16), (x, y, None))
            np.testing.assert_array_equal(device.numpy(y), device.numpy(x).T)
            with pytest.raises(kspec.LaunchError, match=message):
                kernel(None, (32, 32), (x, y, None))

    @pytest.mark.parametrize(
        ("fields", "expected"),
        [
            ({}, ("block",)),
            ({"fixed": []}, ()),
            ({"fixed": ["grid"]}, ("grid",)),
            ({"grid": "n", "block": 256}, ("block",)),
            ({"grid": 4, "block": "n", "shared_mem": "block.x * 4"}, ("block",)),
            ({"grid": "ceil_div(n, block . x)", "block": 256}, ()),
            ({"grid": ["n", "ceil_div(n, block.y)"], "block": [16, 16]}, ("block",)),
            ({"grid": "ceil_div(n, block.x * block.y)", "block": [16, 16]}, ()),
            ({"grid": "ceil_div(n, block.y)", "block": 256}, ("block",)),
            ({"grid": None, "block": None}, ()),
        ],
    )
    def test_where_the_spec_does_not_say(
        self, fields: dict[str, Any], expected: tuple[str, ...]
    ) -> None:
        assert self.kernel(**fields).declaration.rules.fixed == expected

    def test_blocks_of_template_values(self) -> None:
        spec = RawSpec(
            name="fill",
            code="template <int TILE> __global__ void fill(float* x) {}",
            name_expressions=["fill<16>", "fill<32>"],
            template=["TILE"],
            params=["float* x"],
            grid="ceil_div(x.size, block.x)",
            block="TILE",
        )
        assert spec.launch_rules.fixed == ("block",)


class TestOptions:
    @pytest.mark.alone
    def test_cooperative(self, device: ArrayDevice) -> None:
        code = r"""#include <cooperative_groups.h>
        extern "C" __global__ void rotate(float* x) {
          float next = x[(blockIdx.x + 1) % gridDim.x];
          cooperative_groups::this_grid().sync();
          x[blockIdx.x] = next;
        }"""
        rules = LaunchRules(("x.size",), ("1",))
        params = parse_c_params("float* x")
        declared = RawDeclaration("rotate", ("rotate",), params, "", rules, cooperative=True)
        source = OneSource(CudaSource("k.cu", code))
        kernel = RawFunction(declared, KernelLoader([CompilingProvider(source)]))
        x = device.array(np.arange(5), "float32")
        for _ in range(3):
            kernel(None, None, (x,))
        np.testing.assert_array_equal(device.numpy(x), [3, 4, 0, 1, 2])

    def test_clusters(self, place: ArrayDevice) -> None:
        """Options of the call are passed on."""
        x, out = place.zeros((1, 2), "float32"), place.zeros(7)
        args = (x, out, 65, 1, True)
        with pytest.raises(kspec.ArgumentTypeError, match="cluster must be a tuple"):
            KERNEL(None, None, args, cluster=2)
        with pytest.raises(kspec.LaunchError, match=r"is not a multiple of cluster"):
            KERNEL((3,), None, args, cluster=(2,))
        KERNEL(None, None, args, pdl=True)
        assert place.numpy(out)[0] == 65


class TestErrors:
    @pytest.mark.parametrize(
        ("n", "grid", "message"),
        [
            (0, "ceil_div(n, 4)", r"seen: grid = ceil_div\(n, 4\) is 0 with n = 0; it must be 1"),
            (-9, "n", "seen: grid = n is -9 with n = -9; it must be 1 or more"),
            (0, "8 // n", "seen: grid = 8 // n divides by zero with n = 0"),
            (1, "x.shape[2]", r"grid = x.shape\[2\] has no such axis with x.shape = \(3, 4\)"),
            (1, "x.size - 12", "grid = x.size - 12 is 0 with x.size = 12"),
            (1, "n - block.x", "grid = n - block.x is -31 with n = 1, block.x = 32"),
            (3 * 10**9, "1", "argument n is declared int n: .*3000000000"),
            ("3", "n", "argument n is declared int n, so it must be a number, not str"),
            (None, "n", "argument n is declared int n, so it must be a number, not NoneType"),
        ],
    )
    def test_values(self, n: Any, grid: str, message: str, place: ArrayDevice) -> None:
        kernel = function(grid=(grid,), block=("32",))
        x, out = place.zeros((3, 4), "float32"), place.zeros(7)
        for _ in range(2):
            with pytest.raises((kspec.LaunchError, TypeError, OverflowError), match=message):
                kernel(None, None, (x, out, n, 1, True))

    def test_axes_are_named_where_there_are_several(self, place: ArrayDevice) -> None:
        kernel = function(grid=("1", "n - 1"), block=("1",), shared_mem="-n")
        x, out = place.zeros(1, "float32"), place.zeros(7)
        with pytest.raises(kspec.LaunchError, match=r"grid\.y = n - 1 is 0 with n = 1"):
            kernel(None, None, (x, out, 1, 1, True))
        with pytest.raises(kspec.LaunchError, match=r"shared_mem = -n is -2 .* must be 0"):
            kernel(None, None, (x, out, 2, 1, True))

    @pytest.mark.parametrize("x", [None, 3, [1.0]])
    def test_no_array(self, x: Any, place: ArrayDevice) -> None:
        message = r"argument x is declared const float\* x and n = x.size, so it must be an array"
        out = place.zeros(7)
        with pytest.raises(kspec.ArgumentTypeError, match=message):
            KERNEL(None, None, (x, out, None, 1, True))
        if x is None:  # a null pointer where nothing depends on it
            with pytest.raises(
                kspec.ArgumentTypeError, match="declare 'const float\\* x = nullptr'"
            ):
                KERNEL((1,), (1,), (x, out, 1, 1, True), shared_mem=0)
            kernel = function(params=PARAMS.replace("* x", "* x = nullptr"), **COMPLETE)
            kernel((1,), (1,), (x, out, 1, 1, True), shared_mem=0)
            assert place.numpy(out)[0] == 1

    def test_given_sizes_are_checked(self, place: ArrayDevice) -> None:
        args = (place.zeros((1, 1), "float32"), place.zeros(7), 1, 1, True)
        for sizes in ([1], 1, (), (1, 1, 1, 1), (1.0,)):
            with pytest.raises(kspec.ArgumentTypeError, match="block must be a tuple of 1 to 3"):
                KERNEL(None, sizes, args)  # type: ignore[arg-type]
            with pytest.raises(kspec.ArgumentTypeError, match="grid must be a tuple of 1 to 3"):
                KERNEL(sizes, None, args)  # type: ignore[arg-type]
        with pytest.raises(kspec.LaunchError, match=r"block\.x is 0"):
            KERNEL(None, (0,), args)
        with pytest.raises(kspec.LaunchError, match=r"^seen: shared_mem is -1"):
            KERNEL(None, None, args, shared_mem=-1)

    def test_the_number_of_arguments(self, place: ArrayDevice) -> None:
        with pytest.raises(kspec.ArgumentTypeError, match="seen takes 5 parameters"):
            KERNEL(None, None, (place.zeros(1, "float32"),))

    def test_a_default_that_does_not_fit(self) -> None:
        kernel = function(grid=("1",), block=("1",), defaults=(("n", "x.size * 2147483648"),))
        x, out = np.zeros(1, "float32"), np.zeros(7)
        with pytest.raises(OverflowError, match="argument n is declared int n"):
            kernel(None, None, (x, out, None, 1, True))

    def test_too_large_for_any_device(self) -> None:
        kernel = function(grid=("1", "n"), block=("1",))
        args = (np.zeros(1, "float32"), np.zeros(7), 70000, 1, True)
        with pytest.raises(
            kspec.LaunchError, match=r"grid\.y = n is 70000 .* must be 65535 or less"
        ):
            kernel(None, None, args)
        with pytest.raises(kspec.LaunchError, match=r"grid\.y is 70000; it must be in 1..65535"):
            kernel((1, 70000), None, args)
        kernel = function(grid=("1",), block=("n", "n"))
        with pytest.raises(kspec.LaunchError, match=r"block\.x = n is 1025 with n = 1025"):
            kernel(None, None, (*args[:2], 1025, 1, True))
        with pytest.raises(kspec.LaunchError, match="has 1600 threads; at most 1024"):
            kernel(None, None, (*args[:2], 40, 1, True))


rules = st.sampled_from(
    ["n", "x.size", "n - m", "x.shape[1]", "n // m", "ceil_div(n, m) + x.ndim", "x.itemsize", "3"]
)
numbers = st.integers(-2, 40) | st.none() | st.sampled_from([2.5, "4", np.int8(7), np.float32(3)])
sizes = st.none() | st.sampled_from([(1,), (2, 3), (4, 5, 6), (np.int64(3),)])


@given(
    st.lists(rules, min_size=1, max_size=3),
    st.lists(rules, min_size=1, max_size=3),
    st.sampled_from(["", "block.y * grid.z", "n * 4 - block.x"]),
    st.sampled_from([(), (("n", "x.size"),), (("m", "x.size - n"),), (("m", 5), ("n", "x.ndim"))]),
    st.tuples(st.sampled_from([np.zeros((2, 3), "f4"), np.zeros(4, "f4"), None]), numbers, numbers),
    sizes,
    sizes,
    st.none() | st.integers(0, 8),
)
def test_fast_and_in_full_are_the_same(
    grid: list[str],
    block: list[str],
    shared: str,
    defaults: Any,
    args: Any,
    given_grid: Any,
    given_block: Any,
    given_shared: Any,
) -> None:
    """The compiled function answers as the step by step one does, or leaves it to that."""
    texts = LaunchRules(tuple(grid), tuple(block), shared, defaults)
    declared = RawDeclaration("f", ("f",), parse_c_params("float* x, int n, int m"), "", texts)
    full = Completion(declared)
    fast = make_configure(full)

    def outcome(configure: Any) -> Any:
        try:
            grid, block, args_, shared, _ = configure(given_grid, given_block, args, given_shared)
        except Exception as error:
            return type(error), str(error)
        return grid, block, args_[0] is args[0], args_[1:], shared

    got, expected = outcome(fast), outcome(full)
    if isinstance(expected[0], type):
        assert got == expected
    else:
        assert got[:3] == expected[:3]
        assert got[4] == expected[4]
        # Numbers may have become what the kernel sees.
        for one, other in zip(got[3], expected[3], strict=True):
            assert one == (int(other) if isinstance(one, int) and other is not None else other)
