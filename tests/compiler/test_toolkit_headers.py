"""Headers of kspec, the toolkit and cuRAND that raw kernels include, for each architecture."""

from __future__ import annotations

from pathlib import Path

import pytest

from kspec.compiler import headers
from kspec.compiler.cuda.nvrtc import nvrtc_version
from kspec.compiler.headers import toolkit_dirs_for
from kspec.compiler.target import supported_archs
from kspec.errors import CompileError
from kspec.model.stages import CudaSource, Target
from tests.compiling import compiled

ARCHS = [arch for arch in supported_archs() if int(arch[3:]) >= 80]

LIGHT = {
    "cupy/complex.cuh": """
#include <cupy/complex.cuh>
extern "C" __global__ void k(complex<float>* z) {
  thrust::complex<double> w(1, 2);
  z[0] = z[1] * exp(z[2]) + complex<float>(w);
}
""",
    "cuComplex.h": """
#include <cuComplex.h>
extern "C" __global__ void k(cuFloatComplex* z) { z[0] = cuCmulf(z[1], z[2]); }
""",
    "cuda_fp16.h": """
#include <cuda_fp16.h>
extern "C" __global__ void k(__half2* x) { x[0] = __hfma2(x[1], x[2], __float2half2_rn(0.5f)); }
""",
    "cuda_bf16.h": """
#include <cuda_bf16.h>
extern "C" __global__ void k(__nv_bfloat16* x) { x[0] = __hadd(x[1], __float2bfloat16(0.5f)); }
""",
    "cuda_fp8.h": """
#include <cuda_fp8.h>
extern "C" __global__ void k(__nv_fp8_e4m3* x, __nv_fp8_e5m2* y) {
  x[0] = __nv_fp8_e4m3(float(x[1]) * float(y[0]));
}
""",
    "cooperative_groups.h": """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void k(int* x) {
  auto tile = cg::tiled_partition<32>(cg::this_thread_block());
  x[0] = tile.shfl_down(x[1], 1) + tile.any(x[2]);
  cg::this_grid().sync();
}
""",
    "mma.h": """
#include <mma.h>
using namespace nvcuda::wmma;
extern "C" __global__ void k(float* x) {
  fragment<accumulator, 16, 16, 16, float> tile;
  fill_fragment(tile, 1.0f);
  store_matrix_sync(x, tile, 16, mem_row_major);
}
""",
    "cuda_runtime.h": """
#include <cuda_runtime.h>
#include <device_launch_parameters.h>
#include <math_constants.h>
extern "C" __global__ void k(float* x) { x[threadIdx.x] = CUDART_PI_F; }
""",
}
HEAVY = {
    "cub/block": """
#include <cub/block/block_load.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
extern "C" __global__ void k(int* x) {
  typedef cub::BlockReduce<int, 64> Reduce;
  typedef cub::BlockScan<int, 64> Scan;
  __shared__ union { Reduce::TempStorage reduce; Scan::TempStorage scan; } memory;
  int total = Reduce(memory.reduce).Sum(x[threadIdx.x]), before;
  __syncthreads();
  Scan(memory.scan).ExclusiveSum(x[threadIdx.x], before);
  x[threadIdx.x] = before + total;
}
""",
    "cuda/atomic": """
#include <cuda/atomic>
extern "C" __global__ void k(unsigned* x) {
  cuda::atomic_ref<unsigned, cuda::thread_scope_device>(x[0]).fetch_add(1);
}
""",
    "curand_kernel.h": """
#include <curand_kernel.h>
extern "C" __global__ void k(float* x, unsigned long long seed) {
  curandStatePhilox4_32_10_t state;
  curand_init(seed, threadIdx.x, 0, &state);
  x[threadIdx.x] = curand_uniform(&state) + curand_normal(&state);
}
""",
}


def compile_for(text: str, arch: str) -> None:
    image = compiled(CudaSource("k.cu", text), Target(arch))
    assert image.code[:4] == b"\x7fELF"
    assert image.figures["k"].registers > 0


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", LIGHT)
def test_each_architecture(name: str, arch: str) -> None:
    if name == "mma.h" and nvrtc_version()[0] < 13:
        pytest.skip("CUDA 12 has half of mma.h in the wheel of nvcc")
    compile_for(LIGHT[name], arch)


@pytest.mark.parametrize("name", HEAVY)
def test_what_takes_long(name: str) -> None:
    source = CudaSource("k.cu", HEAVY[name])
    if not toolkit_dirs_for(source, nvrtc_version()):
        pytest.skip(f"{name} is not installed")
    compile_for(HEAVY[name], "sm_90")


def test_a_library_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headers, "find_headers", lambda library: None)
    with pytest.raises(CompileError, match=r'"curand_kernel\.h" .*pip install nvidia-curand'):
        compile_for(HEAVY["curand_kernel.h"], "sm_90")


def test_a_library_with_a_directory_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cuda, curand = tmp_path / "cuda", tmp_path / "curand"
    for directory, name in ((cuda, "cuda_runtime_api.h"), (curand, "curand_kernel.h")):
        directory.mkdir()
        (directory / name).write_text("#define CUDART_VERSION 12090\n")
    places = {"cudart": cuda, "curand": curand}
    monkeypatch.setattr(headers, "find_headers", places.get)
    source = CudaSource("k.cu", HEAVY["curand_kernel.h"])
    assert toolkit_dirs_for(source, (12, 9)) == (cuda, curand)
    assert toolkit_dirs_for(CudaSource("k.cu", "#include <cuda_fp16.h>"), (12, 9)) == ()
