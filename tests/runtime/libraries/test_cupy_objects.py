"""Objects of CuPy's that are no arrays, as arguments: textures, surfaces, pointers and structs.

CuPy is imitated where no GPU is needed; the tests marked ``gpu`` use CuPy itself.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.runtime.driver import stream as driver_streams
from kspec.runtime.driver.device import HOST, Device
from kspec.runtime.memory.symbol import Symbol, symbol_of
from kspec.runtime.raw import untyped_args
from tests.projects import ROOT, run_python
from tests.runtime.libraries.test_array_access import (
    GPU,
    FakeKernel,
    array,
    cupy,
    declared_raw,
    fake,
    kernel_of,
)

__all__ = ["cupy", "fake"]


class TextureObject(SimpleNamespace):
    """`cupy.cuda.texture.TextureObject`."""

    __module__ = "cupy.cuda.texture"


class SurfaceObject(SimpleNamespace):
    """`cupy.cuda.texture.SurfaceObject`."""

    __module__ = "cupy.cuda.texture"


class CUDAarray(SimpleNamespace):
    """`cupy.cuda.texture.CUDAarray`."""

    __module__ = "cupy.cuda.texture"


class CPointer:
    """`cupy.cuda.function.CPointer`: the address of a value on the host."""

    __module__ = "cupy.cuda.function"

    def __init__(self, data: bytes | None) -> None:
        self._memory = None if data is None else ctypes.create_string_buffer(data, len(data))
        self.ptr = 0 if self._memory is None else ctypes.addressof(self._memory)


class mdspan(CPointer):
    """`cupy._core._carray.mdspan`."""


class UnownedMemory:
    """`cupy.cuda.UnownedMemory`."""

    def __init__(self, ptr: int, size: int, owner: object, device_id: int) -> None:
        self.ptr, self.size, self.device_id, self._owner = ptr, size, device_id, owner


class MemoryPointer:
    """`cupy.cuda.MemoryPointer`, whose attributes cannot be set from Python."""

    __module__ = "cupy.cuda.memory"

    def __init__(self, mem: UnownedMemory, offset: int) -> None:
        self._state = mem, mem.ptr + offset

    mem = property(lambda self: self._state[0])
    ptr = property(lambda self: self._state[1])
    device_id = property(lambda self: self._state[0].device_id)
    device = property(lambda self: f"<CUDA Device {self.device_id}>")


def pointer(ordinal: int = 0) -> MemoryPointer:
    return MemoryPointer(UnownedMemory(2**40, 64, None, ordinal), 8)


class TestTextures:
    FETCH = "y = x + tex2D<float>(tex, i, 0)"

    def test_of_elementwise_kernels(self, fake: FakeKernel) -> None:
        kernel = kernel_of("T x, U tex", "T y", self.FETCH)
        for handle in (5, 5, 5, 2**63 + 1, 5, 7):
            args = array(8), TextureObject(ptr=handle), array(8)
            kernel(*args)
            kernel.prepare(args).run()
            assert fake.launches[-1] == fake.launches[-2]
            assert struct.pack("PQ", 0, handle) in fake.launches[-1][1]
        assert fake.prepared == 1

    def test_they_bind_their_placeholder_as_kspecs_do(self, fake: FakeKernel) -> None:
        x, tex = array(8), TextureObject(ptr=5)
        with pytest.raises(
            TypeError, match=r"U is cudaTextureObject_t by tex, but x has dtype float32"
        ):
            kernel_of("U tex, U x", "float32 y", "y = 0")(tex, x)
        kernel = kernel_of("T x, raw U tex", "T y", "y = x")
        with pytest.raises(TypeError, match="argument tex must be an array, not a TextureObject"):
            kernel(x, tex, array(8))
        with pytest.raises(TypeError, match="argument tex is a surface; only raw kernels"):
            kernel_of("T x, U tex", "T y", self.FETCH)(x, SurfaceObject(ptr=5), array(8))
        total = kspec.ReductionKernel("T x, U tex", "T y", "x", "a + b", "y = a", "0", "total")
        with pytest.raises(
            TypeError, match="total: argument tex is a texture, which a reduction cannot"
        ):
            total(x, tex)

    def test_next_to_arrays_of_numpys(self) -> None:
        x, tex = np.zeros(8, "f4"), TextureObject(ptr=5)
        with pytest.raises(kspec.DeviceMismatchError, match="x on host, tex on a CUDA device; a k"):
            kspec.ElementwiseKernel("T x, U tex", "T y", self.FETCH, "fetch")(x, tex)
        for value in (tex, SurfaceObject(ptr=5), mdspan(bytes(24))):
            with pytest.raises(
                kspec.DeviceMismatchError, match="argument 0 on host, argument 1 on a CUDA device"
            ):
                kspec.RawKernel("", "f")((1,), (1,), (x, value))

    @pytest.mark.parametrize(
        "params", [None, "float* x, cudaTextureObject_t from, cudaSurfaceObject_t to"]
    )
    def test_of_raw_kernels(self, params: str | None, fake: FakeKernel) -> None:
        kernel = declared_raw(params) if params else kspec.RawKernel("", "f")
        for handle in (5, 5, 5, 2**63 + 1, 5, 7):
            args = array(4), TextureObject(ptr=handle), SurfaceObject(ptr=handle + 1)
            kernel((1,), (1,), args)
            kernel.prepare((1,), (1,), args).run()
            assert fake.launches[-1] == fake.launches[-2]
            assert fake.launches[-1][1][1:] == [
                struct.pack("Q", handle),
                struct.pack("Q", handle + 1),
            ]
        assert fake.prepared == 1

    def test_what_raw_kernels_refuse(self, fake: FakeKernel) -> None:
        x, tex = array(4), TextureObject(ptr=5)
        with pytest.raises(TypeError, match=r"argument y .* must be an array, not TextureObject"):
            declared_raw("float* x, float* y")((1,), (1,), (x, tex))
        with pytest.raises(TypeError, match=r"argument to .* must be a SurfaceObject, not Texture"):
            declared_raw("float* x, cudaSurfaceObject_t to")((1,), (1,), (x, tex))
        with pytest.raises(TypeError, match="which kernels read through a TextureObject"):
            kspec.RawKernel("", "f")((1,), (1,), (x, CUDAarray(ptr=5)))


class TestPointers:
    def test_they_are_packed(self, fake: FakeKernel) -> None:
        kernel = kspec.RawKernel("", "f")
        for _ in range(5):
            kernel((1,), (1,), (array(4), pointer()))
            assert fake.launches[-1][1][1] == struct.pack("P", 2**40 + 8)
        assert fake.prepared == 1

    def test_of_another_device(self, fake: FakeKernel) -> None:
        kernel = kspec.RawKernel("", "f")
        for _ in range(4):
            kernel((1,), (1,), (array(4), pointer()))
        with pytest.raises(
            kspec.DeviceMismatchError, match="argument 0 on cuda:0, argument 1 on cuda:1"
        ):
            kernel((1,), (1,), (array(4), pointer(1)))

    def test_alone_they_are_on_the_current_stream(
        self, cupy: Any, fake: FakeKernel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(untyped_args, "default_device", lambda: GPU)
        monkeypatch.setattr(driver_streams, "is_stream_of", lambda ordinal, handle: True)
        cupy.current = SimpleNamespace(ptr=7)
        for value, size in ((pointer(), 8), (TextureObject(ptr=5), 8), (mdspan(bytes(24)), 24)):
            fake.parameter_sizes = (size,)  # type: ignore[assignment]
            kspec.RawKernel("", "f")((1,), (1,), (value,))
            kspec.RawKernel("", "f")((1,), (1,), (value,), stream=9)
        assert [launch.stream for launch, _ in fake.launches] == [7, 9] * 3


class TestStructs:
    """CuPy tells the address of a struct only; the kernel knows its size."""

    @pytest.mark.parametrize("params", [None, "float* x, my::view<float, 2> view"])
    def test_the_bytes_are_passed(self, params: str | None, fake: FakeKernel) -> None:
        fake.parameter_sizes = (8, 40)  # type: ignore[assignment]
        kernel = declared_raw(params) if params else kspec.RawKernel("", "f")
        for k in (1, 1, 1, 2, 1, 3):
            data = bytes(range(k, k + 48))
            args = array(4), mdspan(data)
            kernel((1,), (1,), args)
            kernel.prepare((1,), (1,), args).run()
            assert fake.launches[-1] == fake.launches[-2]
            assert fake.launches[-1][1][1] == data[:40]
        assert fake.prepared == 1

    def test_what_is_refused(self, fake: FakeKernel) -> None:
        x, view = array(4), mdspan(bytes(24))
        with pytest.raises(
            kspec.NotSupportedError, match=r"f: argument 1 is CuPy's mdspan, .* CUDA 12\.4 and"
        ):
            kspec.RawKernel("", "f")((1,), (1,), (x, view))
        fake.parameter_sizes = (8, 24)  # type: ignore[assignment]
        with pytest.raises(TypeError, match="f: argument 1: this mdspan points to no memory"):
            kspec.RawKernel("", "f")((1,), (1,), (x, mdspan(None)))
        with pytest.raises(TypeError, match=r"argument y .* must be an array, not mdspan"):
            declared_raw("float* x, float* y")((1,), (1,), (x, view))


class TestGlobals:
    """Variables of modules are CuPy's pointers too, once CuPy is there."""

    @pytest.fixture
    def memory(self, cupy: Any) -> None:
        cupy.cuda.MemoryPointer, cupy.cuda.UnownedMemory = MemoryPointer, UnownedMemory

    @pytest.mark.usefixtures("memory")
    def test_they_are_pointers(self) -> None:
        owner = object()
        symbol = symbol_of("table", 2**40, 64, Device("cuda", 1), owner)
        assert isinstance(symbol, Symbol) and isinstance(symbol, MemoryPointer)
        assert (symbol.name, symbol.ptr, symbol.nbytes) == ("table", 2**40, 64)
        assert (symbol.device_id, symbol.device) == (1, "<CUDA Device 1>")
        assert symbol.place == Device("cuda", 1)
        assert (symbol.mem.size, symbol.mem._owner) == (64, owner)
        assert repr(symbol) == "<Symbol table: 64 bytes on cuda:1>"
        assert type(symbol) is type(symbol_of("other", 2**41, 64, GPU, owner))
        with pytest.raises(TypeError, match="a Symbol refers to memory of one process"):
            symbol.__reduce_ex__(4)

    @pytest.mark.usefixtures("memory")
    def test_as_arguments(self, fake: FakeKernel) -> None:
        kernel = kspec.RawKernel("", "f")
        for _ in range(5):
            kernel((1,), (1,), (array(4), symbol_of("table", 2**40, 64, GPU, None)))
            assert fake.launches[-1][1][1] == struct.pack("P", 2**40)
        assert fake.prepared == 1
        with pytest.raises(kspec.DeviceMismatchError, match="argument 1 on cuda:1"):
            other = symbol_of("table", 2**40, 64, Device("cuda", 1), None)
            kernel((1,), (1,), (array(4), other))

    @pytest.mark.usefixtures("memory")
    def test_those_of_the_host_are_not(self) -> None:
        symbol = symbol_of("table", 2**40, 64, HOST, None)
        assert type(symbol) is Symbol and symbol.device == symbol.place == HOST

    def test_while_cupy_is_being_imported(self, cupy: Any) -> None:
        del cupy.cuda
        assert type(symbol_of("table", 2**40, 64, GPU, None)) is Symbol


