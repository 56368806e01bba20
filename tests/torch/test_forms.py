"""Scans, segments, keys and windows as operators: values, compilation, gradients, bad input."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import kspec
import kspec.torch
from kspec.errors import ArgumentTypeError, DuplicateKernelError, NotSupportedError, ShapeError
from kspec.model.operators import operator_forms, operators
from tests.forms.kernels import ARGMAX, NO_IDENTITY, PLACE, PLUS_TEN, TWO
from tests.forms.reference import scanned_sum, sums, sums_by_key
from tests.forms.sums import (
    BOUNDARIES,
    BOUNDS,
    CSR_PRODUCT,
    LONG_WINDOWS,
    MEAN_SQUARE,
    NORM,
    READS_SUM,
    SQUARES,
    WINDOWS,
    WITHOUT,
)
from tests.forms.test_by_key import INDICES, keys_of
from tests.forms.test_window import rolling

# Torch warns of itself, of its compiler and of what GPUs could do.
pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

WAYS = list(itertools.product([False, True], repeat=2))
NAMESPACE = "kspec_forms"


@pytest.fixture(scope="module")
def forms() -> Any:
    kernels = (SQUARES, MEAN_SQUARE, CSR_PRODUCT, NORM, READS_SUM, WITHOUT)
    for kernel in (*kernels, NO_IDENTITY, TWO, PLUS_TEN, PLACE):
        found = kspec.torch.register(kernel, namespace=NAMESPACE)
    return found


def tensor(place: str, *shape: int, seed: int = 0) -> Any:
    """Return whole numbers, whose sums are exact."""
    values = np.random.default_rng(seed).integers(1, 9, shape).astype("float64")
    return torch.from_numpy(values).to(place)


def same(found: Any, wanted: Any) -> None:
    assert isinstance(found, torch.Tensor)
    np.testing.assert_array_equal(found.detach().cpu().numpy(), wanted)


def test_schemas() -> None:
    found = [one.schema for form in operator_forms(WITHOUT.declaration, False)
             for one in operators(WITHOUT.declaration, form)]  # fmt: skip
    assert found == [
        "form_without(Tensor x, int[1]? axis=None, bool keepdims=False) -> Tensor",
        "form_without_scan(Tensor x, int axis=-1, bool exclusive=False, bool reverse=False)"
        " -> Tensor",
        "form_without_segments(Tensor x, Tensor indptr) -> Tensor",
        "form_without_by_key(Tensor x, Tensor keys, int n, bool deterministic=True) -> Tensor",
        "form_without_window(Tensor x, int[1] size, int[1] axis=-1, "
        'str boundary="valid", int[1] step=1) -> Tensor',
    ]
    assert operator_forms(WITHOUT.declaration) == ("reduce",)
    names = [one.name for one in operators(SQUARES.declaration, "scan")]
    assert names == ["form_squares_scan", "form_squares_scan.w", "form_squares_scan.x"]


def test_scans(ops: Any, forms: Any, place: str) -> None:
    x, w = tensor(place, 3, 5), tensor(place, 5, seed=1)
    values, weights = x.cpu().numpy(), w.cpu().numpy()
    for (exclusive, reverse), axis in itertools.product(WAYS, (0, 1, -1)):
        keywords: Any = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
        same(ops.total_scan(x, **keywords), scanned_sum(values, **keywords))
        products = values * values * weights
        same(forms.form_squares_scan(x, w, **keywords), scanned_sum(products, **keywords))
    same(forms.form_squares_scan(x, 2.0), scanned_sum(values * values * 2))
    found = forms.form_two_scan(x.to(torch.int32))
    assert [one.dtype for one in found] == [torch.int32, torch.int64]
    same(found[1], 2 * scanned_sum(values) + 1)


def test_segments(ops: Any, forms: Any, place: str) -> None:
    x, value = tensor(place, 6, 2), tensor(place, 4)
    for dtype in (torch.int64, torch.int32, torch.uint8):
        indptr = torch.from_numpy(BOUNDS).to(place, dtype)
        same(ops.total_segments(x, indptr), sums(x.cpu().numpy(), BOUNDS))
    column = torch.tensor([0, 2, 1, 0], dtype=torch.int32, device=place)
    vector = tensor(place, 3, seed=1)
    dense = vector[column.long()] * value
    found = forms.form_product_segments(value, column, vector, indptr)
    same(found, sums(dense.cpu().numpy(), BOUNDS))


def test_by_key(ops: Any, forms: Any, place: str) -> None:
    x, w = tensor(place, 9, 2), tensor(place, 2, seed=1)
    values, weights = x.cpu().numpy(), w.cpu().numpy()
    for dtype, deterministic in itertools.product(INDICES, [True, False]):
        known = keys_of(9, 4).astype(dtype)
        keys = torch.from_numpy(known).to(place)
        wanted = sums_by_key(values, known, 4)
        same(forms.form_without_by_key(x, keys, 4, deterministic), wanted)
        products = values * values * weights
        found = forms.form_squares_by_key(x, w, keys, n=4, deterministic=deterministic)
        same(found, sums_by_key(products, known, 4))
    same(forms.form_squares_by_key(x, 2.0, keys, 4), sums_by_key(values * values * 2, known, 4))
    total, count = ops.histogram_by_key(x, keys, 4)
    same(total, wanted)
    same(count, sums_by_key(np.ones((9, 2), "int64"), known, 4))
    for shape, n in itertools.product([(0,), (0, 3), (5,), (5, 0)], [0, 1, 30]):
        x, known = tensor(place, *shape), keys_of(shape[0], n)
        found = forms.form_without_by_key(x, torch.from_numpy(known).to(place), n)
        same(found, sums_by_key(x.cpu().numpy(), known, n))
    column = torch.tensor([0, 2, 1, 0], dtype=torch.int32, device=place)
    value, vector, known = tensor(place, 4), tensor(place, 3, seed=1), keys_of(4, 3)
    dense = vector[column.long()] * value
    found = forms.form_product_by_key(value, column, vector, torch.from_numpy(known).to(place), 3)
    same(found, sums_by_key(dense.cpu().numpy(), known, 3))


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_windows(ops: Any, place: str, boundary: str) -> None:
    x = tensor(place, 6, 7)
    for size, axis, step in WINDOWS:
        sizes, axes, steps = (
            one if isinstance(one, tuple) else (one,) for one in (size, axis, step)
        )
        found = ops.total_window(x, size, axis, boundary, step)
        same(found, rolling(x.cpu().numpy(), sizes, axes, boundary, steps))


CALLS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "total_scan": ("x", (0, True)),
    "form_squares_scan": ("xw", (-1, False, True)),
    "form_two_scan": ("i", (1,)),
    "total_segments": ("xp", ()),
    "form_squares_segments": ("xwp", ()),
    "histogram_by_key": ("ik", (3,)),
    "form_squares_by_key": ("xwk", (3, False)),
    "form_mean_square_by_key": ("xk", (0,)),
    "total_window": ("x", ([2, 3], [0, 1], "wrap", [2])),
    "form_mean_square_window": ("x", ([3], [0], "shrink")),
}


def given(names: str, place: str) -> list[Any]:
    made = {
        "x": tensor(place, 4, 5).requires_grad_(),
        "w": tensor(place, 5, seed=1).requires_grad_(),
        "i": tensor(place, 4, 5).to(torch.int32),
        "p": torch.from_numpy(BOUNDS).to(place),
        "k": torch.from_numpy(keys_of(4, 3, seed=2)).to(place),
    }
    return [made[name] for name in names]


def operator(name: str, ops: Any, forms: Any) -> Any:
    return getattr(forms if name.startswith("form_") else ops, name).default


@pytest.mark.parametrize("name", CALLS)
def test_torch_accepts_the_operator(name: str, ops: Any, forms: Any, place: str) -> None:
    names, options = CALLS[name]
    arguments = given(names, place)
    found = operator(name, ops, forms)
    torch.library.opcheck(found, (*arguments, *options))
    torch.library.opcheck(found, (*(one.detach() for one in arguments), *options))


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compiled_programs_are_one_graph(backend: str, ops: Any, forms: Any, place: str) -> None:
    def program(x: Any, w: Any, indptr: Any, keys: Any, boundary: str) -> Any:
        running = forms.form_squares_scan(ops.mean_scan(x, 0), w, 1, True)
        smooth = ops.total_window(running, 3, -1, boundary, 2)
        return ops.total_segments(forms.form_squares_by_key(smooth, 2.0, keys, 5), indptr)

    w = tensor(place, 1, seed=1).requires_grad_()
    indptr = torch.from_numpy(BOUNDS).to(place)
    compiled = torch.compile(program, fullgraph=True, backend=backend)
    cases = [((4, 5), "shrink"), ((6, 9), "valid"), ((11, 7), "mirror")]  # extents become symbolic
    for shape, boundary in cases[: 1 if backend == "inductor" else None]:
        x = tensor(place, *shape).requires_grad_()
        arguments = x, w, indptr, torch.from_numpy(keys_of(shape[0], 5)).to(place), boundary
        found, wanted = compiled(*arguments), program(*arguments)
        torch.testing.assert_close(found, wanted)
        pairs = (torch.autograd.grad(one.square().sum(), (x, w)) for one in (found, wanted))
        for one, other in zip(*pairs, strict=True):
            torch.testing.assert_close(one, other)


def test_gradients_of_scans(ops: Any, forms: Any, place: str) -> None:
    x, w = given("xw", place)
    check = torch.autograd.gradcheck
    for (exclusive, reverse), axis in itertools.product(WAYS, (0, 1)):
        options = axis, exclusive, reverse
        assert check(lambda x, o=options: ops.total_scan(x, *o), (x,))
        assert check(lambda x, w, o=options: forms.form_squares_scan(x, w, *o), (x, w), atol=1e-4)
        # The mean of nothing is NaN.
        some = slice(1, None) if exclusive and not reverse else slice(0, -1 if exclusive else None)
        assert check(
            lambda x, o=options, some=some: forms.form_mean_square_scan(x, *o).movedim(o[0], 0)[some],
            (x,),
            atol=1e-4,
        )  # fmt: skip
    assert check(lambda x: forms.form_squares_scan(x, 0.5, 0), (x,), atol=1e-4)


def test_gradients_of_segments(ops: Any, forms: Any, place: str) -> None:
    x, w = given("xw", place)
    check = torch.autograd.gradcheck
    for bounds in (BOUNDS, [0, 4], [2, 3], [2]):  # the last one: no segment
        indptr = torch.tensor(bounds, device=place, dtype=torch.int32)
        assert check(lambda x, p=indptr: ops.total_segments(x, p), (x,))
        assert check(lambda x, w, p=indptr: forms.form_squares_segments(x, w, p), (x, w), atol=1e-4)
    indptr = torch.tensor([0, 1, 4], device=place)
    assert check(lambda x: forms.form_mean_square_segments(x, indptr), (x,), atol=1e-4)
    # Those that a kernel adds up: of a sparse matrix, and of the vector that it is multiplied by.
    value, vector = tensor(place, 4).requires_grad_(), tensor(place, 3, seed=1).requires_grad_()
    column = torch.tensor([0, 2, 1, 0], dtype=torch.int32, device=place)
    assert check(
        lambda value, vector: forms.form_product_segments(value, column, vector, indptr),
        (value, vector),
        atol=1e-4,
    )


def test_gradients_by_key(forms: Any, place: str) -> None:
    x, w, keys = given("xwk", place)
    check = torch.autograd.gradcheck
    for dtype, n in itertools.product((torch.int64, torch.uint8), (0, 1, 3, 9)):
        options = keys.to(dtype), n
        for deterministic in (True, False):
            sums = lambda x, w, o=(*options, deterministic): forms.form_squares_by_key(x, w, *o)  # noqa: E731
            assert check(sums, (x, w), atol=1e-4)
        assert check(lambda x, o=options: forms.form_squares_by_key(x, 0.5, *o), (x,), atol=1e-4)
    for known in ([1, 0, 1, 1], [1, -1, 0, 2]):  # the mean of nothing is NaN
        keys = torch.tensor(known, device=place, dtype=torch.int32)
        assert check(lambda x, k=keys: forms.form_mean_square_by_key(x, k, 2), (x,), atol=1e-4)
    # Those that a kernel adds up.
    value, vector = tensor(place, 4).requires_grad_(), tensor(place, 3, seed=1).requires_grad_()
    column = torch.tensor([0, 2, 1, 0], dtype=torch.int32, device=place)
    assert check(
        lambda value, vector: forms.form_product_by_key(value, column, vector, keys, 2),
        (value, vector),
        atol=1e-4,
    )


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_gradients_of_windows(ops: Any, forms: Any, place: str, boundary: str) -> None:
    x, w = given("xw", place)
    check = torch.autograd.gradcheck
    for size, axis, step in (*WINDOWS, *(LONG_WINDOWS if boundary != "valid" else ())):
        options = size, axis, boundary, step
        assert check(lambda x, o=options: ops.total_window(x, *o), (x,))
        mean = lambda x, o=options: forms.form_mean_square_window(x, *o)  # noqa: E731
        assert check(mean, (x,), atol=1e-4)
    assert check(lambda x, w: forms.form_squares_window(x, w, 2, 0, boundary), (x, w), atol=1e-4)


def test_gradients_of_narrow_numbers(ops: Any, forms: Any, place: str) -> None:
    """Counts and sums that have no room in them are computed in single precision."""
    x = torch.ones(5000, device=place, dtype=torch.float16, requires_grad=True)
    indptr = torch.tensor([0, 5000], device=place)
    for call, wanted in (
        (lambda x: ops.mean_segments(x, indptr), 1 / 5000),
        (lambda x: forms.form_mean_square_by_key(x, torch.zeros_like(x).short(), 1), 2 / 5000),
        (lambda x: ops.mean_window(x, 3000, boundary="wrap"), 1.0),
    ):
        (found,) = torch.autograd.grad(call(x).sum(), x)
        assert found.dtype == torch.float16
        exact = torch.full_like(found, wanted)
        torch.testing.assert_close(found, exact, rtol=2e-2, atol=1e-6)


def test_gradients_of_nothing(ops: Any, forms: Any, place: str) -> None:
    x = tensor(place, 0, 3).requires_grad_()
    indptr = torch.tensor([0, 0], device=place)
    for call in (
        lambda x: ops.total_scan(x, 0, True),
        lambda x: ops.mean_scan(x, 0, True),
        lambda x: ops.total_segments(x, indptr),
        lambda x: forms.form_squares_by_key(x, 2.0, indptr[:0], 2),
        lambda x: forms.form_mean_square_by_key(x, indptr[:0], 2),
        lambda x: ops.total_window(x, 3, 0, "shrink"),
    ):
        (found,) = torch.autograd.grad(call(x).sum(), x)
        assert found.shape == x.shape


def test_gradients_of_a_sum_with_another_identity(forms: Any, place: str) -> None:
    plus_ten = kspec.ReductionKernel(
        "T x", "T y", "x", "a + b", "y = a", "10", "form_from_ten", backward={"x": "grad_y"}
    )
    call = kspec.torch.register(plus_ten, namespace=NAMESPACE).form_from_ten_scan
    x = tensor(place, 4).requires_grad_()
    (found,) = torch.autograd.grad(call(x, 0, True).sum(), x)
    assert found.tolist() == [3, 2, 1, 0]


def test_second_derivatives(place: str) -> None:
    gradients = kspec.ElementwiseKernel(
        "T x, T grad_y", "T grad_x", "grad_x = 3 * x * x * grad_y", "form_cubes_slope",
        backward={"x": "6 * x * grad_y * grad_grad_x", "grad_y": "3 * x * x * grad_grad_x"},
    )  # fmt: skip
    cubes = kspec.ReductionKernel(
        "T x", "T y", "x * x * x", "a + b", "y = a", "0", "form_cubes", backward=gradients
    )
    found = kspec.torch.register(cubes, namespace=NAMESPACE)
    x = tensor(place, 4).requires_grad_()
    indptr, keys = torch.tensor([0, 1, 3], device=place), torch.tensor([1, -1, 1, 0], device=place)
    for call in (
        lambda x: found.form_cubes_segments(x, indptr),
        lambda x: found.form_cubes_by_key(x, keys, 3),
        lambda x: found.form_cubes_window(x, 3, boundary="wrap"),
    ):
        assert torch.autograd.gradgradcheck(call, (x,))


def test_fake_tensors_have_the_shape_of_results(ops: Any, forms: Any) -> None:
    with torch._subclasses.FakeTensorMode():
        x, indptr = torch.empty(6, 7), torch.empty(4, dtype=torch.int32)
        assert forms.form_squares_scan(x, x[:1]).shape == (6, 7)
        assert ops.total_segments(x, indptr).shape == (3, 7)
        total, count = ops.histogram_by_key(x, torch.empty(6, dtype=torch.uint8), 9)
        assert total.shape == count.shape == (9, 7)
        assert (total.dtype, count.dtype) == (torch.float32, torch.int64)
        assert ops.total_window(x, 3).shape == (6, 5)
        assert ops.total_window(x, [3, 2], [1, 0], "nearest", [2, 1]).shape == (6, 4)
        with pytest.raises(ShapeError, match="a window of 8 does not fit axis 1"):
            ops.total_window(x, 8)
        with pytest.raises(ArgumentTypeError, match="indptr must hold integers, not float32"):
            ops.total_segments(x, x[0])
        with pytest.raises(ShapeError, match=r"each of the 6 rows .*, not shape \(4,\)"):
            ops.histogram_by_key(x, indptr, 3)


def test_autocast(forms: Any) -> None:
    x, w = torch.ones(4, dtype=torch.float16), torch.full((4,), 2.0)
    indptr = torch.tensor([0, 4])
    with torch.autocast("cpu"):
        assert forms.form_squares_scan(x, w).tolist() == [2, 4, 6, 8]
        assert forms.form_squares_segments(x, w, indptr).dtype == torch.float32
        assert forms.form_squares_by_key(x, w, torch.tensor([1, 0, 1, 1]), 2).tolist() == [2, 6]


def test_which_forms_there_are(ops: Any) -> None:
    """Those that a spec lists, or all that a kernel made in Python has."""
    assert not hasattr(ops, "l2norm_scan") and hasattr(ops, "mean_window")
    assert not hasattr(ops, "histogram_scan") and hasattr(ops, "histogram_by_key")
    sized = kspec.ReductionKernel("T x, T step", "T y", "x", "a + b", "y = a", "0", "form_sized")
    found = kspec.torch.register(sized, namespace=NAMESPACE)
    assert hasattr(found, "form_sized_scan") and not hasattr(found, "form_sized_window")
    found = kspec.torch.register(TWO, namespace=NAMESPACE)  # with an output named n
    assert hasattr(found, "form_two_segments") and not hasattr(found, "form_two_by_key")
    found = kspec.torch.register(ARGMAX, namespace=NAMESPACE)
    assert found.form_argmax_scan(torch.tensor([1.0, 3, 2]))[1].tolist() == [0, 1, 1]


def test_names_that_forms_have_taken() -> None:
    def declare(name: str) -> Any:
        return kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", name)

    kspec.torch.register(declare("form_taken"), namespace=NAMESPACE)
    with pytest.raises(DuplicateKernelError, match="form_taken_scan already, of something else"):
        kspec.torch.register(declare("form_taken_scan"), namespace=NAMESPACE)
    kspec.torch.register(declare("form_other_scan"), namespace=NAMESPACE)
    with pytest.raises(DuplicateKernelError, match="form_other_scan already"):
        kspec.torch.register(declare("form_other"), namespace=NAMESPACE)


def refused(ops: Any, forms: Any, x: Any) -> list[tuple[Callable[[], Any], type, str]]:
    p, k = (torch.tensor(one, device=x.device) for one in ([0, 2], [1, 0, 1, 1]))
    g = x.detach().clone().requires_grad_()
    return [
        (lambda: ops.total_scan(x, 2), ValueError, "axis 2 is out of bounds"),
        (lambda: forms.form_no_identity_scan(x, 0, True), ShapeError, "begins with the identity"),
        (lambda: ops.total_segments(x, p[:0]), ShapeError, "indptr must have one axis"),
        (lambda: ops.total_segments(x, x[0]), ArgumentTypeError, "must hold integers, not float64"),
        (lambda: ops.total_segments(x[0, 0], p), ShapeError, "segments are of the first axis"),
        (lambda: forms.form_without_by_key(x, k, -1), ShapeError, "n must be 0 or more, not -1"),
        (lambda: forms.form_without_by_key(x, k, 2.0), RuntimeError, "type 'int' for argument 'n'"),
        (lambda: forms.form_without_by_key(x, k), RuntimeError, "missing value for argument 'n'"),
        (
            lambda: forms.form_without_by_key(x, k, 2, axis=0),
            RuntimeError,
            "Unknown keyword argument 'axis'",
        ),
        (
            lambda: forms.form_without_by_key(x, x[:, 0], 2),
            ArgumentTypeError,
            "keys must hold integers, not float64",
        ),
        (
            lambda: forms.form_without_by_key(x, p, 2),
            ShapeError,
            r"keys must have one axis, .* each of the 4 rows of the first axis, not shape \(2,\)",
        ),
        (
            lambda: forms.form_without_by_key(x[0, 0], p, 2),
            ShapeError,
            "keys are of the first axis, and the inputs have none",
        ),
        (
            lambda: forms.form_no_identity_by_key(x, k, 2),
            ShapeError,
            "an output without elements is the identity, which the kernel does not have",
        ),
        (lambda: ops.total_window(x, 0), ShapeError, "size must be 1 or more, not 0"),
        (lambda: ops.total_window(x, 9), ShapeError, "a window of 9 does not fit axis 1"),
        (lambda: ops.total_window(x, 2, boundary="open"), ArgumentTypeError, "boundary is 'open'"),
        (lambda: ops.total_window(x), RuntimeError, "size"),
        (
            lambda: forms.form_without_scan(g),
            ArgumentTypeError,
            "form_without_scan: x requires grad, but the kernel has no gradients; call .detach()",
        ),
        (
            lambda: forms.form_norm_window(g, 2),
            ArgumentTypeError,
            "form_norm_window: x requires grad, but gradients of its window are derived only where "
            "outputs are sums or means .*; call .detach",
        ),
        (
            lambda: forms.form_norm_by_key(g, k, 2),
            ArgumentTypeError,
            "form_norm_by_key: x requires grad, but gradients of its by_key are derived only where",
        ),
        (
            lambda: forms.form_reads_sum_segments(g, p),
            ArgumentTypeError,
            "its backward reads the output y, which is another one in its segments; call .detach",
        ),
    ]


@pytest.mark.parametrize("number", range(21))
def test_refused(number: int, ops: Any, forms: Any, place: str) -> None:
    call, error, message = refused(ops, forms, tensor(place, 4, 5))[number]
    with pytest.raises(error, match=message):
        call()


def test_kernels_without_other_forms() -> None:
    whole = kspec.ReductionKernel(
        "T x", "T y", "x * _raw_x.size()", "a + b", "y = a", "0", "form_whole"
    )
    assert operator_forms(whole.declaration, False) == ("reduce",)
    with pytest.raises(NotSupportedError, match="form_whole has no scan"):
        whole.scan(torch.ones(3))
