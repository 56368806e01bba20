"""Plain calls inside of torch.compile: it breaks the graph in front of them, and traces none.

Operators, which are a part of the graph, are in `test_operators`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import kspec_kernels
import numpy as np
import pytest
import torch
from torch._dynamo.testing import CompileCounter

import kspec
from kspec import jit, sharded

SQUARED = kspec.ElementwiseKernel("T x, T y", "T z", "z = (x - y) * (x - y)", "compiled_squared")
TOTAL = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "compiled_total")
CODE = """
extern "C" __global__ void add_to(const float* x, float* y) { y[threadIdx.x] += x[threadIdx.x]; }
"""
ADD_TO = kspec.RawKernel(CODE, "add_to")


@jit.rawkernel()
def add_to(x, y):  # type: ignore[no-untyped-def]
    y[jit.threadIdx.x] += x[jit.threadIdx.x]


@kspec.fuse()
def fused(x, y):  # type: ignore[no-untyped-def]
    y += x * 2


def into(write: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a function of two tensors for a kernel that writes to its second one."""

    def call(x: Any, y: Any) -> Any:
        z = y + 1
        write(x, z)
        return z * 2

    return call


def indices(x: Any, *values: int) -> Any:
    return torch.tensor(values, device=x.device)


# Calls with two tensors of four elements.
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "elementwise": lambda x, y: SQUARED(x + 1, y) * 2,
    "elementwise, of a number": lambda x, y: SQUARED(x + 1, 2) * y,
    "elementwise, with an output": into(lambda x, z: SQUARED(x, 1, z)),
    "elementwise, bound": into(lambda x, z: SQUARED.bind(x, 1, z)()),
    "reduction": lambda x, y: TOTAL(x + 1, axis=0) * y,
    "scan": lambda x, y: TOTAL.scan(x + 1) * y,
    "segments": lambda x, y: TOTAL.segments(x + y, indices(x, 0, 2, 4)) * 2,
    "by_key": lambda x, y: TOTAL.by_key(x + y, indices(x, 0, 1, 0, 1), 2) * 2,
    "window": lambda x, y: TOTAL.window(x + y, 2) * 2,
    "raw": into(lambda x, z: ADD_TO((1,), (4,), (x, z))),
    "raw, bound": into(lambda x, z: ADD_TO.bind((1,), (4,), (x, z))()),
    "jit": into(lambda x, z: add_to((1,), (4,), (x, z))),
    "jit, by index": into(lambda x, z: add_to[1, 4](x, z)),
    "fuse": into(fused),
    "generated elementwise": lambda x, y: kspec_kernels.math.squared_diff(x + 1, y) * 2,
    "generated reduction": lambda x, y: kspec_kernels.norms.l2norm(x + y) * 2,
    "generated scan": lambda x, y: kspec_kernels.statistics.total.scan(x + y) * 2,
    "generated raw": lambda x, y: kspec_kernels.raw.matmul(x.view(2, 2) + 1, y.view(2, 2)) * 2,
    "shards": lambda x, y: sharded.apply(TOTAL, [x + 1, y], axis=0) * 2,
    "NumPy": lambda x, y: torch.from_numpy(kspec.asnumpy(x + y)),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_and_graphs(name: str, place: str) -> None:
    call = CALLS[name]
    x, y = torch.arange(4.0, device=place), torch.ones(4, device=place)
    graphs = CompileCounter()
    compiled = torch.compile(call, backend=graphs)
    for _ in range(3):
        torch.testing.assert_close(compiled(x, y), call(x, y))
    assert graphs.frame_count <= 3  # in front of the call and behind it, of kspec none


def test_the_first_call_of_kernels_that_were_made_before_torch_was_imported() -> None:
    program = """
import kspec
from kspec_kernels import norms
twice = kspec.ElementwiseKernel("T x", "T y", "y = 2 * x", "twice")
import torch
from torch._dynamo.testing import CompileCounter
graphs = CompileCounter()
compiled = torch.compile(lambda x: norms.l2norm(twice(x + 0)) + 1, backend=graphs)
assert compiled(torch.tensor([3.0, 4.0])) == 11
assert graphs.frame_count == 2
"""
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


@pytest.mark.skipif(torch.__version__ < "2.7", reason="torch 2.6 traces kspec there")
def test_functions_that_torch_runs_as_they_are(place: str) -> None:
    """It breaks the graph within `try`, and runs the whole function without one."""

    def call(x: Any, y: Any) -> Any:
        try:
            torch._dynamo.graph_break()
            return SQUARED(x, y) + TOTAL(x)
        finally:
            y.add_(1)

    x, y = torch.arange(3.0, device=place), torch.ones(3, device=place)
    found = torch.compile(call, backend="eager")(x, y)
    assert found.tolist() == [4.0, 3.0, 4.0] and y.tolist() == [2.0] * 3


def test_layouts(place: str) -> None:
    compiled = torch.compile(lambda x, y: SQUARED(x, y), backend="eager")
    x = torch.rand(2, 3, 4, 5, device=place)
    last = x.to(memory_format=torch.channels_last)
    for one, other in ((last, x), (last, last), (x[..., ::2], x[..., 2:]), (x.mT, last.mT)):
        found, expected = compiled(one, other), (one - other) ** 2
        assert found.stride() == SQUARED(one, other).stride()
        torch.testing.assert_close(found, expected)


def test_modules(place: str) -> None:
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kernel = SQUARED
            self.weights = torch.nn.Parameter(torch.full((4,), 3.0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                scale = self.kernel(x, self.weights)
            return scale * self.weights

    layer, x = Layer().to(place), torch.arange(4.0, device=place)
    torch.compile(layer, backend="eager")(x).sum().backward()
    np.testing.assert_array_equal(kspec.asnumpy(layer.weights.grad), (np.arange(4) - 3) ** 2)


def test_errors_are_those_of_the_call(place: str) -> None:
    compiled = torch.compile(lambda x, y: SQUARED(x * 1, y), backend="eager")
    x = torch.ones(4, device=place)
    with pytest.raises(kspec.ShapeError, match=r"shapes \(4,\) \(3,\)"):
        compiled(x, x[:3])
    with pytest.raises(kspec.ArgumentTypeError, match="the tensor requires grad, and a plain call"):
        compiled(x.clone().requires_grad_(), x)


def test_in_one_graph_it_is_an_error() -> None:
    """Which leads to operators, where torch shows a reason: 2.6 does not."""
    compiled = torch.compile(lambda x: SQUARED(x, 1), backend="eager", fullgraph=True)
    with pytest.raises(
        torch._dynamo.exc.Unsupported, match=r"kspec\.torch\.register|inline in skip"
    ):
        compiled(torch.ones(3))