WITHOUT_A_GPU = """
import ctypes, struct, warnings
warnings.simplefilter("ignore")
import cupy
from kspec.runtime.driver.device import Device
from kspec.runtime.memory.symbol import symbol_of
from kspec.runtime.arguments.opaque import kind_of, is_cupys
from kspec.runtime.raw.untyped_args import struct_bytes

memory = (ctypes.c_float * 8)()  # nothing reads it
symbol = symbol_of("table", ctypes.addressof(memory), 32, Device("cuda", 0), memory)
array = cupy.ndarray((2, 4), "float32", symbol)
assert array.data is symbol and array.device == cupy.cuda.Device(0) == symbol.device
assert symbol.mem._owner is memory and int(symbol) == symbol.ptr == ctypes.addressof(memory)
assert array[1:].data.ptr == (symbol + 16).ptr
assert kind_of(symbol) == kind_of(array.data + 4) == "pointer"
for name in ("TextureObject", "SurfaceObject", "CUDAarray"):
    kind = getattr(cupy.cuda.texture, name)
    assert kind_of(kind.__new__(kind)) == name and is_cupys(kind.__new__(kind))
if hasattr(array, "mdspan"):
    span = array.mdspan(index_type=cupy.int64)
    assert kind_of(span) == "struct"
    found = struct.unpack("P4q", struct_bytes("x", span, 40))
    assert found == (ctypes.addressof(memory), 2, 4, 4, 1)
symbol += 16
assert symbol.array(8, "float32").ptr == ctypes.addressof(memory)  # still the whole variable
print("done")
"""


