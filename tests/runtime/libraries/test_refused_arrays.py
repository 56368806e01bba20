"""Arrays that a call refuses: the message names the argument, and says what to do instead.

Those that need PyTorch or JAX are skipped where it is not installed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.runtime.libraries import aliasing
from tests.devices import ArrayDevice
from tests.runtime.exporters import Exporter

DOUBLE = kspec.ElementwiseKernel("T x", "T y", "y = 2 * x", "double_refused")
BOTH = kspec.ElementwiseKernel("T x", "T y, T z", "y = x; z = x + 1", "both_refused")
ADD_TO = kspec.ElementwiseKernel("T x, _non_const T total", "", "total += x", "add_to_refused")
ADD = kspec.ElementwiseKernel("T x, T y", "T z", "z = x + y", "add_refused")
TOTAL = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total_refused")
REVERSE = kspec.ElementwiseKernel("T x, raw T y", "T z", "z = x + y[_ind.size() - i - 1]", "rev")
RAW = kspec.RawKernel(
    'extern "C" __global__ void f(const float* x, float* y) { y[0] = x[0]; }',
    "f",
    params=["const float* x", "float* y"],
)


def strided(array: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    return np.lib.stride_tricks.as_strided(array, shape, strides)


class TestOverlaps:
    def test_outputs_that_overlap_with_inputs(self, place: ArrayDevice) -> None:
        x = place.array(np.arange(10.0))
        for given in (x[:-1], x[1:]), (x[1:], x[:-1]), (x[::-1], x), (x[::2], x[:5]):
            with pytest.raises(ValueError) as caught:
                DOUBLE(*given)
            assert isinstance(caught.value, kspec.OverlapError)
            assert str(caught.value) == (
                "double_refused: argument y is written to, and its memory overlaps with that of "
                "argument x; pass the same view, or a copy for y or x"
            )
        np.testing.assert_array_equal(place.numpy(x), np.arange(10.0))

    def test_broadcast_inputs(self, place: ArrayDevice) -> None:
        x = place.array(np.arange(12.0).reshape(3, 4))
        with pytest.raises(kspec.OverlapError, match=r"argument z .* that of argument y"):
            ADD(place.zeros((3, 4)), x[1], x)
        with pytest.raises(kspec.OverlapError, match=r"argument z .* that of argument x"):
            ADD(x[:1], place.zeros((3, 4)), x)

    def test_what_is_written_before_it_is_reduced(self, place: ArrayDevice) -> None:
        x = place.array(np.arange(12.0).reshape(3, 4))
        for call in (lambda: TOTAL(x, x[0], axis=0), lambda: TOTAL(x, axis=1, out=x[:, 0])):
            with pytest.raises(kspec.OverlapError, match=r"argument y .* that of argument x"):
                call()
        column = x[:, :1]
        TOTAL(column, column[:, 0], axis=1)  # nothing is added to anything
        np.testing.assert_array_equal(place.numpy(x), np.arange(12.0).reshape(3, 4))

    def test_two_that_are_written_to(self, place: ArrayDevice) -> None:
        x, out = place.array(np.arange(4.0)), place.zeros(6)
        for y, z in ((out[:4], out[1:5]), (out[:4], out[:4]), (out[::-1][:4], out[:4])):
            with pytest.raises(kspec.OverlapError, match=r"z .* argument y; pass arrays of their"):
                BOTH(x, y, z)
        with pytest.raises(kspec.OverlapError, match=r"argument total .* that of argument x"):
            ADD_TO(out[1:], out[:-1])
        BOTH(x[:3], out[::2], out[1::2])
        np.testing.assert_array_equal(place.numpy(out), [0, 1, 1, 2, 2, 3])

    def test_elements_that_are_the_same_memory(self) -> None:
        memory = np.zeros(8)
        for shape, strides in (((4,), (0,)), ((4, 3), (8, 8)), ((3, 3), (16, 8)), ((2, 4), (0, 8))):
            with pytest.raises(kspec.OverlapError, match=r"argument y .* several of its elements"):
                DOUBLE(np.ones(shape), strided(memory, shape, strides))
        for shape, strides in (((2, 3), (24, 16)), ((2, 3), (8, 16)), ((1, 4), (0, 8))):
            DOUBLE(np.ones(shape), strided(memory, shape, strides))

    def test_the_same_elements_in_both_places(self, place: ArrayDevice) -> None:
        x = place.array(np.arange(12.0).reshape(3, 4))
        for view in (x, x[1:], x.T, x[::-1, 1::2], x[0], x[:1, None]):
            before = place.numpy(x)
            assert DOUBLE(view, view) is view
            changed = before.copy()
            # Views of a copy in C order reach the same elements.
            assert place.numpy(x).sum() == changed.sum() + place.numpy(view).sum() / 2
        one = x[:1]
        DOUBLE(one[0], one[0][None][0])

    def test_neighbours_and_interleaved_elements(self, place: ArrayDevice) -> None:
        x = place.array(np.arange(12.0))
        DOUBLE(x[:6], x[6:])
        DOUBLE(x[::2], x[1::2])
        DOUBLE(x.reshape(3, 4)[:, :2], x.reshape(3, 4)[:, 2:])
        assert place.numpy(x)[11] == 2 * place.numpy(x)[9]

    def test_raw_arguments_are_the_authors(self, place: ArrayDevice) -> None:
        x, y = place.array(np.arange(4.0)), place.zeros(4)
        REVERSE(y, x, y)
        np.testing.assert_array_equal(place.numpy(y), [3, 2, 1, 0])
        REVERSE(y, x, x[:])  # whoever reads any element knows what it does

    @pytest.mark.parametrize("shapes", ["one", "many"])
    def test_repeated_calls(self, shapes: str, place: ArrayDevice) -> None:
        """The function that answers them looks at addresses too."""
        memory = place.zeros(4000)
        sizes = [100] * 40 if shapes == "one" else [*range(100, 140)]
        for size in sizes:
            DOUBLE(memory[:size], memory[size : 2 * size])
            DOUBLE(memory[2 * size : 3 * size], memory[:size])
            DOUBLE(memory[:size], memory[:size])
        for size in sizes[-3:]:
            for start in 1, size - 1, -1:
                with pytest.raises(kspec.OverlapError, match="double_refused: argument y"):
                    DOUBLE(memory[1000 : 1000 + size], memory[1000 + start :][:size])
            DOUBLE(memory[1000 : 1000 + size], memory[1000 + size :][:size])

    @pytest.mark.parametrize("shapes", ["one", "many"])
    def test_repeated_calls_with_two_outputs(self, shapes: str, place: ArrayDevice) -> None:
        memory = place.zeros(4000)
        for size in [100] * 40 if shapes == "one" else [*range(100, 140)]:
            BOTH(memory[:size], memory[1000 : 1000 + size], memory[2000 : 2000 + size])
        out = memory[1000 : 1000 + size]
        with pytest.raises(kspec.OverlapError, match="both_refused: argument z"):
            BOTH(memory[:size], out, out)
        with pytest.raises(kspec.OverlapError, match="both_refused: argument z"):
            BOTH(memory[: size + 1], memory[1000 : 1001 + size], memory[1000 : 1001 + size])

    def test_repeated_calls_that_write_to_an_input(self, place: ArrayDevice) -> None:
        memory = place.zeros(400)
        for _ in range(6):
            ADD_TO(memory[:100], memory[100:200])
            ADD_TO(memory[:100], memory[:100])
        for start in 1, 99:
            with pytest.raises(kspec.OverlapError, match="argument total"):
                ADD_TO(memory[start : start + 100], memory[:100])

    def test_that_take_too_long_to_tell(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(aliasing, "_MOST_WORK", 0)
        x = np.arange(12.0).reshape(3, 4)
        with pytest.raises(kspec.OverlapError):
            DOUBLE(x[:, 1:3], x[:, ::3][:, ::-1])


class TestReadOnly:
    def test_numpy(self) -> None:
        out = np.zeros(3)
        out.flags.writeable = False
        for _ in range(4):
            with pytest.raises(
                kspec.ArgumentTypeError,
                match="double_refused: argument y is written to, but the array is read-only; pass",
            ):
                DOUBLE(np.ones(3), out)
        with pytest.raises(TypeError, match="argument total is written to, but the array is read"):
            ADD_TO(np.ones(3), out)

    def test_jax(self) -> None:
        jax = pytest.importorskip("jax")
        x = jax.numpy.ones(3)
        for call in (
            lambda: DOUBLE(np.ones(3, "float32"), x),
            lambda: TOTAL(jax.numpy.ones((3, 2)), axis=1, out=x),
            lambda: RAW((1,), (1,), (np.ones(1, "float32"), x)),
        ):
            with pytest.raises(kspec.ArgumentTypeError, match=r"y.* but JAX's arrays are immut"):
                call()
        assert x.tolist() == [1, 1, 1]


class TestNumPy:
    def test_masked(self) -> None:
        x = np.ma.masked_greater(np.arange(3.0), 1)
        for kernel in DOUBLE, TOTAL:
            with pytest.raises(ValueError, match=r"argument x: masked .*; pass array.filled"):
                kernel(x)
        with pytest.raises(TypeError, match=r"argument y: masked arrays"):
            DOUBLE(np.ones(3), x)

    def test_big_endian(self) -> None:
        x = np.arange(3, dtype=">f8")
        with pytest.raises(ValueError, match=r"argument x: .*'>f8': it is not in native byte") as e:
            DOUBLE(x)
        assert 'x.astype(x.dtype.newbyteorder("="))' in str(e.value)
        with pytest.raises(TypeError, match=r"argument y: .* native byte order"):
            DOUBLE(np.ones(3), x)
        assert DOUBLE(x.astype(x.dtype.newbyteorder("="))).tolist() == [0, 2, 4]

    def test_objects_with_attributes_of_any_name(self) -> None:
        class Anything:
            def __getattr__(self, name: str) -> object:
                return self

        message = "argument x must be an array or a number, not Anything"
        with pytest.raises(kspec.ArgumentTypeError, match=message):
            DOUBLE(Anything())

    def test_scipys_sparse_matrices(self) -> None:
        scipy = pytest.importorskip("scipy.sparse")
        for matrix in scipy.eye(3), scipy.csr_array(np.eye(3)):
            with pytest.raises(TypeError, match=r"argument x is sparse: pass x\.toarray") as caught:
                DOUBLE(matrix)
            assert isinstance(caught.value, kspec.ArgumentTypeError)


def _torch_rows() -> dict[str, tuple[Callable[[Any], Any], str]]:
    return {
        "requires grad": (
            lambda t: t.ones(3, requires_grad=True),
            r"requires grad.*\.detach\(\).*kspec\.torch\.register",
        ),
        "parameter": (lambda t: t.nn.Parameter(t.ones(3)), r"requires grad"),
        "sparse": (lambda t: t.eye(3).to_sparse(), r"is sparse .*x\.to_dense\(\)"),
        "csr": (lambda t: t.eye(3).to_sparse_csr(), r"is sparse .*x\.to_dense\(\)"),
        "quantised": (
            lambda t: t.quantize_per_tensor(t.ones(3), 0.1, 0, t.qint8),
            r"is quantised .*x\.dequantize\(\)",
        ),
        "conjugate": (lambda t: (t.ones(3) * 1j).conj(), r"conjugate .*x\.resolve_conj\(\)"),
        "negative": (lambda t: (t.ones(3) * 1j).conj().imag, r"negative .*resolve_neg\(\)"),
        "meta": (lambda t: t.ones(3, device="meta"), r"is on meta; .*x\.cpu\(\)"),
        "nested": (
            lambda t: t.nested.nested_tensor([t.ones(2), t.ones(3)]),
            r"is nested .*x\.to_padded_tensor",
        ),
        "jagged": (
            lambda t: t.nested.nested_tensor([t.ones(2), t.ones(3)], layout=t.jagged),
            r"is nested .*x\.to_padded_tensor",
        ),
        "fake": (_fake, r"FakeTensor has no memory of its own.*kspec\.torch\.register"),
        "masked": (
            lambda t: t.masked.masked_tensor(t.ones(3), t.ones(3, dtype=t.bool)),
            r"MaskedTensor has no memory of its own",
        ),
        "dtype": (lambda t: t.ones(3, dtype=t.complex32), r"Unsupported dtype 'complex32'"),
    }


def _fake(torch: Any) -> Any:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(3)


@pytest.mark.filterwarnings("ignore")  # of features that torch calls prototypes
class TestTorch:
    @pytest.mark.parametrize("name", _torch_rows())
    def test_tensors(self, name: str) -> None:
        torch = pytest.importorskip("torch")
        make, message = _torch_rows()[name]
        x = make(torch)
        for _ in range(3):  # a repeated call is answered by another function
            with pytest.raises(TypeError, match=f"double_refused: argument x: .*{message}") as e:
                DOUBLE(x)
            assert isinstance(e.value, kspec.ArgumentTypeError)
        with pytest.raises(TypeError, match=f"double_refused: argument y: .*{message}"):
            DOUBLE(torch.ones(3), x)
        with pytest.raises(TypeError, match=f"f: argument y: .*{message}"):
            RAW((1,), (1,), (torch.ones(3), x))

    def test_repeated_calls(self) -> None:
        """Calls with plain tensors have been seen, then comes one that looks like them."""
        torch = pytest.importorskip("torch")
        plain = torch.ones(3)
        for _ in range(4):
            DOUBLE(plain)
        with pytest.raises(TypeError, match="requires grad"):
            DOUBLE(torch.ones(3, requires_grad=True))
        with torch.no_grad():
            y = DOUBLE(torch.ones(3, requires_grad=True))
        assert y.tolist() == [2, 2, 2] and not y.requires_grad
        z = torch.ones(3, dtype=torch.complex64) * 1j
        for _ in range(4):
            DOUBLE(z)
        with pytest.raises(TypeError, match="conjugate"):
            DOUBLE(z.conj())

    def test_under_vmap(self) -> None:
        torch = pytest.importorskip("torch")
        with pytest.raises(TypeError, match=r"has no memory of its own.*kspec\.torch\.register"):
            torch.vmap(DOUBLE)(torch.ones(3, 2))

    def test_under_grad(self) -> None:
        torch = pytest.importorskip("torch")
        with pytest.raises(TypeError, match=r"requires grad"):
            torch.func.grad(lambda x: DOUBLE(x).sum())(torch.ones(3))


class TestJax:
    def test_traced(self) -> None:
        jax = pytest.importorskip("jax")
        for transform in jax.jit, jax.vmap:
            with pytest.raises(TypeError, match=r"argument x: JAX traces .*kspec\.jax\.function"):
                transform(DOUBLE)(jax.numpy.ones(3))

    def test_without_elements(self) -> None:
        jax = pytest.importorskip("jax")
        gone = jax.numpy.ones(3)
        gone.delete()
        with pytest.raises(TypeError, match="argument x: the array was deleted, or donated"):
            DOUBLE(gone)
        with pytest.raises(TypeError, match=r"argument x: .*jax\.random\.key_data"):
            DOUBLE(jax.random.key(0))


class TestMixed:
    def test_libraries_of_one_place_may_mix(self) -> None:
        """The first array decides what comes back."""
        x = np.ones(3, "float32")
        others = [kspec.asarray(x, device="host"), Exporter(x)]
        for name in "torch", "jax":
            try:
                module = __import__(name)
            except ImportError:
                continue
            others.append(module.asarray(x) if name == "torch" else module.numpy.asarray(x))
        for other in others:
            for _ in range(4):
                assert type(ADD(x, other)) is np.ndarray
                assert type(ADD(other, x)) is type(DOUBLE(other))
            out = np.zeros(3, "float32")
            assert ADD(other, x, out) is out and out.tolist() == [2, 2, 2]

    @pytest.mark.gpu
    @pytest.mark.parametrize("order", [1, -1])
    def test_places_do_not(self, order: int) -> None:
        arrays = [np.ones(3), kspec.asarray(np.ones(3), device="cuda:0")][::order]
        places = ["host", "cuda:0"][::order]
        with pytest.raises(kspec.DeviceMismatchError, match=f"x on {places[0]}, y on {places[1]};"):
            ADD(*arrays)

    @pytest.mark.gpu
    def test_gpus_do_not(self) -> None:
        if len(kspec.devices()) < 3:
            pytest.skip("needs two GPUs")
        one, two = (kspec.asarray(np.ones(3), device=f"cuda:{k}") for k in (0, 1))
        for call in lambda: ADD(one, two), lambda: DOUBLE(one, two), lambda: TOTAL(one, out=two):
            with pytest.raises(ValueError, match=r"on cuda:0, .* on cuda:1; .*copy them to one"):
                call()
