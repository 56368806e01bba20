"""What kernels of the host device share with their process: output, rounding modes, clocks."""

from __future__ import annotations

import ctypes
import io
import os
import subprocess
import sys
import textwrap
import threading
from typing import Any

import numpy as np
import pytest

import kspec
from kspec import config
from kspec.errors import CheckOptionError

TEXT = """
#include <stdio.h>
extern "C" int fesetround(int);
extern "C" int fegetround();
extern "C" __global__ void say(int from, int count) {
    for (int i = from; i < from + count; i++) printf("line %07d of some length\\n", i);
}
extern "C" __global__ void say_much() { printf("%0*d\\n", 3000, 7); }
extern "C" __global__ void round_up(double* x, int mode) {
    fesetround(mode);
    x[blockIdx.x] = 1.0;
}
extern "C" __global__ void third(volatile double* x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = x[i] / 3.0;
}
extern "C" __global__ void fail_rounding_up(double* x, int mode) {
    fesetround(mode);
    x[1 << 20] = 1.0;
}
extern "C" __global__ void stuck(float* x) {
    __shared__ float s[2];
    if (threadIdx.x < 7) __syncthreads();
    else if (threadIdx.x < 700) { __syncthreads(); x[0] = s[0]; }
}
extern "C" __global__ void racy(int* x) {
    __shared__ int s[2];
    s[0] = threadIdx.x;
    x[threadIdx.x] = s[0];
}
extern "C" __global__ void forever(volatile int* x) { while (!x[0]) x[1]++; }
"""
UPWARD = {"x86_64": 0x800, "aarch64": 0x400000}.get(os.uname().machine, 0)
LINE = len("line 0000000 of some length\n")


@pytest.fixture(scope="module")
def module() -> kspec.RawModule:
    return kspec.RawModule(code=TEXT)


@pytest.fixture
def rounding() -> Any:
    """The functions of C that change how this thread rounds."""
    library = ctypes.CDLL("libm.so.6")
    before = library.fegetround()
    yield library
    library.fesetround(before)


def test_printf_keeps_the_last_mebibyte(
    module: kspec.RawModule, capsys: pytest.CaptureFixture[str]
) -> None:
    count = 60_000  # 1.6 MiB
    module.get_function("say")((1,), (1,), (0, count))
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert (1 << 20) - 2 * LINE < len(text) <= 1 << 20
    first = count - len(lines)
    assert lines == [f"line {i:07} of some length" for i in range(first, count)]
    module.get_function("say")((1,), (1,), (5, 2))
    assert capsys.readouterr().out.splitlines() == [
        "line 0000005 of some length",
        "line 0000006 of some length",
    ]


def test_printf_from_many_blocks(
    module: kspec.RawModule, capsys: pytest.CaptureFixture[str]
) -> None:
    module.get_function("say")((64,), (32,), (0, 40))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == (1 << 20) // LINE
    assert set(lines) <= {f"line {i:07} of some length" for i in range(40)}


