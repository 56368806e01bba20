"""kspec's own array: making, viewing, copying back, and the protocols other libraries read."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import numpy as np
import pytest

import kspec
from tests.devices import OWN_CUDA, OWN_HOST, ArrayDevice

_PLACES = [
    pytest.param(OWN_HOST.place, id="host"),
    pytest.param(OWN_CUDA.place, id="cuda", marks=pytest.mark.gpu),
]


@pytest.fixture(params=_PLACES)
def where(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _pickled(array: kspec.DeviceArray) -> Any:
    return pickle.loads(pickle.dumps(array))


class TestMaking:
    @pytest.mark.parametrize("dtype", ["float32", "int8", "complex128", "bool", "float16"])
    @pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4), (0, 5)])
    def test_there_and_back(self, shape: tuple[int, ...], dtype: str, where: str) -> None:
        x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
        a = kspec.asarray(x, device=where)
        assert (a.shape, a.dtype, a.ndim, a.size) == (x.shape, x.dtype, x.ndim, x.size)
        assert (a.nbytes, str(a.device)) == (x.nbytes, where)
        back = kspec.asnumpy(a)
        assert back.dtype == x.dtype
        np.testing.assert_array_equal(back, x)

    def test_anything_numpy_understands(self, where: str) -> None:
        a = kspec.asarray([[1, 2], [3, 4]], "float32", where)
        np.testing.assert_array_equal(kspec.asnumpy(a), [[1, 2], [3, 4]])
        np.testing.assert_array_equal(kspec.asnumpy(kspec.asarray(5, device=where)), 5)

    def test_strided_sources_are_copied_in_c_order(self, where: str) -> None:
        x = np.arange(24).reshape(4, 6)[::-2, ::3].T
        a = kspec.asarray(x, device=where)
        assert a.strides == (16, 8)
        np.testing.assert_array_equal(kspec.asnumpy(a), x)

    def test_it_is_a_copy_that_copies_back(self, where: str) -> None:
        x = np.zeros(3)
        a = kspec.asarray(x, device=where)
        x[:] = 1
        back = kspec.asnumpy(a)
        back[:] = 2
        np.testing.assert_array_equal(kspec.asnumpy(a), 0)

    def test_an_array_that_fits_already_is_itself(self, where: str) -> None:
        a = kspec.asarray([1.0, 2.0], device=where)
        assert kspec.asarray(a) is a
        assert kspec.asarray(a, "float64", where) is a
        b = kspec.asarray(a, "float32")
        assert b.dtype == np.float32

    def test_zeros_and_empty(self, where: str) -> None:
        np.testing.assert_array_equal(kspec.asnumpy(kspec.zeros((2, 3), "int16", where)), 0)
        assert kspec.zeros(4, device=where).shape == (4,)
        e = kspec.empty((2, 0), "complex64", where)
        assert e.shape == (2, 0) and kspec.asnumpy(e).dtype == np.complex64
        assert kspec.zeros(3, "bfloat16", where).dtype.name == "bfloat16"

    @pytest.mark.parametrize("dtype", ["O", "S4", "datetime64[s]", ">f4", "no such"])
    def test_dtypes_no_kernel_knows(self, dtype: str, where: str) -> None:
        with pytest.raises(kspec.UnsupportedDTypeError):
            kspec.empty(3, dtype, where)

    def test_any_integers_are_a_shape(self, where: str) -> None:
        assert kspec.empty(np.int64(3), device=where).shape == (3,)
        assert kspec.zeros([np.int8(2), 3], device=where).shape == (2, 3)

    def test_asnumpy_copies_whatever_numpy_understands(self) -> None:
        x = np.arange(3)
        copied = kspec.asnumpy(x)
        assert copied is not x
        np.testing.assert_array_equal(copied, x)
        np.testing.assert_array_equal(kspec.asnumpy([1, 2]), [1, 2])

    def test_shapes_and_devices_that_are_none(self) -> None:
        with pytest.raises(TypeError, match="float"):
            kspec.empty((2.0, 3), device="host")  # type: ignore[arg-type]
        with pytest.raises(MemoryError, match=r"no device has the \d+ bytes"):
            kspec.empty(2**61, device="host")
        with pytest.raises(TypeError, match="device must be 'host', 'cuda' or 'cuda:N', not 0"):
            kspec.empty(3, device=0)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="negative dimensions"):
            kspec.zeros((2, -1), device="host")
        with pytest.raises(ValueError, match="unknown device 'gpu'"):
            kspec.zeros(3, device="gpu")
        if len(kspec.devices()) == 1:
            with pytest.raises(kspec.ToolNotFoundError):
                kspec.zeros(3, device="cuda")


class TestViews:
    @pytest.mark.parametrize(
        "index",
        [
            np.s_[1],
            np.s_[-1],
            np.s_[1, 2, 3],
            np.s_[1:3],
            np.s_[::-1],
            np.s_[:, ::2, ::-3],
            np.s_[..., 1],
            np.s_[0, ..., None],
            np.s_[None, :, 2],
            np.s_[5:2],
            np.s_[...],
            np.s_[()],
            np.int64(2),
        ],
        ids=str,
    )
    def test_indexing(self, index: Any, where: str) -> None:
        x = np.arange(4 * 5 * 6).reshape(4, 5, 6)
        view = kspec.asarray(x, device=where)[index]
        assert view.shape == x[index].shape
        np.testing.assert_array_equal(kspec.asnumpy(view), x[index])

    def test_views_share_memory(self, where: str) -> None:
        a = kspec.zeros((3, 4), device=where)
        assert a[1:, 2].ptr == a.ptr + 6 * 8
        assert a[1:, 2].strides == (32,)
        one = a[2, 3]
        assert one.shape == () and one.ptr == a.ptr + 11 * 8

    def test_views_keep_their_memory_alive(self, where: str) -> None:
        view = kspec.asarray(np.arange(1000), device=where)[500:510]
        gc.collect()
        np.testing.assert_array_equal(kspec.asnumpy(view), np.arange(500, 510))

    @pytest.mark.parametrize("index", [4, -5, (0, 0, 0), [0, 1], np.array([0]), "x", True, 1.0])
    def test_indices_that_are_none(self, index: Any, where: str) -> None:
        with pytest.raises(IndexError):
            kspec.zeros((4, 4), device=where)[index]

    def test_transposing(self, where: str) -> None:
        x = np.arange(24).reshape(2, 3, 4)
        a = kspec.asarray(x, device=where)
        np.testing.assert_array_equal(kspec.asnumpy(a.T), x.T)
        np.testing.assert_array_equal(kspec.asnumpy(a.transpose(1, 2, 0)), x.transpose(1, 2, 0))
        with pytest.raises(ValueError):
            a.transpose(0, 0, 1)

    def test_reshaping(self, where: str) -> None:
        x = np.arange(24)
        a = kspec.asarray(x, device=where)
        for shape in ((2, 12), (-1, 4), (2, 3, 4), (24,)):
            np.testing.assert_array_equal(kspec.asnumpy(a.reshape(shape)), x.reshape(shape))
        assert a.reshape(2, 12).shape == (2, 12)
        with pytest.raises(ValueError):
            a.reshape(5, 5)
        with pytest.raises(ValueError, match="C-contiguous"):
            a.reshape(4, 6).T.reshape(24)

    def test_shapes_and_axes_as_numpy_takes_them(self, where: str) -> None:
        x = np.arange(6).reshape(2, 3)
        a = kspec.asarray(x, device=where)
        for shape in ((3, 2), [3, 2], np.array([3, 2]), (np.int8(3), -1)):
            np.testing.assert_array_equal(kspec.asnumpy(a.reshape(shape)), x.reshape(3, 2))
        for axes in ((1, 0), [1, 0], None):
            np.testing.assert_array_equal(kspec.asnumpy(a.transpose(axes)), x.T)

    @pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, _pickled])
    def test_copies_have_their_own_memory(self, duplicate: Any, where: str) -> None:
        x = np.arange(12.0).reshape(3, 4)
        a = kspec.asarray(x, device=where)
        b = duplicate(a.T)
        assert (b.shape, b.dtype, b.device) == ((4, 3), a.dtype, a.device)
        a[...] = 0
        del a
        gc.collect()
        np.testing.assert_array_equal(kspec.asnumpy(b), x.T)

    def test_length_and_repr(self, where: str) -> None:
        a = kspec.asarray(np.arange(3, dtype="float32"), device=where)
        assert len(a) == 3
        assert repr(a) == f"DeviceArray([0., 1., 2.], dtype=float32, device={where})"
        with pytest.raises(TypeError, match="0-d"):
            len(a[0])


class Exporter:
    """Passes an option to `__dlpack__`, as NumPy 2.1 and later can."""

    def __init__(self, array: kspec.DeviceArray, **options: Any) -> None:
        self.array = array
        self.options = options

    def __dlpack__(self, **_: Any) -> object:
        return self.array.__dlpack__(**self.options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


class TestProtocolsOnTheHost:
    def test_array_interface_shares_memory(self) -> None:
        a = kspec.zeros((3, 4), device="host")
        view = np.asarray(a[::-1, 1])
        view[:] = [1, 2, 3]
        np.testing.assert_array_equal(kspec.asnumpy(a)[:, 1], [3, 2, 1])

    def test_numpy_views_keep_the_memory_alive(self) -> None:
        view = np.asarray(kspec.asarray(np.arange(1000), device="host")[500:])
        gc.collect()
        np.testing.assert_array_equal(view, np.arange(500, 1000))

    def test_dlpack_shares_memory(self) -> None:
        a = kspec.asarray(np.arange(12, dtype="float32").reshape(3, 4), device="host")
        view = np.from_dlpack(a.T)
        np.testing.assert_array_equal(view, kspec.asnumpy(a).T)
        assert view.ctypes.data == a.ptr
        assert a.__dlpack_device__() == (1, 0)

    def test_conversion_and_copy(self) -> None:
        a = kspec.asarray([1.0, 2.0], device="host")
        assert np.asarray(a, "int32").dtype == np.int32
        copy = np.array(a)
        copy[:] = 0
        np.testing.assert_array_equal(kspec.asnumpy(a), [1, 2])

    def test_bfloat16_stays_bfloat16(self) -> None:
        a = kspec.asarray([1.0, 2.5], "bfloat16", "host")
        view = np.asarray(a)
        assert view.dtype == a.dtype
        view[0] = 7
        np.testing.assert_array_equal(kspec.asnumpy(a).astype(float), [7, 2.5])

    def test_dlpack_copies_when_asked(self) -> None:
        a = kspec.asarray([1.0, 2.0], device="host")
        assert np.from_dlpack(Exporter(a, copy=False)).ctypes.data == a.ptr
        copy = np.from_dlpack(Exporter(a, copy=True))
        assert copy.ctypes.data != a.ptr
        np.testing.assert_array_equal(copy, [1, 2])
        with pytest.raises(BufferError, match="lives on host"):
            a.__dlpack__(dl_device=(2, 0))

    def test_there_is_no_cuda_interface(self) -> None:
        assert not hasattr(kspec.zeros(3, device="host"), "__cuda_array_interface__")


@pytest.mark.gpu
class TestProtocolsOnCuda:
    def test_interface(self) -> None:
        a = kspec.asarray(np.arange(12.0).reshape(3, 4), device="cuda")[:, ::2]
        interface = a.__cuda_array_interface__
        assert interface["shape"] == (3, 2) and interface["strides"] == (32, 16)
        assert interface["data"] == (a.ptr, False) and interface["typestr"] == "<f8"

    def test_no_hidden_copy(self) -> None:
        a = kspec.zeros(3, device="cuda")
        assert not hasattr(a, "__array_interface__")
        with pytest.raises(TypeError, match=r"kspec\.asnumpy"):
            np.asarray(a)

    def test_cupy_reads_it_without_a_copy(self) -> None:
        cupy = pytest.importorskip("cupy")
        a = kspec.asarray(np.arange(12.0).reshape(3, 4), device="cuda")
        for array in (cupy.asarray(a.T), cupy.from_dlpack(a.T)):
            assert array.data.ptr == a.ptr
            np.testing.assert_array_equal(cupy.asnumpy(array), kspec.asnumpy(a).T)


def test_assignment(place: ArrayDevice) -> None:
    array = kspec.zeros((2, 3), "float32", device=place.place)
    array[...] = [1, 2, 3]
    array[1] = 7
    array[0, 1:] = np.array([5, 6], "int64")
    np.testing.assert_array_equal(kspec.asnumpy(array), [[1, 5, 6], [7, 7, 7]])
    array[0] = array[1]
    assert (kspec.asnumpy(array) == 7).all()
    with pytest.raises(ValueError, match="C-contiguous views only"):
        array[:, 0] = 1
    with pytest.raises(ValueError, match="broadcast"):
        array[0] = [1, 2]


def test_elements_as_numbers(place: ArrayDevice) -> None:
    array = kspec.asarray(np.array([1.5, 2, 3], "float32"), device=place.place)
    assert (float(array[0]), int(array[1]), complex(array[2]), array[:1].item()) == (1.5, 2, 3, 1.5)
    with pytest.raises(ValueError, match=r"an array of shape \(3,\) is not one number"):
        float(array)
    with pytest.raises(TypeError, match=r"computes nothing; compare kspec.asnumpy\(array\)"):
        _ = array[0] == 1.5
    assert array == array  # by identity, as in lists
    assert array != None  # noqa: E711
