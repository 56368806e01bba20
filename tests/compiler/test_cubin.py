"""The size of each kernel's code in a cubin."""

from __future__ import annotations

import pytest

from kspec.compiler import compile_source
from kspec.compiler.cuda.cubin import code_sizes
from kspec.compiler.cuda.nvrtc import compile_cuda
from kspec.model.stages import CudaSource, Target

SOURCE = CudaSource(
    "f.cu",
    """
    template <class T> __global__ void f(T* x) { x[threadIdx.x] *= 2; }
    extern "C" __global__ void large(float* x) {
      for (int i = 0; i < 1000; ++i) x[i] = sinf(x[i]) * cosf(x[i]) + x[i + 1];
    }
    """,
    ("f<float>", "f<double>", "large"),
)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_90a", "sm_100", "sm_120"])
def test_each_kernel(arch: str) -> None:
    image = compile_source(SOURCE, Target(arch))
    sizes = code_sizes(image.code)
    assert set(sizes) >= set(image.symbols.values())
    figures = {name: one.code_bytes for name, one in image.figures.items()}
    assert figures == {name: sizes[symbol] for name, symbol in image.symbols.items()}
    assert 0 < figures["f<float>"] < figures["large"] < len(image.code)
    assert all(size % 16 == 0 for size in sizes.values()), "instructions"


def test_kernels_without_name_expressions() -> None:
    source = CudaSource("f.cu", 'extern "C" __global__ void f(float* x) { *x = 1; }')
    assert compile_source(source, Target("sm_90")).figures["f"].code_bytes > 0


def test_ptx_has_none() -> None:
    image = compile_source(SOURCE, Target("compute_80"))
    assert not image.figures and code_sizes(image.code) == {}


def test_any_bytes() -> None:
    """Nothing is read beyond the end."""
    code = compile_cuda(SOURCE, Target("sm_90")).code
    for end in range(0, len(code), 11):
        assert isinstance(code_sizes(code[:end]), dict)
    for place in range(len(code[:64])):
        damaged = bytearray(code)
        damaged[place] ^= 0xFF
        assert isinstance(code_sizes(bytes(damaged)), dict)
    assert code_sizes(b"") == {}