@pytest.mark.parametrize("size", [0, 100, 5000, 4 << 20])
def test_the_size_of_the_printf_buffer(size: int) -> None:
    text = f"import kspec\nmodule = kspec.RawModule(code={TEXT!r})\n" + textwrap.dedent("""
        module.get_function("say")((1,), (1,), (0, 60_000))
        module.get_function("say_much")((1,), (1,), ())
    """)
    done = subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"KSPEC_HOST_PRINTF": str(size)},
    )
    assert done.returncode == 0, done.stderr
    said = [f"line {i:07} of some length" for i in range(60_000)]
    lines = done.stdout.splitlines()
    if size < 3001:
        assert set(lines[-1:]) <= {"0" * (size - 2) + "7"}
        lines, size = lines[:-1], min(size, 100)
    else:
        assert lines.pop() == "7".rjust(3000, "0")
    kept = min(60_000, size // LINE)
    assert lines == said[60_000 - kept :]


def test_a_printf_buffer_that_is_no_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSPEC_HOST_PRINTF", "much")
    with pytest.raises(kspec.KspecError, match=r"KSPEC_HOST_PRINTF='much': expected"):
        config.host_printf_size()


def test_printf_without_a_console(module: kspec.RawModule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    module.get_function("say")((1,), (1,), (0, 3))


def test_a_fault_is_not_lost_with_the_output(
    module: kspec.RawModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = io.StringIO()
    closed.close()
    code = 'extern "C" __global__ void f(int* x) { printf("x"); x[1 << 20] = 1; }'
    monkeypatch.setattr(sys, "stdout", closed)
    with pytest.raises(kspec.HostFault, match="illegal-address"):
        kspec.RawKernel(code, "f")((1,), (1,), (np.zeros(1, np.int32),))
    with pytest.raises(ValueError, match="closed file"):
        module.get_function("say")((1,), (1,), (0, 1))


@pytest.mark.skipif(not UPWARD, reason="another processor's figures")
@pytest.mark.parametrize("blocks", [1, 8])
@pytest.mark.parametrize("sanitize", [None, "race"])
def test_rounding_modes_do_not_outlive_a_launch(
    module: kspec.RawModule, rounding: Any, blocks: int, sanitize: str | None
) -> None:
    kernel, third = module.get_function("round_up"), module.get_function("third")
    kernel((blocks,), (1,), (np.zeros(blocks), UPWARD), sanitize=sanitize)
    assert rounding.fegetround() == 0
    x = np.ones(64 * blocks)
    third((blocks,), (64,), (x,), sanitize=sanitize)
    assert (x == 1.0 / 3.0).all()
    with pytest.raises(kspec.HostFault, match="illegal-address"):
        module.get_function("fail_rounding_up")((blocks,), (1,), (x, UPWARD), sanitize=sanitize)
    assert rounding.fegetround() == 0


@pytest.mark.skipif(not UPWARD, reason="another processor's figures")
@pytest.mark.parametrize("blocks", [1, 8])
def test_a_launch_under_another_rounding_mode(
    module: kspec.RawModule, rounding: Any, blocks: int
) -> None:
    x, third = np.ones(64 * blocks), 1.0 / 3.0
    try:
        rounding.fesetround(UPWARD)
        module.get_function("third")((blocks,), (64,), (x,))
        after = rounding.fegetround()
    finally:
        rounding.fesetround(0)
    assert after == UPWARD
    assert (x == third).all()


@pytest.mark.parametrize("timeout", [float("inf"), 1e10, 1e19, 1e300, 10**400, 2**63])
def test_timeouts_that_never_come(module: kspec.RawModule, timeout: float) -> None:
    x = np.ones(64)
    module.get_function("third")((1,), (64,), (x,), timeout=timeout)
    assert (x == 1.0 / 3.0).all()
    with kspec.checking(timeout=timeout):
        module.get_function("third")((4,), (16,), (x,))
    assert (x == 1.0 / 3.0 / 3.0).all()


def test_a_timeout_that_never_comes_by_the_environment(
    module: kspec.RawModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSPEC_HOST_TIMEOUT", "inf")
    x = np.ones(64)
    module.get_function("third")((1,), (64,), (x,))
    assert (x == 1.0 / 3.0).all()


@pytest.mark.parametrize("timeout", [1e-300, 1e-9, np.float32(0.01), np.int64(1)])
def test_timeouts_that_come_soon(module: kspec.RawModule, timeout: Any) -> None:
    with pytest.raises(kspec.HostFault) as caught:
        module.get_function("forever")((1,), (1,), (np.zeros(2, np.int32),), timeout=timeout)
    assert caught.value.kind == "timeout"


@pytest.mark.parametrize("timeout", [float("nan"), float("-inf"), 0, -1, "1", True, 1j])
def test_timeouts_that_are_none(module: kspec.RawModule, timeout: Any) -> None:
    with pytest.raises(CheckOptionError, match="must be a positive number of seconds"):
        module.get_function("third")((1,), (64,), (np.ones(64),), timeout=timeout)


def test_all_kinds_of_launches_in_a_thread_with_a_small_stack(module: kspec.RawModule) -> None:
    results: list[Any] = []
    numbers = np.zeros(1024, np.int32)

    def fault(name: str, threads: int, **options: Any) -> None:
        try:
            module.get_function(name)((2,), (threads,), (numbers,), **options)
        except kspec.HostFault as error:
            results.append(error.kind)

    def work() -> None:
        fault("stuck", 1024)
        fault("forever", 1, timeout=0.05)
        fault("racy", 64, sanitize="race")
        code = """
        #include <cooperative_groups.h>
        extern "C" __global__ void rounds(int* x) {
            x[blockIdx.x] = 1;
            cooperative_groups::this_grid().sync();
            if (!blockIdx.x && !threadIdx.x) for (int k = 1; k < gridDim.x; k++) x[0] += x[k];
        }
        """
        x = np.zeros(9, np.int32)
        kernel = kspec.RawKernel(code, "rounds", enable_cooperative_groups=True)
        kernel((9,), (32,), (x,))
        results.append(int(x[0]))
        more = kspec.ElementwiseKernel("T x", "T y", "y = x + 1", "one_more_on_a_small_stack")
        results.append(more(np.arange(2.0)).tolist())

    before = threading.stack_size(64 * 1024)
    try:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert results == ["barrier-divergence", "timeout", "race", 9, [1.0, 2.0]]
