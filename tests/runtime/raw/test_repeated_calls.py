"""Repeated calls of raw kernels launch plans: with the effects, errors and checks of the first."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kspec
from kspec import texture
from kspec.model.declaration import RawDeclaration
from kspec.model.raw.c_params import parse_c_params
from kspec.model.stages import CudaSource
from kspec.runtime.callcache import MAX_PLANS
from kspec.runtime.modules.loader import KernelLoader
from kspec.runtime.modules.provider import CompilingProvider, OneSource
from kspec.runtime.raw.declared import RawCallable
from tests.devices import ArrayDevice
from tests.profiles import examples

SCALE = r"""
extern "C" __global__ void scale(const float* x, float* y, int n, float a) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * a + gridDim.x * 1000 + blockDim.x * 100;
}
"""
VALUES = r"""
extern "C" __global__ void values(double* out, long long i, double f, bool b, double2 c, short s,
                                  const float* null) {
  out[0] = i; out[1] = f; out[2] = b; out[3] = c.x; out[4] = c.y; out[5] = s;
  out[6] = null == nullptr;
}
"""
BYTES = r"""
extern "C" __global__ void copy_bytes(unsigned char* to, const unsigned char* from, int n) {
  if (threadIdx.x < n) to[threadIdx.x] = from[threadIdx.x];
}
"""


def declared(code: str, name: str, params: str) -> RawCallable:
    declaration = RawDeclaration(name, (name,), parse_c_params(params))
    source = CudaSource("kernel.cu", code)
    return RawCallable(declaration, KernelLoader([CompilingProvider(OneSource(source))]))


RAW = kspec.RawKernel(SCALE, "scale")
DECLARED = declared(SCALE, "scale", "const float* x, float* y, int n, float a")
COPY = kspec.RawKernel(BYTES, "copy_bytes")
BOTH = pytest.mark.parametrize("kernel", [RAW, DECLARED], ids=["raw", "declared"])


def arguments(x: Any, y: Any, n: int, a: float) -> tuple[Any, ...]:
    return x, y, np.int32(n), np.float32(a)


def hot(kernel: Any, *args: Any, **keywords: Any) -> None:
    """Call until a plan answers."""
    for _ in range(4):
        kernel(*args, **keywords)


@pytest.fixture
def full_checks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the arguments of calls that were checked in full, a living list."""
    calls: list[Any] = []
    for kind in (kspec.RawKernel, RawCallable):

        def spy(self: Any, *args: Any, prepare: Any = kind.prepare, **keywords: Any) -> Any:
            calls.append(args)
            return prepare(self, *args, **keywords)

        monkeypatch.setattr(kind, "prepare", spy)
    return calls