def test_cupys_classes_are_as_imitated_here() -> None:
    """CuPy's arrays can be made without a GPU, as long as nothing reads their memory."""
    found = importlib.util.find_spec("cupy")
    if found is None or found.origin is None:
        pytest.skip("needs CuPy")
    assert run_python(WITHOUT_A_GPU, ROOT, Path(found.origin).parents[1]) == "done\n"


SOURCE = r"""
__constant__ float factors[6];
extern "C" __global__ void scale(float* x) { x[threadIdx.x] *= factors[threadIdx.x]; }
"""


@pytest.mark.gpu
class TestCupyItself:
    @pytest.fixture
    def cupy(self) -> Any:
        return pytest.importorskip("cupy")

    def make_texture(self, cupy: Any, image: Any, *, surface: bool = False) -> Any:
        texture, runtime = cupy.cuda.texture, cupy.cuda.runtime
        channel = texture.ChannelFormatDescriptor(32, 0, 0, 0, runtime.cudaChannelFormatKindFloat)
        flags = runtime.cudaArraySurfaceLoadStore if surface else 0
        cu_array = texture.CUDAarray(channel, image.shape[1], image.shape[0], 0, flags)
        cu_array.copy_from(image)
        resource = texture.ResourceDescriptor(runtime.cudaResourceTypeArray, cuArr=cu_array)
        if surface:
            return texture.SurfaceObject(resource)
        modes = (runtime.cudaAddressModeClamp,) * 2
        return texture.TextureObject(resource, texture.TextureDescriptor(modes))

    def test_textures_of_elementwise_kernels(self, cupy: Any) -> None:
        kernel = kspec.ElementwiseKernel(
            "T x, U tex", "T y", "y = x + tex2D<float>(tex, i % 4, i / 4)", "fetch"
        )
        for k in range(6):
            image = k * cupy.arange(12, dtype="f4").reshape(3, 4)
            y = kernel(cupy.full(12, 100, "f4"), self.make_texture(cupy, image))
            assert y.tolist() == (100 + image.ravel()).tolist()
        by_size = kspec.ElementwiseKernel(
            "U tex", "raw float32 y", "y[i] = tex2D<float>(tex, i, 1)", "by_size"
        )
        y = cupy.zeros(4, "f4")
        by_size(self.make_texture(cupy, image), y, size=4)
        assert y.tolist() == [20, 25, 30, 35]

    @pytest.mark.parametrize(
        "params", [None, "cudaTextureObject_t from, cudaSurfaceObject_t to, float by"]
    )
    def test_textures_and_surfaces_of_raw_kernels(self, params: str | None, cupy: Any) -> None:
        code = r"""
        extern "C" __global__ void copy(
            cudaTextureObject_t from, cudaSurfaceObject_t to, float by) {
          int x = threadIdx.x, y = threadIdx.y;
          surf2Dwrite(by * tex2D<float>(from, x, y), to, x * sizeof(float), y);
        }
        """
        kernel = kspec.RawKernel(code, "copy", params=params)
        image, out = cupy.arange(12, dtype="f4").reshape(3, 4), cupy.zeros((3, 4), "f4")
        texture, surface = (
            self.make_texture(cupy, image),
            self.make_texture(cupy, out, surface=True),
        )
        # Their arrays are filled on the default stream, for which the other one does not wait.
        cupy.cuda.Device().synchronize()
        with cupy.cuda.Stream(non_blocking=True) as stream:
            kernel((1,), (4, 3), (texture, surface, np.float32(2)))
            stream.synchronize()
        surface.ResDesc.cuArr.copy_to(out)
        assert out.tolist() == (2 * image).tolist()

    def test_arrays_over_variables(self, cupy: Any) -> None:
        module = kspec.RawModule(code=SOURCE)
        factors = cupy.arange(6, dtype="f4")
        # As code for CuPy's modules has it.
        table = cupy.ndarray(factors.shape, factors.dtype, module.get_global("factors"))
        table[...] = factors
        x = cupy.full(6, 10, "f4")
        module.get_function("scale")((1,), (6,), (x,))
        assert x.tolist() == [0, 10, 20, 30, 40, 50]
        symbol = module.get_global("factors")
        assert isinstance(symbol, cupy.cuda.MemoryPointer) and symbol.nbytes == 24
        symbol.copy_from_host((7 * np.ones(6, "f4")).ctypes.data, 24)
        assert table.tolist() == kspec.asnumpy(symbol.array(6, "f4")).tolist() == [7] * 6
        with table.device:
            assert (symbol + 8).ptr == table[2:].data.ptr
        del module, symbol
        gc.collect()
        assert cupy.asnumpy(table[4:]).tolist() == [7, 7]

    @pytest.mark.parametrize("index", ["int32", "int64"])
    @pytest.mark.parametrize("layout", ["layout_right", "layout_left", "layout_stride"])
    def test_mdspans(self, layout: str, index: str, cupy: Any) -> None:
        if not hasattr(cupy.ndarray, "mdspan"):
            pytest.skip("needs CuPy 14")
        code = f"""
        #include <cuda/std/mdspan>
        template <class T> using view = cuda::std::mdspan<
            T, cuda::std::dextents<{index}_t, 2>, cuda::std::{layout}>;
        extern "C" __global__ void twice(view<const float> x, view<float> y) {{
          int i = threadIdx.y, j = threadIdx.x;
          if (i < x.extent(0) && j < x.extent(1)) y(i, j) = 2 * x(i, j);
        }}
        """
        kernel = kspec.RawKernel(code, "twice")
        order = "F" if layout == "layout_left" else "C"
        for k in range(5):
            with cupy.cuda.Stream(non_blocking=True) as stream:  # nothing but the spans names it
                x = cupy.arange(k, k + 12, dtype="f4").reshape((3, 4), order=order)
                y = cupy.zeros_like(x, order=order)
                if layout == "layout_stride":
                    x, y = x[:, ::2], y[:, ::2]
                spans = [one.mdspan(index_type=getattr(cupy, index)) for one in (x, y)]
                kernel((1,), (8, 8), tuple(spans))
                stream.synchronize()
            assert y.tolist() == (2 * x).tolist()
