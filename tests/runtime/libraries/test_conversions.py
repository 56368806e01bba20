"""`kspec.asarray` and `kspec.asnumpy`: arrays of every library, copied."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kspec
from tests.runtime.exporters import Convertible, Exporter


def same(copied: Any, expected: np.ndarray) -> None:
    assert type(copied) is np.ndarray
    assert copied.dtype == expected.dtype
    np.testing.assert_array_equal(copied, expected)


X = np.arange(12, dtype="float32").reshape(3, 4)


def test_arrays_of_protocols() -> None:
    for index in np.s_[:, :], np.s_[::-1, 1::2], np.s_[3:], np.s_[1, 2, ...]:
        same(kspec.asnumpy(Exporter(X[index])), X[index])
        same(kspec.asnumpy(kspec.asarray(Exporter(X[index]), device="host")), X[index])
    same(kspec.asnumpy(Convertible(X)), X)
    bfloat16 = X.astype(ml_dtypes.bfloat16)
    same(kspec.asnumpy(Exporter(bfloat16)), bfloat16)


def test_the_copy_has_memory_of_its_own() -> None:
    for array in X, Exporter(X), Convertible(X):
        copied = kspec.asnumpy(array)
        copied[...] = -1
    assert X[0, 1] == 1


def test_what_numpy_understands() -> None:
    same(kspec.asnumpy([1, 2]), np.array([1, 2]))
    same(kspec.asnumpy(np.float32(2)), np.array(2, "float32"))
    same(kspec.asnumpy(["a", None]), np.array(["a", None], object))


@pytest.mark.parametrize("value", [None, object(), {1: 2}])
def test_what_is_no_array(value: Any) -> None:
    with pytest.raises(TypeError, match=f"{type(value).__name__} is not an array; pass"):
        kspec.asnumpy(value)


def test_masks_are_not_lost() -> None:
    masked = np.ma.masked_greater(X, 1)
    for copy in (kspec.asnumpy, kspec.asarray):
        with pytest.raises(kspec.UnsupportedDTypeError, match=r"masked .* pass array\.filled"):
            copy(masked)


def test_asarray_of_another_dtype() -> None:
    made = kspec.asarray(Exporter(X), "int8", device="host")
    same(kspec.asnumpy(made), X.astype("int8"))
    with pytest.raises(kspec.UnsupportedDTypeError):
        kspec.asarray(X, "datetime64[s]")


class TestTorch:
    torch = property(lambda self: pytest.importorskip("torch"))

    def test_tensors(self) -> None:
        for index in np.s_[:, :], np.s_[1:, ::2], np.s_[3:], np.s_[1, 2]:
            same(kspec.asnumpy(self.torch.tensor(X)[index]), np.asarray(X[index]))
        same(kspec.asnumpy(kspec.asarray(self.torch.tensor(X), device="host")), X)

    def test_that_require_grad(self) -> None:
        x = self.torch.tensor(X, requires_grad=True)
        same(kspec.asnumpy(x), X)
        same(kspec.asnumpy(x * 2), X * 2)

    def test_that_are_lazy(self) -> None:
        z = np.array([1 + 2j, 3 - 4j])
        lazy = self.torch.tensor(z).conj()
        same(kspec.asnumpy(lazy), z.conj())
        same(kspec.asnumpy(lazy.imag), z.conj().imag)

    def test_bfloat16(self, monkeypatch: pytest.MonkeyPatch) -> None:
        x = self.torch.tensor([1, 2.5], dtype=self.torch.bfloat16)
        same(kspec.asnumpy(x), np.array([1, 2.5], ml_dtypes.bfloat16))
        kspec.runtime.memory.numpy_dtype.cache_clear()
        monkeypatch.setitem(sys.modules, "ml_dtypes", None)
        with pytest.raises(kspec.ToolNotFoundError, match="bfloat16 needs ml_dtypes: pip install"):
            kspec.asnumpy(x)

    def test_that_have_no_elements_in_order(self) -> None:
        with pytest.raises(TypeError, match="sparse"):
            kspec.asnumpy(self.torch.eye(3).to_sparse())
        with pytest.raises(TypeError, match="meta"):
            kspec.asnumpy(self.torch.empty(3, device="meta"))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "complex64"])
def test_jax(dtype: str) -> None:
    jax = pytest.importorskip("jax")
    x = jax.numpy.asarray(X).astype(dtype)
    same(kspec.asnumpy(x), np.asarray(x))
    assert kspec.asnumpy(x).flags.writeable


@pytest.mark.gpu
class TestOnAGpu:
    INDICES = (np.s_[:, :], np.s_[::-1, 1::2], np.s_[3:], np.s_[1, 2, ...])

    @pytest.mark.parametrize("index", INDICES)
    def test_cupy(self, index: Any) -> None:
        cupy = pytest.importorskip("cupy")
        x = cupy.asarray(X)
        same(kspec.asnumpy(x[index]), X[index])
        same(kspec.asnumpy(kspec.asarray(x[index], device="cuda")), X[index])

    @pytest.mark.unsanitized("matrix products, which take the tools minutes")
    def test_what_is_queued_on_another_stream_has_run(self) -> None:
        cupy = pytest.importorskip("cupy")
        x, slow = cupy.zeros(3), cupy.zeros((4096, 4096))
        with cupy.cuda.Stream(non_blocking=True):
            for _ in range(20):
                slow = slow @ slow
            x += slow[0, 0] + 1
        same(kspec.asnumpy(x), np.ones(3))

    def test_torch(self) -> None:
        torch = pytest.importorskip("torch")
        x = torch.tensor(X, device="cuda", requires_grad=True)
        same(kspec.asnumpy(x[1:, ::2]), X[1:, ::2])
        small = torch.tensor([1, 2.5], dtype=torch.bfloat16, device="cuda")
        same(kspec.asnumpy(small), np.array([1, 2.5], ml_dtypes.bfloat16))

    def test_numba(self) -> None:
        cuda = pytest.importorskip("numba.cuda")
        same(kspec.asnumpy(cuda.to_device(X)), X)

    def test_jax(self) -> None:
        jax = pytest.importorskip("jax")
        gpus = [one for one in jax.devices() if one.platform == "gpu"]
        if not gpus:
            pytest.skip("no CUDA device")
        same(kspec.asnumpy(jax.device_put(X, gpus[0])), X)
