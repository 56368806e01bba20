"""Arrays that kernels get by a protocol: DLPack, CuPy's and Numba's."""

from __future__ import annotations

import gc
import importlib
import re
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kspec
from kspec.errors import ArgumentTypeError, UnsupportedDTypeError
from kspec.runtime import driver
from kspec.runtime.driver import stream as driver_streams
from kspec.runtime.driver.device import HOST, Device
from kspec.runtime.libraries.lookup import library_of
from kspec.runtime.libraries.stream_order import stream_of_call
from kspec.runtime.memory import ArrayView
from tests.devices import ArrayDevice
from tests.runtime.exporters import Convertible, CudaInterface, Exporter
from tests.runtime.memory_driver import FakeDriver, memory

__all__ = ["memory"]

DOUBLE = kspec.ElementwiseKernel("T x", "T y", "y = 2 * x", "double_it")
ADD = kspec.ElementwiseKernel("T x, T y", "T z", "z = x + y", "add_foreign")
INCREMENT = kspec.ElementwiseKernel("_non_const T x", "", "x += 1", "increment")
TOTAL = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total_foreign")
RAW = kspec.RawKernel(
    'extern "C" __global__ void inc(float* x) { x[threadIdx.x] += 1; }', "inc", ("-DUNUSED",)
)

both = pytest.mark.parametrize("versioned", [True, False], ids=["versioned", "unversioned"])


def view_of(value: Any) -> ArrayView:
    library = library_of(value)
    assert library is not None
    return library.view(value)


