"""Kernels with windows and sizes as operators: options, shapes, compilation, gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import kspec
import kspec.torch
from kspec.errors import ArgumentTypeError, ShapeError
from kspec.model.operators import operators
from tests.windows.kernels import BLUR, LAPLACIAN, POWER, SLOPE

# Torch warns of itself, of its compiler and of what GPUs could do.
pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def windows() -> Any:
    for kernel in (LAPLACIAN, BLUR, POWER, SLOPE):
        found = kspec.torch.register(kernel, namespace="kspec_windows")
    return found


def tensor(place: str, *shape: int, seed: int = 0) -> Any:
    values = np.random.default_rng(seed).random(shape)
    return torch.from_numpy(values).to(place)


def test_schemas() -> None:
    assert [one.schema for one in operators(LAPLACIAN.declaration)] == [
        "laplacian(Tensor u, Tensor h, *, str? boundary=None) -> Tensor",
        "laplacian.h(Tensor u, Scalar h, *, str? boundary=None) -> Tensor",
    ]
    (blur,) = operators(BLUR.declaration)
    assert blur.schema == "blur(Tensor u, Tensor w, *, int R, str? boundary=None) -> Tensor"
    (power,) = operators(POWER.declaration)
    assert power.schema == "power(Tensor x, *, int N=3) -> Tensor"


@pytest.mark.parametrize("boundary", [None, "wrap", "valid"])
def test_calls(windows: Any, place: str, boundary: str | None) -> None:
    u = tensor(place, 3, 9, 14)
    shape = (7, 12) if boundary == "valid" else (9, 14)
    for h in (0.5, tensor(place, 3, 1, 1, seed=1) + 1, tensor(place, *shape, seed=2) + 1):
        found = windows.laplacian(u, h, boundary=boundary)
        assert torch.equal(found, LAPLACIAN(u, h, boundary=boundary))
        number = not isinstance(h, torch.Tensor)
        overload = windows.laplacian.h if number else windows.laplacian.default
        torch.library.opcheck(overload, (u, h), {"boundary": boundary})


def test_sizes(windows: Any, place: str) -> None:
    u, w = tensor(place, 4, 20), tensor(place, 7)
    for size in (1, 2, 3):  # the last one is compiled now
        for boundary in ("mirror", "valid"):
            found = windows.blur(u, w, R=size, boundary=boundary)
            assert torch.equal(found, BLUR(u, w, R=size, boundary=boundary))
        torch.library.opcheck(windows.blur.default, (u, w), {"R": size})
    assert torch.equal(windows.power(u), POWER(u))
    assert torch.equal(windows.power(u, N=2), POWER(u, N=2))
    torch.library.opcheck(windows.power.default, (u,), {"N": 2})


def test_compiled_programs_are_one_graph(windows: Any, place: str) -> None:
    def program(u: Any, w: Any, size: int, boundary: str) -> Any:
        smooth = windows.blur(u * 2, w, R=size, boundary=boundary)
        return windows.laplacian(smooth, 0.5, boundary="valid") + 1

    w = tensor(place, 7)
    compiled = torch.compile(program, fullgraph=True, backend="aot_eager")
    for shape in ((9, 14), (11, 17), (20, 30)):  # extents become symbolic
        for size, boundary in ((1, "valid"), (2, "mirror")):
            u = tensor(place, *shape)
            found, expected = compiled(u, w, size, boundary), program(u, w, size, boundary)
            assert found.shape == expected.shape
            assert torch.equal(found, expected)


def test_fake_tensors_have_the_shape_of_results(windows: Any) -> None:
    with torch._subclasses.FakeTensorMode():
        u, w = torch.empty(3, 9, 14), torch.empty(5)
        assert windows.laplacian(u, 1.0).shape == (3, 9, 14)
        assert windows.laplacian(u, 1.0, boundary="valid").shape == (3, 7, 12)
        assert windows.blur(u, w, R=2, boundary="valid").shape == (3, 9, 10)
        with pytest.raises(ShapeError, match="leaves nothing for boundary 'valid'"):
            windows.blur(u, w, R=8, boundary="valid")
        with pytest.raises(ArgumentTypeError, match="boundary 'mirror' is not declared for u"):
            windows.laplacian(u, 1.0, boundary="mirror")


def test_autocast(windows: Any) -> None:
    u, h = torch.rand(8, 8, dtype=torch.float16), torch.rand(8, 8)
    with torch.autocast("cpu"):
        found = windows.laplacian(u, h, boundary="wrap")
    assert torch.equal(found, LAPLACIAN(u.float(), h, boundary="wrap"))


@pytest.mark.parametrize("boundary", [None, "reflect", "wrap", "valid"])
def test_gradients(windows: Any, place: str, boundary: str | None) -> None:
    for shape in ((1, 9), (3, 9)):  # the batch axis broadcasts
        u = tensor(place, *shape).requires_grad_()
        h = tensor(place, 3, 1, seed=1) + 1
        for size in ({}, {"R": 1}):
            options = {**size, "boundary": boundary}
            assert torch.autograd.gradcheck(
                lambda u, h=h, options=options: windows.slope(u, h, **options), (u,)
            )
    torch.library.opcheck(windows.slope.default, (u, h), {"boundary": boundary})


def test_compiled_gradients(windows: Any, place: str) -> None:
    def loss(u: Any) -> Any:
        return (windows.slope(u, 0.5, R=1, boundary="valid") ** 2).sum()

    u = tensor(place, 3, 9).requires_grad_()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    (found,), (expected,) = (torch.autograd.grad(one(u), u) for one in (compiled, loss))
    torch.testing.assert_close(found, expected)


def test_compiled_gradients_beside_a_sample_of_another_boundary(place: str) -> None:
    """The boundary of the call belongs to the window; the sample keeps its only one."""
    kernel = kspec.ElementwiseKernel(
        "T u, raw T x",
        "T v",
        "v = x.sample(0.5) * (u(1) - u(-1))",
        "torch_scaled",
        windows={"u": {"reach": [1], "boundary": ["nearest", "wrap"]}},
        samples={"x": {"order": 1, "boundary": "mirror"}},
        backward={"u": "adjoint"},
    )
    call = kspec.torch.register(kernel, namespace="kspec_windows").torch_scaled

    def loss(u: Any, x: Any) -> Any:
        return (call(u, x, boundary="wrap") ** 2).sum()

    u, x = tensor(place, 9).requires_grad_(), tensor(place, 5, seed=1)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    (found,), (expected,) = (torch.autograd.grad(one(u, x), u) for one in (compiled, loss))
    torch.testing.assert_close(found, expected)


def test_gradients_by_a_kernel_without_the_options(place: str) -> None:
    """A reduction without sizes computes the gradient of a kernel with sizes."""
    gradient = kspec.ReductionKernel(
        "T x, T grad_y", "T grad_h", "x * grad_y", "a + b", "grad_h = a", "0", "torch_summed"
    )
    scale = kspec.ElementwiseKernel(
        "T x, T h",
        "T y",
        "y = 0; for (int k = 0; k < N; ++k) y += h * x",
        "torch_scale",
        sizes={"N": [1]},
        backward=gradient,
    )
    call = kspec.torch.register(scale, namespace="kspec_windows").torch_scale
    x, h = tensor(place, 3, 9), tensor(place).requires_grad_()
    (found,) = torch.autograd.grad(call(x, h, N=1).sum(), h)
    torch.testing.assert_close(found, x.sum())


def test_refused(windows: Any, place: str) -> None:
    u, w = tensor(place, 4, 9), tensor(place, 3)
    for call, error, message in (
        (
            lambda: windows.laplacian(u, 1.0, boundary="open"),
            ArgumentTypeError,
            "'open' is not",
        ),
        (
            lambda: windows.laplacian(u[0], 1.0),
            ShapeError,
            "u has 1 dimension, and its window",
        ),
        (lambda: windows.laplacian(1.0, u), RuntimeError, "u"),
        (lambda: windows.blur(u, w), RuntimeError, "R"),
        (lambda: windows.blur(u, w, R=1.5), RuntimeError, "R"),
        (lambda: windows.blur(u, w, R=-1), ShapeError, "size R must be in"),
        (
            lambda: windows.laplacian(u.requires_grad_(), 1.0, boundary="wrap"),
            ArgumentTypeError,
            "u requires grad, but the kernel has no gradients",
        ),
    ):
        with pytest.raises(error, match=message):
            call()
