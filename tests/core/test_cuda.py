"""Kernels with core dimensions compile for GPUs, and small items stay in registers."""

from __future__ import annotations

import pytest

import kspec
from kspec.model.stages import Specialization, Target, items
from kspec.pipeline import LazySource
from tests.compiling import compiled, optimized
from tests.core.kernels import CONVOLVE, CROSS, DET, MATMUL, MATVEC, SOLVE, STATISTICS, weighted

__all__ = ["optimized"]
ARCHS = [
    "sm_80",
    *(pytest.param(one, marks=pytest.mark.slow) for one in ("sm_90", "sm_100", "sm_120")),
]
KERNELS = {
    "cross": (CROSS, {}),
    "det": (DET, {}),
    "matvec": (MATVEC, {"n": 3, "m": 3}),
    "matmul": (MATMUL, {"n": 4, "k": 4, "m": 4}),
    "solve": (SOLVE, {"n": 3}),
    "convolve": (CONVOLVE, {"n": 3, "m": 5}),
    "statistics": (STATISTICS, {"n": 8}),
    "large": (MATVEC, {"n": 40, "m": 50}),
    "nothing": (MATVEC, {"n": 0, "m": 3}),
    "tensor": (weighted(4), {"p": 2, "q": 1, "r": 3, "s": 2}),
}


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_they_compile_without_spills(name: str, dtype: str, arch: str) -> None:
    kernel, sizes = KERNELS[name]
    assert _spills(kernel, sizes, dtype, arch) == 0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "bool", "int8", "complex64"])
def test_dtypes(dtype: str) -> None:
    assert _spills(CROSS if dtype != "bool" else REVERSE, {}, dtype, "sm_90") == 0


REVERSE = kspec.ElementwiseKernel(
    "T x[3]", "T y[3]", "for (int j = 0; j < 3; ++j) y(j) = x(2 - j)", "core_reverse_three"
)


@pytest.mark.parametrize("ndim", [1, 9])
def test_layouts(ndim: int) -> None:
    assert _spills(CROSS, {}, "float32", "sm_90", ndim) == 0


def _spills(
    kernel: kspec.ElementwiseKernel, sizes: dict[str, int], dtype: str, arch: str, ndim: int = 1
) -> int:
    """Return the bytes of registers that a kernel spills, and check that it compiles."""
    binding = (("T", dtype),)
    wanted = Specialization(kernel.name, binding, items(ndim), (), tuple(sizes.items()))
    image = compiled(LazySource(kernel.spec)(wanted), Target(arch))
    (figures,) = image.figures.values()
    assert image.log == ""
    assert figures.shared_bytes == 0  # it is dynamic
    return figures.spill_bytes