class TestHits:
    @BOTH
    def test_they_need_no_checks(
        self, kernel: Any, device: ArrayDevice, full_checks: list[Any]
    ) -> None:
        x, y = device.array(np.arange(5.0), "float32"), device.zeros(5, "float32")
        hot(kernel, (1,), (8,), arguments(x, y, 5, 2))
        full_checks.clear()
        np.testing.assert_array_equal(device.numpy(y), np.arange(5) * 2 + 1800)
        z = device.zeros((2, 2), "float32")  # of a shape, only the address counts
        kernel((1,), (8,), arguments(x, z, 4, 3))
        kernel((1,), (8,), list(arguments(x, y, 5, -1)))
        np.testing.assert_array_equal(device.numpy(z).ravel(), np.arange(4) * 3 + 1800)
        np.testing.assert_array_equal(device.numpy(y), np.arange(5) * -1 + 1800)
        # Own arrays have no flag for being contiguous: their shape is in the key.
        assert len(full_checks) <= (1 if kernel is DECLARED else 0)

    @BOTH
    def test_grid_and_block(self, kernel: Any, place: ArrayDevice) -> None:
        x, y = place.array(np.arange(5.0), "float32"), place.zeros(5, "float32")
        for _ in range(3):
            for grid, block in (((1,), (8,)), ((2, 1), (4,)), ((np.int64(5),), (1, 1, 1))):
                kernel(grid, block, arguments(x, y, 5, 1))
                expected = np.arange(5) + 1000 * grid[0] + 100 * block[0]
                np.testing.assert_array_equal(place.numpy(y), expected)

    @BOTH
    def test_equal_is_not_the_same(self, kernel: Any) -> None:
        x, y = np.zeros(5, "float32"), np.zeros(5, "float32")
        args = arguments(x, y, 5, 1)
        hot(kernel, (1,), (8,), args)
        for grid, block in (((1.0,), (8,)), ((1,), (8.0,)), ([1], (8,)), (1, (8,))):
            with pytest.raises(kspec.ArgumentTypeError, match="must be a tuple of 1 to 3 integers"):
                kernel(grid, block, args)
        with pytest.raises(kspec.LaunchError, match=r"grid\.x is 0"):
            kernel((0,), (8,), args)
        kernel((True,), (8,), args)
        hot(kernel, (np.array(1),), (8,), args)  # an integer without a hash
        with pytest.raises(kspec.ArgumentTypeError, match="stream must be"):
            kernel((1,), (8,), args, stream="0")

    def test_scalars(self) -> None:
        kernel = kspec.RawKernel(VALUES, "values")
        out = np.zeros(7)
        for values in (
            (1, 2.5, True, 1 + 2j, np.int16(-3), None),
            (-(2**40), -0.0, False, 3 - 4j, np.int16(7), None),
            (np.int64(9), np.float64(1.5), np.bool_(True), np.complex128(5j), np.int16(1), None),
        ):
            for _ in range(4):
                out[:] = 0
                kernel((1,), (1,), (out, *values))
            c = complex(values[3])
            assert list(out) == [*values[:3], c.real, c.imag, values[4], 1]
        hot(kernel, (1,), (1,), (out, 1, 2.5, True, 1j, np.int16(1), None))
        with pytest.raises(OverflowError, match=f"argument 1 is {2**64 - 1}, but the parameter is"):
            kernel((1,), (1,), (out, 2**64 - 1, 2.5, True, 1j, np.int16(1), None))
        with pytest.raises(OverflowError, match="more than 64 bits"):
            kernel((1,), (1,), (out, 2**64, 2.5, True, 1j, np.int16(1), None))

    def test_a_payload_survives(self) -> None:
        x, y = np.ones(1, "float32"), np.zeros(1, "float32")
        kernel = kspec.RawKernel(
            'extern "C" __global__ void bits(float* y, float a) { *y = a; }', "bits"
        )
        nan = np.array(0x7FA12345, "int32").view("float32")[()]
        for _ in range(4):
            kernel((1,), (1,), (y, nan))
        assert y.view("int32")[0] == 0x7FA12345
        hot(kernel, (1,), (1,), (x, np.float32(2**31)))
        assert x[0] == 2**31

    def test_iterators_are_read_once(self) -> None:
        x, y = np.ones(3, "float32"), np.zeros(3, "float32")
        for a in range(1, 5):
            RAW((1,), (4,), iter(arguments(x, y, 3, a)))
            assert list(y) == [a + 1400] * 3

    def test_keywords(self, place: ArrayDevice) -> None:
        x, y = place.array([1.0] * 3, "float32"), place.zeros(3, "float32")
        for shared in (0, 64, 0, 128):
            hot(RAW, (1,), (4,), arguments(x, y, 3, 1), shared_mem=shared)
        with pytest.raises(kspec.LaunchError, match="cannot be negative"):
            RAW((1,), (4,), arguments(x, y, 3, 1), shared_mem=-1)

    def test_arrays_as_values(self) -> None:
        pair = np.dtype([("first", "i4"), ("second", "f8")], align=True)
        code = """struct Pair { int first; double second; };
        extern "C" __global__ void get(double* y, Pair p) { *y = p.first + p.second; }"""
        kernel, y = kspec.RawKernel(code, "get"), np.zeros(1)
        for k in range(4):
            kernel((1,), (1,), (y, np.array((k, 0.5), pair)))
            assert y[0] == k + 0.5
            kernel((1,), (1,), (y, np.array((k, 0.25), pair)[()]))
            assert y[0] == k + 0.25
        assert kernel.cache_info().plans == 0


class TestHandles:
    """Textures, surfaces and variables: their address is packed, their device is in the key."""

    CODE = r"""
    __device__ float bias[2];
    extern "C" __global__ void look(cudaTextureObject_t tex, const float* bias, float* y, int n) {
        int i = threadIdx.x;
        if (i < n) y[i] = tex1Dfetch<float>(tex, i) + bias[1];
    }
    """

    @pytest.mark.parametrize("params", [None, "cudaTextureObject_t t, float* b, float* y, int n"])
    def test_each_call_has_its_own(
        self, params: str | None, place: ArrayDevice, full_checks: list[Any]
    ) -> None:
        module = kspec.RawModule(code=self.CODE)
        look = module.get_function("look", params)
        bias = module.get_global("bias", place.place)
        bias.array(2, "float32")[...] = np.array([0, 100], "float32")
        rows = [place.array(np.arange(4.0) + 10 * k, "float32") for k in range(3)]
        textures = [texture_over(row) for row in rows]
        y = place.zeros(4, "float32")
        hot(look, (1,), (4,), (textures[0], bias, y, np.int32(4)))
        full_checks.clear()
        for k in (0, 1, 2, 1):
            look((1,), (4,), (textures[k], bias, y, np.int32(4)))
            np.testing.assert_array_equal(place.numpy(y), np.arange(4) + 10 * k + 100)
        assert full_checks == []


