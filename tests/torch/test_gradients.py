"""Autograd, `torch.compile` and `torch.export` of operators with `backward`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import kspec
import kspec.torch
from kspec.errors import ArgumentTypeError

# Torch warns of itself, of its compiler and of what GPUs could do.
pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


SQUARE = kspec.ElementwiseKernel("T x", "T y", "y = x * x", "torch_square")


def tensor(place: str, *shape: int, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    made = torch.rand(shape, generator=generator, dtype=torch.float64) + 0.5
    return made.to(place).requires_grad_()


CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "l2norm": lambda ops, x, row: ops.l2norm(x, axis=1),
    "l2norm of all": lambda ops, x, row: ops.l2norm(x),
    "l2norm kept": lambda ops, x, row: ops.l2norm(x, axis=[-1, 0], keepdims=True),
    "l2norm of nothing": lambda ops, x, row: ops.l2norm(x, axis=()),
    "l2_norm_sq": lambda ops, x, row: ops.l2_norm_sq(x, 0),
    "rms_scale": lambda ops, x, row: ops.rms_scale(x, 0.5, axis=1),
    "logsumexp": lambda ops, x, row: ops.logsumexp(x, 0, True),
    "mean_var": lambda ops, x, row: ops.mean_var(x, 1.0, axis=1),
    "one of two results": lambda ops, x, row: ops.mean_var(x, 0.0, axis=1)[1],
    "clipped_relu": lambda ops, x, row: ops.clipped_relu(x, row),
    "clipped_relu with a number": lambda ops, x, row: ops.clipped_relu(x, 1.0),
    "gelu_bias": lambda ops, x, row: ops.gelu_bias(x, row),
    "gelu_bias of a row": lambda ops, x, row: ops.gelu_bias(row, x),
    "gelu_bias of a number": lambda ops, x, row: ops.gelu_bias(0.25, row),
    "of a transposed one": lambda ops, x, row: ops.gelu_bias(x.T, x[:, 0]),
    "squared_diff_generic": lambda ops, x, row: ops.squared_diff_generic(x, row),
    "of a scalar tensor": lambda ops, x, row: ops.squared_diff_generic(x, row[1]),
    "add_reverse": lambda ops, x, row: ops.add_reverse(row, row * row),
}


@pytest.mark.parametrize("name", CALLS)
def test_gradcheck(name: str, ops: Any, place: str) -> None:
    inputs = tensor(place, 3, 4), tensor(place, 4, seed=1)
    call = CALLS[name]
    assert torch.autograd.gradcheck(lambda x, row: call(ops, x, row), inputs, atol=1e-4)


def test_inputs_without_an_expression_have_no_gradient() -> None:
    scaled = kspec.ElementwiseKernel(
        "T x, T k", "T y", "y = k * x", "torch_scaled", backward={"x": "grad_y * k"}
    )
    found = kspec.torch.register(scaled)
    x, k = tensor("cpu", 3), tensor("cpu", 3, seed=1)
    found.torch_scaled(x, k).sum().backward()
    assert torch.equal(x.grad, k.detach()) and k.grad is None


@pytest.mark.parametrize("backend", [None, "aot_eager"])
def test_gradients_that_are_added_up(backend: str | None, place: str) -> None:
    scatter = kspec.ElementwiseKernel(
        "T grad_y, int64 index",
        "raw T grad_x",
        "atomicAdd(&grad_x[index], grad_y)",
        "torch_scatter",
    )
    gather = kspec.ElementwiseKernel(
        "raw T x, int64 index", "T y", "y = x[index]", "torch_gather", backward=scatter
    )
    call: Any = kspec.torch.register(gather).torch_gather
    if backend is not None:
        call = torch.compile(call, fullgraph=True, backend=backend)
    x, index = tensor(place, 100), torch.tensor([3, 5, 3], device=place)
    for _ in range(3):
        torch.full_like(x, 7)  # whose memory is used again
        (found,) = torch.autograd.grad(call(x, index).sum(), x)
        wanted = torch.zeros_like(x).index_add(0, index, torch.ones_like(x[:3]))
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("backend", [None, "aot_eager"])
def test_autograd_is_told_of_what_an_operator_writes_to(
    backend: str | None, ops: Any, place: str
) -> None:
    def write(a: Any) -> None:
        ops.axpy(1.0, torch.ones_like(a), a)

    call = write if backend is None else torch.compile(write, fullgraph=True, backend=backend)
    w = torch.full((3,), 5.0, device=place, requires_grad=True)
    a = w * 2
    loss = (a * a).sum()
    call(a.detach())
    assert a._version > 0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_second_derivatives_are_refused(ops: Any) -> None:
    x = tensor("cpu", 3)
    (gradient,) = torch.autograd.grad(ops.gelu_bias(x, 0.0).sum(), x)
    assert not gradient.requires_grad
    with pytest.raises(TypeError, match="gelu_bias_backward: x requires grad"):
        torch.autograd.grad(ops.gelu_bias(x, 0.0).sum(), x, create_graph=True)


def of_three(ops: Any) -> Callable[[Any, Any], Any]:
    def function(x: Any, bias: Any) -> Any:
        hidden = ops.gelu_bias(x, bias)
        return (ops.squared_diff_generic(hidden, x) * ops.l2norm(hidden, 1, True)).sum()

    return function


def test_second_derivatives_by_a_kernel_with_gradients(place: str) -> None:
    slope = kspec.ElementwiseKernel(
        "T x, T grad_y", "T grad_x", "grad_x = 3 * x * x * grad_y", "torch_slope",
        backward={"x": "6 * x * grad_y * grad_grad_x", "grad_y": "3 * x * x * grad_grad_x"},
    )  # fmt: skip
    cube = kspec.ElementwiseKernel("T x", "T y", "y = x * x * x", "torch_cubic", backward=slope)
    call, x = kspec.torch.register(cube).torch_cubic, tensor(place, 3)
    assert torch.autograd.gradcheck(call, (x,)) and torch.autograd.gradgradcheck(call, (x,))


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compiled_without_a_break(backend: str, ops: Any, place: str) -> None:
    function = of_three(ops)
    x, bias = tensor(place, 5, 8), tensor(place, 8, seed=1)
    expected = torch.autograd.grad(function(x, bias), (x, bias))
    found = torch._dynamo.explain(function)(x, bias)
    assert (found.graph_break_count, found.graph_count) == (0, 1)
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, backend=backend)
    gradients = torch.autograd.grad(compiled(x, bias), (x, bias))
    for one, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_compiled_for_shapes_that_change(ops: Any) -> None:
    compiled = torch.compile(of_three(ops), fullgraph=True, backend="aot_eager", dynamic=True)
    for rows in (3, 7, 11):
        x, bias = tensor("cpu", rows, 8), tensor("cpu", 8, seed=1)
        result = compiled(x, bias)
        result.backward()
        torch.testing.assert_close(result, of_three(ops)(x, bias))
        assert x.grad.shape == x.shape


def test_compiled_writes_to_arguments(ops: Any, place: str) -> None:
    def function(x: Any) -> Any:
        y = x.clone()
        ops.axpy(2.0, x, y)
        return y * 2

    x = torch.ones(100, device=place)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), torch.full((100,), 6.0, device=place))


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compiled_operators_without_gradients_refuse_tensors_that_want_them(
    backend: str, ops: Any, place: str
) -> None:
    found = kspec.torch.register(SQUARE)

    def returning(w: Any) -> Any:
        return (found.torch_square(w) + w).sum()

    def writing(w: Any) -> Any:
        y = torch.zeros(3, device=w.device)
        ops.axpy(2.0, w, y)
        return (y * w).sum()

    for function, reason in (
        (returning, "torch_square: x requires grad, but the kernel has no gradients"),
        (writing, "axpy: x requires grad, but the kernel writes to its arguments"),
    ):
        w = torch.full((3,), 5.0, device=place, requires_grad=True)
        compiled = torch.compile(function, fullgraph=True, backend=backend)
        for call in (function, compiled):
            with pytest.raises(Exception, match=reason):
                call(w)
        assert compiled(w.detach()) == function(w.detach())
        with torch.no_grad():
            assert compiled(w) == function(w)


def bias_of(ops: Any) -> Callable[[Any], Any]:
    return lambda x: ops.gelu_bias(x, 0.5)


def test_forward_derivatives_are_refused(ops: Any, place: str) -> None:
    x = torch.ones(3, device=place)
    square = kspec.torch.register(SQUARE).torch_square
    message = "x has a tangent, but kernels have no forward derivatives"
    for call in (square, bias_of(ops)):
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x, x)
            for mode in (torch.enable_grad(), torch.no_grad()):
                with mode, pytest.raises(ArgumentTypeError, match=message):
                    call(dual)
            assert torch.equal(call(x), call(x.clone()))
        for transform in (
            lambda f: torch.func.jvp(f, (x,), (x,)),
            lambda f: torch.func.jacfwd(f)(x),
        ):
            with pytest.raises(ArgumentTypeError, match=message):
                transform(call)


def test_transforms_of_torch_func_are_refused(ops: Any, place: str) -> None:
    x = torch.ones(3, device=place)
    with pytest.raises(ArgumentTypeError, match=r"gelu_bias: x is differentiated by torch\.func"):
        torch.func.grad(lambda x: ops.gelu_bias(x, 0.5).sum())(x)
    square = kspec.torch.register(SQUARE).torch_square
    with pytest.raises(ArgumentTypeError, match="torch_square: x requires grad"):
        torch.func.vjp(square, x)


def test_vmap(ops: Any, place: str) -> None:
    x = torch.rand(3, 4, device=place)
    assert torch.equal(torch.vmap(bias_of(ops))(x), bias_of(ops)(x))
    found = torch.vmap(lambda x, y: ops.squared_diff(x, y), (1, 0))(x, x[0])
    assert torch.equal(found, ops.squared_diff(x.T, x[0][:, None]))
    assert torch.equal(torch.vmap(ops.l2norm)(x), ops.l2norm(x, axis=1))  # one after the other
    with pytest.raises(RuntimeError, match="Batching rule not implemented"):
        torch.vmap(lambda x: ops.axpy(2.0, x, torch.zeros_like(x)))(x)


def test_compiled_indices_need_no_gradients(ops: Any) -> None:
    w = torch.tensor([1.0, 5.0, 2.0], requires_grad=True)
    compiled = torch.compile(lambda w: ops.argmax(w) * w, fullgraph=True, backend="aot_eager")
    compiled(w).sum().backward()
    assert w.grad.tolist() == [1, 1, 1]


def test_exported(ops: Any, place: str) -> None:
    class Norms(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any, bias: Any) -> Any:
            return ops.l2norm(ops.gelu_bias(x, bias), axis=1)

    x, bias = torch.rand(5, 8, device=place), torch.rand(8, device=place)
    rows = torch.export.Dim("rows", min=2)
    shapes = {"x": {0: rows}, "bias": None}
    program = torch.export.export(Norms(), (x, bias), dynamic_shapes=shapes)
    called = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert {"kspec_kernels.gelu_bias.default", "kspec_kernels.l2norm.default"} <= called
    more = torch.rand(9, 8, device=place)
    assert torch.equal(program.module()(more, bias), Norms()(more, bias))


class Network(torch.nn.Module):  # type: ignore[misc]
    """Two layers, with an activation between them that adds the bias of the first."""

    def __init__(self, activation: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Linear(4, 32, bias=False)
        self.bias = torch.nn.Parameter(torch.zeros(32))
        self.last = torch.nn.Linear(32, 1)
        self.activation = activation

    def forward(self, x: Any) -> Any:
        return self.last(self.activation(self.first(x), self.bias))


def train(activation: Callable[[Any, Any], Any], place: str, compiled: bool = False) -> list[float]:
    network: Any = Network(activation).to(place)
    x = torch.rand(64, 4, generator=torch.Generator().manual_seed(1)).to(place) * 2 - 1
    wanted = torch.sin(x.sum(1, keepdim=True))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    step = torch.compile(network, fullgraph=True, backend="aot_eager") if compiled else network
    losses = []
    for _ in range(150):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(step(x), wanted)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True])
def test_training_converges_as_with_torchs_own(ops: Any, place: str, compiled: bool) -> None:
    own = train(lambda x, bias: torch.nn.functional.gelu(x + bias), place)
    found = train(ops.gelu_bias, place, compiled)
    assert found[-1] < 0.25 * found[0]
    assert found == pytest.approx(own, rel=5e-3)


@pytest.mark.pools
@pytest.mark.gpu
def test_a_training_step_in_a_cuda_graph(ops: Any) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    network: Any = Network(ops.gelu_bias).cuda()
    x = torch.rand(64, 4, device="cuda")
    wanted = x.sum(1, keepdim=True)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)

    def step() -> Any:
        optimizer.zero_grad(set_to_none=False)
        loss = torch.nn.functional.mse_loss(network(x), wanted)
        loss.backward()
        optimizer.step()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            first = step().item()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=False)
    with torch.cuda.graph(graph):
        loss = step()
    for _ in range(200):
        graph.replay()
    assert loss.item() < 0.5 * first


@pytest.mark.pools
@pytest.mark.gpu
def test_compiled_with_cuda_graphs(ops: Any) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    function = of_three(ops)
    compiled = torch.compile(function, fullgraph=True, mode="reduce-overhead")
    x, bias = tensor("cuda", 64, 32), tensor("cuda", 32, seed=1)
    expected = torch.autograd.grad(function(x, bias), (x, bias))
    for _ in range(4):
        torch.compiler.cudagraph_mark_step_begin()
        gradients = torch.autograd.grad(compiled(x, bias), (x, bias))
        for one, other in zip(gradients, expected, strict=True):
            torch.testing.assert_close(one, other)
