"""The host device on aarch64: cross-built by the ziglang wheel, run by qemu.

A processor of another kind has another context switch, other signal frames and other arithmetic.
The images are made as on such a machine. ``driver.c`` launches their kernels as `kspec.host` does,
and this file checks the bytes that they leave.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from kspec.host.runtime import NativeOptions
from tests.projects import ROOT, environment

LIBRARIES = Path("/usr/aarch64-linux-gnu")  # of Debian's libc6-arm64-cross
QEMU = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
TARGET = ("-target", "aarch64-linux-gnu")
# zig looks for C headers of a foreign system only where it links a libc, which images need not.
HEADERS = ("aarch64-linux-gnu", "generic-glibc", "aarch64-linux-any", "any-linux-any")

BUILD = """
import json, platform, sys
from pathlib import Path
platform.machine = lambda: "aarch64"
from kspec.compiler.host.compile import compile_host
from kspec.host.shared_objects import built_runtime
from kspec.model.stages import CudaSource
folder = Path(sys.argv[1])
(folder / "runtime.so").write_bytes(built_runtime())
source = CudaSource("test.cu", (folder / "test.cu").read_text())
image = compile_host(source)
(folder / "module.so").write_bytes(image.code)
# Compiled only: qemu before 8 takes hours to reserve the shadow memory.
compile_host(source, sanitize=("bounds",))
print(json.dumps(dict(image.symbols)))
"""

TEXT = r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#define KERNEL(NAME) extern "C" __global__ void NAME(unsigned char* data, long long bytes)
KERNEL(sum) {
  double* x = (double*)data;
  __shared__ double s[8];
  double a = x[threadIdx.x], b = a * 2, c = a * 3, d = a * 5, e = a * 7;
  for (int k = 16; k; k >>= 1) {
    a += __shfl_down_sync(~0u, a, k);
    __syncthreads();
    b += a * 0, c += a * 0, d += a * 0, e += a * 0;
  }
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = a;
  __syncthreads();
  if (threadIdx.x < 8) {
    a = s[threadIdx.x];
    for (int k = 4; k; k >>= 1) a += __shfl_down_sync(0xff, a, k);
  }
  __syncthreads();
  x[threadIdx.x] = threadIdx.x ? b + c + d + e : a;
}
KERNEL(halves) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x, n = bytes / 16;
  if (i >= n) return;
  unsigned long long* words = (unsigned long long*)data;
  float wide = ((float*)&words[2 * i])[0], other = ((float*)&words[2 * i])[1];
  __half h = __float2half(wide), g = __float2half(other);
  __nv_bfloat16 b = __float2bfloat16(wide);
  unsigned short out[4] = {0, 0, 0, 0};
  memcpy(&out[0], &h, 2);
  memcpy(&out[1], &b, 2);
  __half sum = __hadd(h, g);
  memcpy(&out[2], &sum, 2);
  float back = __half2float(h);
  __half again = __float2half(back);
  memcpy(&out[3], &again, 2);
  memcpy(&words[2 * i + 1], out, 8);
}
KERNEL(atomics) {
  int* x = (int*)data;
  atomicAdd(&x[0], 1);
  atomicMax(&x[1], (int)(blockIdx.x * blockDim.x + threadIdx.x));
  atomicAdd((float*)&x[2], 0.5f);
  atomicAdd((unsigned long long*)&x[4], 1ull << 33);
  atomicAdd((double*)&x[6], 0.25);
  while (atomicCAS(&x[8], 0, 1)) __nanosleep(10);
  ((volatile int*)x)[9] += 1;
  __threadfence();
  atomicExch(&x[8], 0);
}
KERNEL(roundings) {
  float* x = (float*)data;
  x[2] = __fadd_ru(x[0], x[1]);
  x[3] = __fadd_rd(x[0], x[1]);
  x[4] = __fadd_rz(-x[0], -x[1]);
  x[5] = __fadd_rn(x[0], x[1]);
  x[6] = (float)(signed char)(char)200 + (float)(char)200;
}
KERNEL(diverge) {
  if (threadIdx.x < 32) __syncthreads(); else __syncthreads();
}
KERNEL(overrun) { data[bytes + 100] = 1; }
KERNEL(divide) { ((int*)data)[1] = 7 / ((int*)data)[0]; }
KERNEL(deep) {
  volatile char room[3000000];
  for (int k = 0; k < 3000000; k += 512) room[k] = 1;
  data[0] = room[0];
}
KERNEL(spin) { while (!((volatile unsigned char*)data)[0]) ; }
KERNEL(stop) { if (threadIdx.x == 3) __trap(); }
"""


pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Cross:
    """Images for aarch64, and what runs their kernels."""

    folder: Path
    symbols: dict[str, str]

    def run(
        self, kernel: str, blocks: int, threads: int, data: np.ndarray, timeout: float = 0
    ) -> tuple[np.ndarray, str]:
        """Return the array that a kernel leaves, and its fault."""
        (self.folder / "data").write_bytes(data.tobytes())
        command = [str(QEMU), "-L", str(LIBRARIES), "driver", "./runtime.so", "./module.so"]
        command += [self.symbols[kernel], str(blocks), str(threads), str(timeout), "data"]
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
        left = np.frombuffer((self.folder / "data").read_bytes(), data.dtype)
        return left.reshape(data.shape), done.stdout


@pytest.fixture(scope="module")
def cross(tmp_path_factory: pytest.TempPathFactory) -> Cross:
    ziglang = pytest.importorskip("ziglang", reason="no ziglang wheel to cross-build with")
    if QEMU is None or not LIBRARIES.is_dir():
        pytest.skip("no qemu-user-static or no libc6-arm64-cross to run aarch64 with")
    place = Path(ziglang.__file__).parent
    zig = str(place / "zig")
    headers = [f"-isystem {place / 'lib/libc/include' / name}" for name in HEADERS]
    folder = tmp_path_factory.mktemp("aarch64")
    (folder / "test.cu").write_text(TEXT)
    variables = {
        **environment(ROOT),
        "KSPEC_CXX": " ".join((zig, "c++", *TARGET, *headers)),
        "KSPEC_CACHE_DIR": str(folder / "cache"),
    }
    options = f"-DOPTIONS_BYTES={ctypes.sizeof(NativeOptions)}"
    driver = [zig, "cc", *TARGET, "-O1", options, str(Path(__file__).with_name("driver.c"))]
    subprocess.run([*driver, "-o", "driver", "-ldl", "-lm", "-lpthread"], cwd=folder, check=True)
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(folder)],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return Cross(folder, json.loads(done.stdout))


def test_registers_survive_barriers_and_shuffles(cross: Cross) -> None:
    x = np.random.default_rng(1).integers(-99, 99, 256).astype("float64")
    got, fault = cross.run("sum", 1, 256, x)
    assert fault == ""
    assert got[0] == x.sum()
    np.testing.assert_array_equal(got[1:], 17 * x[1:])


def test_small_floats(cross: Cross) -> None:
    codes = np.arange(1 << 16, dtype="uint16").view("float16").astype("float32")
    wide = np.random.default_rng(2).integers(0, 1 << 32, 1 << 16, "uint32").view("float32")
    wide = np.concatenate([codes, wide])
    wide = wide[~np.isnan(wide)]
    rows = np.zeros((len(wide), 2, 2), "float32")
    rows[:, 0, 0], rows[:, 0, 1] = wide, wide[::-1]
    got, fault = cross.run("halves", -(-len(wide) // 256), 256, rows)
    assert fault == ""
    found = got[:, 1].copy().view("uint16").reshape(-1, 4)
    with np.errstate(all="ignore"):
        half = wide.astype("float16")
        total = (half.astype("float32") + half[::-1].astype("float32")).astype("float16")
    ml_dtypes = pytest.importorskip("ml_dtypes")
    np.testing.assert_array_equal(found[:, 0], half.view("uint16"))
    np.testing.assert_array_equal(found[:, 3], half.view("uint16"))
    np.testing.assert_array_equal(found[:, 2].view("float16"), total)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found[:, 1], wide.astype(ml_dtypes.bfloat16).view("uint16"))


def test_atomics(cross: Cross) -> None:
    got, fault = cross.run("atomics", 40, 64, np.zeros(10, "int32"))
    assert fault == ""
    assert list(got[[0, 1, 9]]) == [2560, 2559, 2560]
    assert got[2:4].view("float32")[0] == 1280
    assert got[4:6].view("uint64")[0] == 2560 << 33
    assert got[6:8].view("float64")[0] == 640


def test_roundings_and_signs(cross: Cross) -> None:
    one, little = np.float32(1), np.float32(1e-9)
    x = np.array([one, little, 0, 0, 0, 0, 0], "float32")
    got, fault = cross.run("roundings", 1, 1, x)
    assert fault == ""
    assert list(got[2:]) == [np.nextafter(one, np.float32(2)), 1, -1, 1, -112]


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("diverge", "barrier-divergence: no thread of block (0,0,0) can make progress"),
        ("overrun", "illegal-address: access at "),
        ("deep", "stack-overflow: a thread used more than 1024 KiB of stack"),
        ("stop", "trap: "),
        ("spin", "timeout: the kernel did not finish in time; it was running"),
    ],
)
def test_faults(cross: Cross, kernel: str, message: str) -> None:
    timeout = 0.5 if kernel == "spin" else 0
    _, fault = cross.run(kernel, 1, 64, np.zeros(4096, "uint8"), timeout)
    assert fault.startswith(message)


def test_a_division_by_zero_is_no_fault(cross: Cross) -> None:
    """The processor's result is 0, and nothing looks at divisors (docs/host-device.md)."""
    got, fault = cross.run("divide", 1, 64, np.array([0, 9], "int32"))
    assert fault == "" and list(got) == [0, 0]