def texture_over(array: Any) -> texture.TextureObject:
    resource = texture.ResourceDescriptor(
        texture.cudaResourceTypeLinear,
        arr=array,
        chDesc=texture.ChannelFormatDescriptor(32, 0, 0, 0, texture.cudaChannelFormatKindFloat),
        sizeInBytes=array.nbytes,
    )
    return texture.TextureObject(resource, texture.TextureDescriptor())


class TestRefusals:
    def test_declared_arrays(self) -> None:
        x, y = np.zeros(4, "float32"), np.zeros(4, "float32")
        hot(DECLARED, (1,), (4,), arguments(x, y, 4, 1))
        readonly = y.copy()
        readonly.flags.writeable = False
        for wrong, message in (
            ((x, readonly), "the array is read-only"),
            ((x, np.zeros(8, "float32")[::2]), "must be C-contiguous"),
            ((np.zeros((2, 2), "float32").T, y), "must be C-contiguous"),
            ((np.zeros(4, "int32"), y), "has dtype int32"),
        ):
            with pytest.raises(kspec.ArgumentTypeError, match=message):
                DECLARED((1,), (4,), arguments(*wrong, 4, 1))
        hot(DECLARED, (1,), (4,), arguments(readonly, y, 4, 1))  # const

    def test_declared_numbers(self) -> None:
        x, y = np.ones(4, "float32"), np.zeros(4, "float32")
        for value in (2, 2.5, True, np.float64(3), np.int8(4)):
            hot(DECLARED, (1,), (4,), (x, y, 4, value))
            assert list(y) == [1400 + float(value)] * 4
        with pytest.raises(OverflowError):
            DECLARED((1,), (4,), (x, y, 2**31, 2.5))
        with pytest.raises(kspec.ArgumentTypeError, match="must be a number, not str"):
            DECLARED((1,), (4,), (x, y, 4, "1"))
        hot(DECLARED, (1,), (4,), (x, y, np.array(4), np.array([2.0])))
        assert list(y) == [1402] * 4

    def test_dtypes_that_kernels_do_not_know(self) -> None:
        x = np.zeros(8, "uint8")
        hot(COPY, (1,), (8,), (x, np.arange(8, dtype="uint8"), np.int32(8)))
        assert list(x) == list(range(8))
        for wrong in (np.zeros(8, ">i4"), np.zeros(8, object), np.zeros(8, "M8[s]")):
            for _ in range(3):
                with pytest.raises(kspec.UnsupportedDTypeError):
                    COPY((1,), (8,), (x, wrong, np.int32(8)))

    def test_the_number_of_arguments(self) -> None:
        x = np.zeros(4, "float32")
        for _ in range(3):
            with pytest.raises(kspec.ArgumentTypeError, match="takes 4 parameters"):
                RAW((1,), (4,), (x, x))
            with pytest.raises(kspec.ArgumentTypeError, match="a Python float, in C a double"):
                RAW((1,), (4,), (x, x, 4, 1.0))
            with pytest.raises(kspec.ArgumentTypeError, match=r"float64, .*pass numpy.float32\(1"):
                RAW((1,), (4,), (x, x, 4, np.float64(1)))