class NumPyInDisguise:
    """A NumPy array that only says so by DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **keywords: Any) -> object:
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class TestDLPackOnTheHost:
    @both
    def test_as_input(self, versioned: bool) -> None:
        x = np.arange(12, dtype="float32").reshape(3, 4)
        y = DOUBLE(Exporter(x, versioned))
        # An unknown library cannot make arrays: these are kspec's own.
        assert isinstance(y, kspec.DeviceArray) and str(y.device) == "host"
        np.testing.assert_array_equal(kspec.asnumpy(y), 2 * x)
        assert kspec.asnumpy(TOTAL(Exporter(x, versioned), axis=1)).tolist() == [6, 22, 38]

    @both
    def test_as_output(self, versioned: bool) -> None:
        z = np.zeros((3, 2), "int32")
        out = Exporter(z, versioned)
        assert ADD(NumPyInDisguise(np.ones(2, "int32")), 2, out) is out
        np.testing.assert_array_equal(z, np.full((3, 2), 3))
        total = np.zeros((), "int32")
        out = Exporter(total, versioned)
        assert TOTAL(z, out=out) is out
        assert total == 18

    def test_other_libraries_make_the_outputs_when_they_come_first(self) -> None:
        x = np.ones(3)
        assert isinstance(ADD(x, Exporter(x)), np.ndarray)
        assert isinstance(ADD(Exporter(x), x), kspec.DeviceArray)

    @both
    def test_memory_is_given_back_when_the_call_is_done(self, versioned: bool) -> None:
        x, out = Exporter(np.ones(3), versioned), Exporter(np.zeros(3), versioned)
        for calls in (1, 2):
            DOUBLE(x, out)
            gc.collect()
            assert (x.exported, x.deleted, out.exported, out.deleted) == (calls,) * 4

    @both
    def test_memory_is_given_back_after_a_refused_call(self, versioned: bool) -> None:
        x = Exporter(np.ones(3), versioned)
        with pytest.raises(kspec.ShapeError, match="could not be broadcast"):
            ADD(x, np.ones(4))
        with pytest.raises(TypeError, match="Type is mismatched"):
            ADD(x, np.ones(3, "int8"))
        gc.collect()
        assert x.deleted == x.exported == 2

    def test_what_exporters_are_asked(self) -> None:
        new, old = Exporter(np.ones(3)), Exporter(np.ones(3), versioned=False)
        ADD(new, old)
        assert new.asked == [{"max_version": (1, 0), "stream": None}]
        assert old.asked == [{"stream": None}]

    @pytest.mark.parametrize(
        "index",
        [np.s_[::-1], np.s_[:, 1::2], np.s_[1:, ::-1], np.s_[2], np.s_[1, 2, ...], np.s_[3:]],
    )
    def test_strides(self, index: Any) -> None:
        x = np.arange(12.0).reshape(3, 4)
        view = view_of(Exporter(x[index]))
        assert (view.shape, view.device, view.readonly) == (x[index].shape, HOST, False)
        if view.size:
            assert (view.ptr, view.strides) == (x[index].ctypes.data, x[index].strides)
        np.testing.assert_array_equal(kspec.asnumpy(DOUBLE(Exporter(x[index]))), 2 * x[index])

    def test_without_strides_and_with_an_offset(self) -> None:
        x = np.arange(12.0).reshape(3, 4)
        one = Exporter(x, tensor={"strides": None, "byte_offset": 8})
        view = view_of(one)
        assert (view.ptr, view.strides) == (x.ctypes.data + 8, (32, 8))

    @pytest.mark.parametrize(
        "dtype",
        ["bool", "int8", "uint16", "int64", "float16", "float32", "complex64", "complex128"],
    )
    def test_dtypes(self, dtype: str) -> None:
        x = np.array([0, 1, 1], dtype)
        assert view_of(Exporter(x)).dtype == dtype
        np.testing.assert_array_equal(
            kspec.asnumpy(ADD(Exporter(x), Exporter(np.zeros_like(x)))), x
        )

    def test_bfloat16(self) -> None:
        x = np.array([1, 2.5], ml_dtypes.bfloat16)
        assert view_of(Exporter(x)).dtype == "bfloat16"
        y = kspec.asnumpy(DOUBLE(Exporter(x)))
        assert y.dtype == ml_dtypes.bfloat16 and y.tolist() == [2, 5]

    @pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
    def test_8_bit_floats(self, name: str) -> None:
        codes = {"float8_e4m3fn": 10, "float8_e5m2": 12}
        x = Exporter(np.zeros(3, "uint8"), tensor={"code": codes[name]})
        try:
            assert view_of(x).dtype == name
        except UnsupportedDTypeError as error:
            assert f"Unsupported dtype {name}" in str(error)

    @pytest.mark.parametrize(
        ("tensor", "message"),
        [
            ({"lanes": 4}, "4 lanes"),
            ({"code": 3}, "code 3, 64 bits"),
            ({"code": 2, "bits": 128}, "code 2, 128 bits"),
            ({"code": 17, "bits": 4}, "code 17"),
            ({"code": 14, "bits": 8}, "Unsupported dtype float8_e8m0fnu"),
        ],
    )
    def test_unknown_dtypes(self, tensor: dict[str, Any], message: str) -> None:
        with pytest.raises(UnsupportedDTypeError, match=message) as caught:
            DOUBLE(Exporter(np.zeros(3), tensor=tensor))
        assert "double_it: argument x: Unsupported dtype" in str(caught.value)

    def test_read_only_arrays(self) -> None:
        x = np.ones(3)
        x.flags.writeable = False
        one = NumPyInDisguise(x)
        np.testing.assert_array_equal(kspec.asnumpy(DOUBLE(one)), [2, 2, 2])
        for call in (lambda: DOUBLE(np.ones(3), one), lambda: INCREMENT(one)):
            with pytest.raises(TypeError, match="is written to, but the array is read-only"):
                call()
        assert x.tolist() == [1, 1, 1]

    @pytest.mark.parametrize("flags", [1, 2, 3])
    def test_copies_are_read_only_too(self, flags: int) -> None:
        with pytest.raises(TypeError, match="y is written to, but the array is read-only"):
            DOUBLE(np.ones(3), Exporter(np.ones(3), managed={"flags": flags}))

    @pytest.mark.parametrize(
        ("device", "name"), [((8, 0), "Metal"), ((10, 0), "ROCm"), ((99, 0), "device type 99")]
    )
    def test_unknown_devices(self, device: tuple[int, int], name: str) -> None:
        x = Exporter(np.ones(3), device=device)
        with pytest.raises(ArgumentTypeError, match=f"this Exporter is on .*{name}"):
            DOUBLE(x)
        assert x.exported == 0

    def test_pinned_memory_is_the_hosts(self) -> None:
        x = Exporter(np.ones(3), device=(3, 0))
        assert kspec.asnumpy(DOUBLE(x)).tolist() == [2, 2, 2]

    def test_a_layout_of_the_future(self) -> None:
        with pytest.raises(ArgumentTypeError, match=r"version 2\.1 of DLPack"):
            DOUBLE(Exporter(np.ones(3), managed={"major": 2, "minor": 1}))

    def test_exporters_that_do_not_export(self) -> None:
        class Refusing(NumPyInDisguise):
            def __dlpack__(self, **_: Any) -> object:
                raise BufferError("not today")

        class Lying(NumPyInDisguise):
            def __dlpack__(self, **_: Any) -> object:
                return self.array

        for call, where in (
            (lambda: DOUBLE(Refusing(np.ones(3))), "double_it: argument x"),
            (lambda: RAW((1,), (3,), (Refusing(np.ones(3)),)), "inc: argument 0"),
        ):
            with pytest.raises(
                ArgumentTypeError, match=rf"{where}: this Refusing does not export .*: not today"
            ) as caught:
                call()
            assert isinstance(caught.value.__cause__, BufferError)
        with pytest.raises(ArgumentTypeError, match="does not return an unused DLPack capsule"):
            DOUBLE(Lying(np.ones(3)))

    @pytest.mark.parametrize("place", [7, None, (1,), (1, 0, 0), ("cpu", 0), (float("inf"), 0)])
    def test_places_that_are_none(self, place: Any) -> None:
        class Nowhere(NumPyInDisguise):
            def __dlpack_device__(self) -> Any:
                return place

        message = re.escape(f"__dlpack_device__ of this Nowhere returns {place!r}, not a device")
        with pytest.raises(ArgumentTypeError, match=f"double_it: argument x: {message}"):
            DOUBLE(Nowhere(np.ones(3)))
        with pytest.raises(ArgumentTypeError, match=f"inc: argument 0: {message}"):
            RAW((1,), (3,), (Nowhere(np.ones(3)),))

    @pytest.mark.parametrize("method", ["__dlpack__", "__dlpack_device__"])
    @pytest.mark.parametrize("error", [KeyError("gone"), TypeError("gone"), MemoryError("gone")])
    def test_what_exporters_raise_is_not_disguised(self, method: str, error: Exception) -> None:
        def fail(self: Any, **_: Any) -> object:
            raise error

        kind = type("Failing", (NumPyInDisguise,), {method: fail})
        with pytest.raises(type(error), match="gone") as caught:
            DOUBLE(kind(np.ones(3)))
        assert caught.value is error
        assert error.__notes__[-1] == "for double_it: argument x"
        with pytest.raises(type(error), match="gone"):
            RAW((1,), (3,), (kind(np.ones(3)),))
        assert error.__notes__[-1] == "for inc: argument 0"

    @pytest.mark.parametrize(
        "method",
        ["__dlpack__", "__dlpack_device__", "__cuda_array_interface__", "__cupy_get_ndarray__"],
    )
    def test_none_for_a_protocol_is_no_protocol(self, method: str) -> None:
        others = {"__dlpack_device__": lambda self: (1, 0)} if method == "__dlpack__" else {}
        others |= {"__dlpack__": print} if method == "__dlpack_device__" else {}
        kind = type("Without", (), {**others, method: None})
        with pytest.raises(
            ArgumentTypeError, match="argument x must be an array or a number, not Without"
        ):
            DOUBLE(kind())

    def test_consumed_capsules_are_refused(self) -> None:
        class Used(NumPyInDisguise):
            def __dlpack__(self, **_: Any) -> object:
                capsule = self.array.__dlpack__()
                np.from_dlpack(Holder(capsule))
                return capsule

        class Holder:
            def __init__(self, capsule: object) -> None:
                self.capsule = capsule

            def __dlpack__(self, **_: Any) -> object:
                return self.capsule

            def __dlpack_device__(self) -> tuple[int, int]:
                return (1, 0)

        with pytest.raises(ArgumentTypeError, match="not return an unused DLPack capsule"):
            DOUBLE(Used(np.ones(3)))

    @both
    def test_raw_kernels(self, versioned: bool) -> None:
        x = np.zeros(4, "float32")
        one = Exporter(x, versioned)
        RAW((1,), (4,), (one,))
        gc.collect()
        assert x.tolist() == [1] * 4 and one.deleted == 1

    def test_next_to_cuda_arrays(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(driver, "device_of_pointer", lambda ptr: 0)
        with pytest.raises(TypeError, match=r"x on host, y on cuda:0"):
            ADD(Exporter(np.ones((2, 3), "float32")), CudaInterface())


class TestDLPackOnCuda:
    def test_the_legacy_stream_waits(self) -> None:
        for versioned in (True, False):
            x = Exporter(np.zeros((2, 3), "float32"), versioned, device=(2, 1))
            view = view_of(x)
            assert (view.device, view.shape) == (Device("cuda", 1), (2, 3))
            assert x.asked[-1]["stream"] == 1

    def test_managed_memory_is_cudas(self) -> None:
        assert view_of(Exporter(np.ones(3), device=(13, 2))).device == Device("cuda", 2)

    def test_the_launch_stream_waits_for_the_legacy_stream(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        waits: list[tuple[int, ...]] = []
        monkeypatch.setattr(
            driver_streams, "wait_for_stream", lambda *arguments: waits.append(arguments)
        )
        monkeypatch.setattr(driver_streams, "is_stream_of", lambda ordinal, stream: True)
        monkeypatch.setattr(driver_streams, "is_capturing", lambda ordinal, stream: False)
        x = Exporter(np.ones(3), device=(2, 1))
        libraries = [library_of(x), None]
        gpu = Device("cuda", 1)
        assert stream_of_call(None, libraries[0], gpu, libraries) == 0
        assert stream_of_call(1, None, gpu, libraries) == 1
        assert stream_of_call(77, None, HOST, libraries) == 77
        assert stream_of_call(77, None, gpu, [None]) == 77
        assert waits == []
        assert stream_of_call(77, None, gpu, libraries) == 77
        assert waits == [(1, 77, 0)]


class TestCupyGetNdarray:
    def test_in_and_out(self, device: ArrayDevice) -> None:
        x = device.array([1.0, 2.0])
        y = DOUBLE(Convertible(x))
        if device.library == "numpy":
            assert isinstance(y, np.ndarray) and y.tolist() == [2, 4]
        out = device.zeros(2)
        wrapped = Convertible(out)
        assert DOUBLE(Convertible(x), wrapped) is wrapped
        assert device.numpy(out).tolist() == [2, 4]

    def test_that_gives_no_array(self) -> None:
        with pytest.raises(ArgumentTypeError, match="Convertible returns a list, not an array"):
            DOUBLE(Convertible([1, 2]))

    @pytest.mark.gpu
    def test_cupy(self) -> None:
        cupy = pytest.importorskip("cupy")
        x = cupy.arange(3.0)
        y = DOUBLE(Convertible(x))
        assert type(y) is cupy.ndarray and y.tolist() == [0, 2, 4]


class TestCudaArrayInterface:
    @pytest.fixture(autouse=True)
    def waited(self, memory: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
        """Pretend there are devices; return what was waited for."""
        monkeypatch.setattr(driver, "device_of_pointer", lambda ptr: ptr // 4096)
        monkeypatch.setattr(driver, "current_ordinal", lambda: 3)
        return memory

    def test_version_3(self, waited: FakeDriver) -> None:
        view = view_of(CudaInterface(strides=(4, 8), data=(8192, True), stream=None))
        assert view == ArrayView(8192, (2, 3), (4, 8), "float32", Device("cuda", 2), True)
        assert waited.calls == []

    def test_what_is_set_on_an_object(self, waited: FakeDriver) -> None:
        """Holders of memory are objects of any class; what the class has goes before."""
        interface = CudaInterface().__cuda_array_interface__
        holder = SimpleNamespace(__cuda_array_interface__=interface)
        assert view_of(holder) == view_of(CudaInterface())
        assert library_of(SimpleNamespace()) is None
        assert library_of(SimpleNamespace(__cuda_array_interface__=None)) is None
        assert library_of(CudaInterface) is None
        with pytest.raises(TypeError, match=r"argument x must be .* not SimpleNamespace"):
            DOUBLE(SimpleNamespace(shape=(3,)))
        read_only = SimpleNamespace(__cuda_array_interface__={**interface, "data": (4096, True)})
        with pytest.raises(TypeError, match="y is written to, but the array is read-only"):
            DOUBLE(holder, read_only)

    def test_version_2_without_strides(self, waited: FakeDriver) -> None:
        view = view_of(CudaInterface(version=2, typestr="|b1", shape=[2, 3]))
        assert view == ArrayView(4096, (2, 3), (3, 1), "bool", Device("cuda", 1))
        assert waited.calls == []

    def test_no_elements(self) -> None:
        view = view_of(CudaInterface(shape=(0, 3), data=(0, False)))
        assert (view.ptr, view.device) == (0, Device("cuda", 3))

    @pytest.mark.parametrize("stream", [2, 93824992])
    def test_its_stream_is_waited_for(self, stream: int, waited: FakeDriver) -> None:
        """By the default stream, which the launch waits for; not by the host."""
        view_of(CudaInterface(stream=stream))
        assert waited.take_calls() == [("record", 1, stream), ("wait", 1, 1), ("destroy", 1)]

    def test_the_default_stream_waits_for_itself(self, waited: FakeDriver) -> None:
        view_of(CudaInterface(stream=1))
        assert waited.calls == []

    def test_the_host_waits_where_the_default_stream_can_not(
        self, waited: FakeDriver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        host: list[tuple[int, int]] = []
        monkeypatch.setattr(driver_streams, "synchronize_stream", lambda *given: host.append(given))
        waited.capturing = {0}
        view_of(CudaInterface(stream=77))
        assert (waited.calls, host) == ([], [(1, 77)])

    @pytest.mark.parametrize(
        ("entries", "errors", "message"),
        [
            ({"stream": 0}, (TypeError,), "stream 0"),
            ({"mask": np.zeros(3)}, (ValueError, TypeError), "masked arrays"),
            ({"typestr": ">f4"}, (ValueError, TypeError), "native byte order"),
            ({"typestr": "<M8[s]"}, (ValueError, TypeError), "Unsupported dtype"),
        ],
    )
    def test_what_is_refused(
        self, entries: dict[str, Any], errors: tuple[type[Exception], ...], message: str
    ) -> None:
        for error in errors:
            with pytest.raises(error, match=f"double_it: argument x: .*{message}"):
                DOUBLE(CudaInterface(**entries))

    def test_read_only_outputs(self) -> None:
        with pytest.raises(TypeError, match="y is written to, but the array is read-only"):
            DOUBLE(CudaInterface(), CudaInterface(data=(4096, True)))

    def test_on_the_cpu_dlpack_helps(self) -> None:
        class Both(NumPyInDisguise):
            @property
            def __cuda_array_interface__(self) -> dict[str, Any]:
                raise AttributeError("I am on the CPU")

        assert kspec.asnumpy(DOUBLE(Both(np.ones(2)))).tolist() == [2, 2]

        class Alone:
            __cuda_array_interface__ = Both.__cuda_array_interface__

        with pytest.raises(TypeError, match=r"this Alone is not a CUDA array .I am on the CPU"):
            DOUBLE(Alone())


@pytest.mark.gpu
def test_results_of_what_is_set_on_an_object() -> None:
    for k in range(4):  # the later calls would have a plan
        own = kspec.asarray(np.arange(5.0) + k, device="cuda:0")
        holder = SimpleNamespace(__cuda_array_interface__=own.__cuda_array_interface__)
        np.testing.assert_array_equal(kspec.asnumpy(DOUBLE(holder)), (np.arange(5.0) + k) * 2)
        if k:
            with pytest.raises(TypeError, match=r"argument x must be .* not SimpleNamespace"):
                DOUBLE(SimpleNamespace())


class TestSubclasses:
    def test_results_are_plain_numpy_arrays(self) -> None:
        class Units(np.ndarray):
            pass

        x = np.arange(3.0).view(Units)
        assert type(DOUBLE(x)) is np.ndarray
        assert DOUBLE(x, x) is x and x.tolist() == [0, 2, 4]

    @pytest.mark.gpu
    def test_results_are_plain_cupy_arrays(self) -> None:
        cupy = pytest.importorskip("cupy")
        units = type("Units", (cupy.ndarray,), {})
        x = cupy.arange(3.0).view(units)
        assert type(DOUBLE(x)) is cupy.ndarray
        assert DOUBLE(x, x) is x and x.tolist() == [0, 2, 4]


class Overriding:
    """Runs elementwise kernels itself."""

    def __cupy_override_elementwise_kernel__(self, kernel: Any, *args: Any, **keywords: Any) -> Any:
        return kernel, args, keywords


class TestOverride:
    def test_gets_everything(self, place: ArrayDevice) -> None:
        one, x = Overriding(), place.array([1.0])
        assert ADD(x, one) == (ADD, (x, one), {})
        keywords = {"size": 4, "block_size": 64, "stream": 7, "order": "reverse"}
        assert ADD(one, 2, x, **keywords) == (ADD, (one, 2, x), keywords)
        assert ADD(one, 1, size=-1, block_size=128, stream=None) == (ADD, (one, 1), {})

    def test_comes_after_what_no_kernel_can_have(self) -> None:
        with pytest.raises(TypeError, match="takes 2 or 3 positional arguments"):
            ADD(Overriding())
        with pytest.raises(TypeError, match="unexpected keyword"):
            ADD(Overriding(), 1, axis=None)
        with pytest.raises(ValueError, match="block_size"):
            ADD(Overriding(), 1, block_size=0)

    def test_the_first_wins(self) -> None:
        class Other:
            def __cupy_override_elementwise_kernel__(self, *args: Any, **keywords: Any) -> str:
                return "other"

        assert ADD(Other(), Overriding()) == "other"
        assert ADD(Overriding(), Other())[0] is ADD

    def test_is_for_elementwise_kernels(self) -> None:
        with pytest.raises(TypeError, match="must be an array or a number, not Overriding"):
            TOTAL(Overriding())


@pytest.mark.gpu
class TestOnAGpu:
    """Exporters over real memory, with streams that run behind."""

    @pytest.fixture(params=["cupy", "torch"])
    def zeros(self, request: pytest.FixtureRequest) -> Any:
        library = pytest.importorskip(request.param)
        if library.__name__ == "torch":
            return lambda *shape: library.zeros(shape, dtype=library.float32, device="cuda")
        return lambda *shape: library.zeros(shape, "float32")

    def disguised(self, array: Any) -> Any:
        class Disguised:
            def __dlpack__(self, **keywords: Any) -> object:
                return array.__dlpack__(**keywords)

            def __dlpack_device__(self) -> Any:
                return array.__dlpack_device__()

        return Disguised()

    def test_in_and_out(self, zeros: Any) -> None:
        x, out = zeros(100, 100), zeros(100, 100)
        x += 3
        y = DOUBLE(self.disguised(x.T))
        assert isinstance(y, kspec.DeviceArray)
        assert (kspec.asnumpy(y) == 6).all()
        wrapped = self.disguised(out)
        assert DOUBLE(self.disguised(x), wrapped) is wrapped
        driver.synchronize(0)
        assert float(out.sum()) == 60000
        total = TOTAL(self.disguised(x))
        assert kspec.asnumpy(total) == 30000

    @pytest.mark.unsanitized("matrix products, which take the tools minutes")
    def test_kernels_wait_for_the_exporters_stream(self) -> None:
        cupy = pytest.importorskip("cupy")
        producer = cupy.cuda.Stream(non_blocking=True)
        consumer = cupy.cuda.Stream(non_blocking=True)
        a = cupy.ones((4096, 4096), "float32")
        cupy.cuda.Device().synchronize()
        for stream in (None, consumer):
            with producer:
                x = a @ a @ a  # takes a while
                wrapped = self.disguised(x)
                y = DOUBLE(wrapped, stream=stream)
            if stream is not None:
                stream.synchronize()
            assert (kspec.asnumpy(y) == 2 * 4096.0**2).all()

    def test_a_stream_is_refused_elsewhere(self) -> None:
        # Any handle that the driver does not know, or of another device.
        if len(kspec.devices()) < 3:
            pytest.skip("needs two GPUs")
        cupy = importlib.import_module("cupy")
        with cupy.cuda.Device(1):
            stream = cupy.cuda.Stream(non_blocking=True)
        with pytest.raises(TypeError, match="stream belongs to another device than cuda:0"):
            DOUBLE(cupy.ones(3), stream=stream)
