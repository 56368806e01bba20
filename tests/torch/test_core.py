"""Kernels with core dimensions as operators: shapes, compilation, batches, gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import kspec
import kspec.torch
from kspec.errors import ArgumentTypeError, ShapeError
from kspec.model.operators import operators
from tests.core.programs import (
    DISTANCE,
    GAUSS,
    MATVEC,
    POWERS,
    PRODUCT,
    SOLVE,
    distance,
    gauss,
    matrices,
    matvec,
    powers,
    solve,
    values,
)

# Torch warns of itself, of its compiler and of what GPUs could do.
pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def core() -> Any:
    for kernel in (SOLVE, DISTANCE, GAUSS, POWERS, PRODUCT, MATVEC):
        found = kspec.torch.register(kernel, namespace="kspec_core")
    return found


def on(place: str, *arrays: Any) -> Any:
    return [torch.from_numpy(one).to(place) for one in arrays]


def wanting(*tensors: Any) -> Any:
    return [one.detach().clone().requires_grad_() for one in tensors]


def test_schemas() -> None:
    assert [one.schema for one in operators(SOLVE.declaration)] == [
        "core_solve_by(Tensor A, Tensor b) -> Tensor"
    ]
    assert [one.schema for one in operators(DISTANCE.declaration)] == [
        "core_distance(Tensor x, Tensor y, Tensor b) -> Tensor",
        "core_distance.b(Tensor x, Tensor y, Scalar b) -> Tensor",
    ]
    assert [one.schema for one in operators(POWERS.declaration)] == [
        "core_powers(Tensor x, Tensor v, *, int n=2) -> (Tensor, Tensor)",
        "core_powers.x(Scalar x, Tensor v, *, int n=2) -> (Tensor, Tensor)",
    ]


@pytest.mark.parametrize(
    ("A", "b"),
    [
        ((6, 3, 3), (6, 3)),
        ((5, 1, 2, 2), (4, 2)),
        ((1, 1), (3, 1)),
        ((3, 3), (3,)),
        ((0, 3, 3), (3,)),
    ],
)
def test_calls(core: Any, place: str, A: Any, b: Any) -> None:
    arrays = matrices(*A), values(*b, seed=1)
    given = on(place, *arrays)
    x = core.core_solve_by(*given)
    np.testing.assert_allclose(x.cpu(), solve(*arrays))
    assert torch.equal(x, SOLVE(*given))
    torch.library.opcheck(core.core_solve_by.default, given)


def test_sizes_and_several_outputs(core: Any, place: str) -> None:
    arrays = values(4, 1), values(3, 3, seed=1)
    for sizes in ({}, {"n": 4}):
        found = core.core_powers(*on(place, *arrays), **sizes)
        for one, expected in zip(found, powers(*arrays, **sizes), strict=True):
            np.testing.assert_allclose(one.cpu(), expected)
        torch.library.opcheck(core.core_powers.default, on(place, *arrays), sizes)
    found = core.core_powers(0.5, *on(place, arrays[1]))
    np.testing.assert_allclose(found[0].cpu(), powers(0.5, arrays[1])[0])


def test_fake_tensors_have_the_shape_of_results(core: Any) -> None:
    with torch._subclasses.FakeTensorMode():
        A, b = torch.empty(5, 1, 3, 3), torch.empty(4, 3)
        assert core.core_solve_by(A, b).shape == (5, 4, 3)
        assert core.core_product(b, torch.empty(4, 2)).shape == (4, 4)
        p, s = core.core_powers(torch.empty(7, 1), b, n=6)
        assert (p.shape, s.shape) == ((7, 4, 6, 3), (7, 4))
        with pytest.raises(ShapeError, match=r"b has a mismatch in its core dimension 0"):
            core.core_solve_by(A, torch.empty(4, 2))
        with pytest.raises(ShapeError, match="A does not have enough dimensions"):
            core.core_solve_by(b[0], b)


@pytest.mark.parametrize("dynamic", [None, True])
def test_compiled_programs_are_one_graph(core: Any, place: str, dynamic: bool | None) -> None:
    def program(A: Any, b: Any) -> Any:
        x = core.core_solve_by(A * 2, b)
        return core.core_product(x, core.core_apply(A, x)) + 1

    compiled = torch.compile(program, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for loop, n in ((6, 3), (9, 3), (11, 2), (4, 4)):  # extents become symbolic
        A, b = on(place, matrices(loop, n, n), values(loop, n, seed=1))
        found, expected = compiled(A, b), program(A, b)
        assert found.shape == (loop, 2 * n - 1)
        assert torch.equal(found, expected)


class Counting(TorchDispatchMode):  # type: ignore[misc]
    """Counts the calls of an operator."""

    def __init__(self, operator: Any) -> None:
        super().__init__()
        self.operator, self.count = operator, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is self.operator
        return func(*args, **(kwargs or {}))


def test_batches(core: Any, place: str) -> None:
    """`torch.vmap` calls an operator once: a batch is an axis of the loop."""
    A, x = values(5, 2, 3, 4), values(5, 4, seed=1)
    given = on(place, A, x)
    with Counting(core.core_apply.default) as calls:
        found = torch.vmap(core.core_apply)(*given)
    assert calls.count == 1
    np.testing.assert_allclose(found.cpu(), matvec(A, x[:, None]))
    table = torch.vmap(torch.vmap(core.core_apply, (None, 0)), (0, None))(given[0][:, 0], given[1])
    np.testing.assert_allclose(table.cpu(), matvec(A[:, None, 0], x))
    compiled = torch.compile(torch.vmap(core.core_apply), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*given), torch.vmap(core.core_apply)(*given))
    p, s = torch.vmap(lambda v: core.core_powers(0.5, v, n=3), 1, 1)(given[0][:, 0, :, :3])
    expected = powers(0.5, A[:, 0, :, :3], 3)
    np.testing.assert_allclose(p.cpu(), expected[0])
    np.testing.assert_allclose(s.cpu(), expected[1])
    y = values(3, seed=2)  # the last axis of A is the batch
    found = torch.vmap(core.core_apply, in_dims=(3, None))(given[0], *on(place, y))
    np.testing.assert_allclose(found.cpu(), matvec(np.moveaxis(A, 3, 0), y))


@pytest.mark.parametrize(
    ("A", "b"),
    [
        ((3, 2, 2), (3, 2)),
        ((3, 1, 2, 2), (2, 2)),
        ((2, 2), (3, 2)),  # each loop axis that broadcasts is summed, core axes are not
        ((1, 2, 2), (3, 2)),
        ((3, 1, 1), (1, 1)),
        ((2, 2), (2,)),
    ],
)
def test_gradients(core: Any, place: str, A: Any, b: Any) -> None:
    given = wanting(*on(place, matrices(*A), values(*b, seed=1)))
    assert torch.autograd.gradcheck(core.core_solve_by, given)
    found = torch.autograd.grad(core.core_solve_by(*given).pow(2).sum(), given)
    reference = torch.linalg.solve(given[0], given[1].unsqueeze(-1)).squeeze(-1)
    wanted = torch.autograd.grad(reference.pow(2).sum(), given)
    for one, expected in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, expected)
    torch.library.opcheck(core.core_solve_by.default, given)


@pytest.mark.parametrize("d", [1, 3])
def test_gradients_with_numbers_and_without_core_dimensions(core: Any, place: str, d: int) -> None:
    x, y, b = wanting(*on(place, values(4, 1, d), values(3, d, seed=1), values(3, seed=2)))
    assert torch.autograd.gradcheck(core.core_distance, (x, y, b))
    assert torch.autograd.gradcheck(lambda x, y: core.core_distance(x, y, 2.0), (x, y))
    (found,) = torch.autograd.grad(core.core_distance(x, y, b).sum(), b)
    expected = distance(*(one.detach().cpu().numpy() for one in (x, y, torch.ones_like(b)))).sum(0)
    np.testing.assert_allclose(found.cpu(), expected)


def test_gradients_of_sizes_and_several_outputs(core: Any, place: str) -> None:
    x, v = wanting(*on(place, values(4, 1), values(1, 3, seed=1)))
    for sizes in ({}, {"n": 4}):
        assert torch.autograd.gradcheck(
            lambda x, v, sizes=sizes: core.core_powers(x, v, **sizes), (x, v)
        )
    (found,) = torch.autograd.grad(core.core_powers(x, v)[1].sum(), v)  # one output is not used
    torch.testing.assert_close(found, torch.full_like(v, 4))


def test_gradients_where_extents_are_expressions(core: Any, place: str) -> None:
    a, b = wanting(*on(place, values(3, 2, 1), values(2, 4, seed=1)))
    assert torch.autograd.gradcheck(core.core_product, (a, b))


def test_gradients_of_batches(core: Any, place: str) -> None:
    A, b = wanting(*on(place, matrices(5, 2, 2), values(3, 2, seed=1)))
    found = torch.autograd.grad(
        torch.vmap(core.core_solve_by, (0, None))(A, b).pow(2).sum(), (A, b)
    )
    expected = torch.autograd.grad(core.core_solve_by(A[:, None], b).pow(2).sum(), (A, b))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("axis", [None, [0], [1], [0, 1]])
def test_reductions(core: Any, place: str, axis: Any) -> None:
    arrays = values(3, 1, 2), values(1, 4, 2, seed=1), values(4, seed=2)
    given = wanting(*on(place, *arrays))
    found = core.core_gauss(*given, axis)
    expected = gauss(*arrays, None if axis is None else tuple(axis))
    np.testing.assert_allclose(found.detach().cpu(), expected)
    assert torch.autograd.gradcheck(lambda *one: core.core_gauss(*one, axis), given)
    torch.library.opcheck(core.core_gauss.default, (*given, axis))
    compiled = torch.compile(core.core_gauss, fullgraph=True, backend="aot_eager", dynamic=True)
    several = (
        torch.autograd.grad(call(*given, axis).pow(2).sum(), given)
        for call in (compiled, core.core_gauss)
    )
    for one, other in zip(*several, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("dynamic", [None, True])
def test_compiled_gradients(core: Any, place: str, dynamic: bool | None) -> None:
    def loss(A: Any, b: Any) -> Any:
        return (core.core_solve_by(A, b) ** 2).sum()

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for loop, n in ((6, 3), (8, 3), (5, 2)):
        given = wanting(*on(place, matrices(loop, n, n), values(1, n, seed=1)))
        found, expected = (torch.autograd.grad(one(*given), given) for one in (compiled, loss))
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other)


def test_gradients_that_are_given_as_outputs(place: str) -> None:
    """A kernel whose gradient is raw adds to an array of zeros, of the shape of its input."""
    gradient = kspec.ElementwiseKernel(
        "T x[n], T grad_y",
        "raw T grad_x[1], T grad_w[n]",
        "for (int k = 0; k < n; ++k) { atomicAdd(&grad_x[k], grad_y); grad_w(k) = x(k) * grad_y; }",
        "core_summed_backward",
    )
    kernel = kspec.ElementwiseKernel(
        "T x[n], T w[n]",
        "T y",
        "y = 0; for (int k = 0; k < n; ++k) y += x(k) + 0 * w(k)",
        "core_summed",
        backward=gradient,
    )
    call = kspec.torch.register(kernel, namespace="kspec_core").core_summed
    x, w = wanting(*on(place, values(3), values(4, 3)))
    found = torch.autograd.grad(call(x, w).sum(), (x, w))
    torch.testing.assert_close(found[0], torch.full_like(x, 4))
    torch.testing.assert_close(found[1], x.expand(4, 3))


def test_refused(core: Any, place: str) -> None:
    A, x = on(place, values(6, 3, 4), values(6, 4))
    for call, error, message in (
        (lambda: core.core_apply(A, x[:, :3]), ShapeError, "x has a mismatch in its core"),
        (lambda: core.core_apply(A[:4], x), ShapeError, "could not be broadcast together"),
        (lambda: core.core_apply(A[0, 0], x), ShapeError, "A does not have enough dimensions"),
        (lambda: core.core_apply(A, 1.0), RuntimeError, "x"),
        (
            lambda: core.core_apply(*wanting(A, x)),
            ArgumentTypeError,
            "A requires grad, but the kernel has no gradients",
        ),
    ):
        with pytest.raises(error, match=message):
            call()