class TestChecks:
    @pytest.fixture
    def call(self) -> Iterator[Any]:
        x, y = np.zeros(4, "float32"), np.zeros(4, "float32")
        hot(RAW, (1,), (4,), arguments(x, y, 4, 1))
        # Address and type are those of a hit; there is room behind the view.
        behind = np.zeros(8, "float32")
        yield lambda n=5, **keywords: RAW((1,), (8,), arguments(x.copy(), behind, n, 1), **keywords)

    def test_they_take_the_full_path(self, call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        match = "illegal-address"
        for _ in range(3):
            call(n=4)
        with pytest.raises(kspec.HostFault, match=match):
            call(sanitize="memory")
        with kspec.checking("memory"), pytest.raises(kspec.HostFault, match=match):
            call()
        monkeypatch.setattr(RAW, "checks", kspec.Checks("memory"))
        with pytest.raises(kspec.HostFault, match=match):
            call()
        monkeypatch.undo()
        monkeypatch.setenv("KSPEC_HOST_SANITIZE", "nonsense")
        with pytest.raises(kspec.CheckOptionError, match="nonsense"):
            call(n=4)

    def test_timeouts(self) -> None:
        code = 'extern "C" __global__ void spin(volatile int* x) { while (x[0]) {} }'
        kernel, x = kspec.RawKernel(code, "spin"), np.zeros(1, "int32")
        hot(kernel, (1,), (1,), (x,))
        with pytest.raises(kspec.HostFault, match="time"):
            kernel((1,), (1,), (x + 1,), timeout=0.2)

    def test_faults_of_a_hit(self) -> None:
        code = 'extern "C" __global__ void fail(int* x) { if (x[0]) __trap(); x[0] = 0; }'
        kernel, x = kspec.RawKernel(code, "fail"), np.zeros(1, "int32")
        hot(kernel, (1,), (1,), (x,))
        for _ in range(2):
            with pytest.raises(kspec.HostFault, match="trap"):
                kernel((1,), (1,), (x + 1,))
            kernel((1,), (1,), (x,))


class TestMemory:
    def test_the_number_of_plans_is_bounded(self) -> None:
        kernel = kspec.RawKernel(SCALE, "scale")
        x, y = np.zeros(4, "float32"), np.zeros(4, "float32")
        for size in range(1, 100):
            kernel((size,), (4,), arguments(x, y, 4, 1))
        assert kernel.cache_info().plans == 8
        for _ in range(2):
            for size in range(1, MAX_PLANS + 50):
                kernel((size,), (4,), arguments(x, y, 4, 1))
                assert y[0] == 1000 * size + 400
        assert kernel.cache_info().plans == MAX_PLANS

    def test_plans_keep_no_arrays(self) -> None:
        x, y = np.zeros(4, "float32"), np.zeros(4, "float32")
        hot(RAW, (1,), (4,), arguments(x, y, 4, 1))
        references = [weakref.ref(one) for one in (x, y)]
        del x, y
        assert [one() for one in references] == [None, None]

    def test_copies_have_call_caches_of_their_own(self) -> None:
        x, y = np.ones(4, "float32"), np.zeros(4, "float32")
        hot(DECLARED, (1,), (4,), arguments(x, y, 4, 1))
        other = copy.deepcopy(DECLARED)
        hot(other, (1,), (4,), arguments(x, y, 4, 2))
        assert list(y) == [1402] * 4
        assert other._call_cache is not DECLARED._call_cache


@BOTH
@pytest.mark.threads
def test_threads(kernel: Any, place: ArrayDevice) -> None:
    def work(seed: int) -> None:
        values = np.random.default_rng(seed).random(257).astype("float32")
        x, y = place.array(values), place.zeros(257, "float32")
        for k in range(100):
            kernel((3,), (128,), arguments(x, y, 257, k))
            expected = values * np.float32(k) + np.float32(15800)
            np.testing.assert_allclose(place.numpy(y), expected, rtol=1e-6)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


@st.composite
def calls(draw: st.DrawFn) -> tuple[Any, ...]:
    """Draw the arguments of a call, many of them wrong, from few enough to come again."""

    def array() -> Any:
        dtype = draw(st.sampled_from(["float32", "float32", "float32", "int32", ">f4"]))
        made = np.arange(8).astype(dtype)
        if draw(st.integers(0, 5)) == 0:
            made = np.repeat(made, 2)[::2]
        if draw(st.integers(0, 5)) == 0:
            made = made.reshape(2, 4)
        if draw(st.integers(0, 5)) == 0:
            made.flags.writeable = False
        return made

    numbers = [4, 8, np.int32(8), np.int64(3), np.int8(2), 2**31, 2.0, None, True, np.array(4)]
    factors = [1.0, np.float32(2), np.float64(3), 1, 1j, np.float32("nan"), "1"]
    sizes = [(1,), (1, 1), (1.0,), (True,), (np.int64(1),), [1], 1, (0,)]
    blocks = [(8,), (8,), (4, 2), (8.0,), (2000,)]
    return (
        draw(st.sampled_from(sizes[:2] if draw(st.booleans()) else sizes)),
        draw(st.sampled_from(blocks)),
        (array(), array(), draw(st.sampled_from(numbers)), draw(st.sampled_from(factors))),
    )


def outcome(call: Any) -> Any:
    try:
        return call()
    except Exception as error:
        return type(error), str(error)


@settings(max_examples=examples(100))
@given(st.lists(calls(), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_hits_equal_misses(drawn: list[tuple[Any, ...]], random: Any) -> None:
    for grid, block, args in random.choices(drawn, k=5 * len(drawn)):
        kernel = random.choice([RAW, DECLARED])
        before = args[1].copy()
        found = outcome(lambda k=kernel, c=(grid, block, args): k(*c))
        after = args[1].tobytes()
        writeable = args[1].flags.writeable
        args[1].flags.writeable = True
        args[1][...] = before
        args[1].flags.writeable = writeable
        assert found == outcome(lambda k=kernel, c=(grid, block, args): k.prepare(*c).run())
        assert args[1].tobytes() == after
        args[1].flags.writeable = True
        args[1][...] = before
        args[1].flags.writeable = writeable
