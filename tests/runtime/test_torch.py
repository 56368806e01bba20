"""PyTorch tensors in, tensors out: on the CPU, and on torch's current stream of a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kspec

torch = pytest.importorskip("torch")

SQUARED_DIFF = kspec.ElementwiseKernel(
    "T x, T y", "T z", "z = (x - y) * (x - y)", "torch_squared_diff"
)
TOTAL = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "torch_total")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def place(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return str(request.param)


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float32", "float64", "int32", "uint8", "complex64"]
)
def test_the_callers_kind_comes_back(place: str, dtype: str) -> None:
    x = torch.arange(10, device=place).reshape(2, 5).to(getattr(torch, dtype))
    y = torch.arange(5, device=place).to(getattr(torch, dtype))
    z = SQUARED_DIFF(x, y)
    assert isinstance(z, torch.Tensor)
    assert (z.dtype, z.device, tuple(z.shape)) == (x.dtype, x.device, (2, 5))
    assert torch.equal(z, (x - y) * (x - y))
    assert torch.equal(TOTAL(x, axis=1).cpu(), x.cpu().sum(dim=1).to(x.dtype))


def test_views_and_given_outputs(place: str) -> None:
    x = torch.arange(24.0, device=place).reshape(4, 6)
    out = torch.zeros(3, 4, device=place)
    assert SQUARED_DIFF(x.T[::2], x[:, 0], out) is out
    assert torch.equal(out, (x.T[::2] - x[:, 0]) ** 2)


@pytest.mark.gpu
def test_the_current_stream_is_used() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    x = torch.ones(2**24, device="cuda")
    side = torch.cuda.Stream()
    for _ in range(5):
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            x.fill_(3)
            y = SQUARED_DIFF(x, 1)  # waits for fill_ only on the same stream
            x.fill_(1)
        side.synchronize()
        assert bool((y == 4).all())


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda x: x.requires_grad_(), "requires grad"),
        (lambda x: x.to_sparse(), "sparse"),
        (lambda x: torch.conj(x.to(torch.complex64)), "conjugate"),
        (lambda x: x.to(torch.complex32), "Unsupported dtype 'complex32'"),
        (lambda x: x.to("meta"), "the tensor is on meta"),
    ],
)
def test_tensors_that_are_refused(spoil: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        SQUARED_DIFF(spoil(torch.ones(3)), 1)


def test_numpy_and_cpu_tensors_mix() -> None:
    z = SQUARED_DIFF(torch.ones(3), np.zeros(3, np.float32))
    assert isinstance(z, torch.Tensor) and z.tolist() == [1, 1, 1]
