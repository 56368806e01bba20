"""Every fault: its kind, where it happened, and that the device still works afterwards."""

import ctypes
import os
import signal
import threading

import numpy as np
import pytest

from kspec.errors import HostFault, LaunchError
from kspec.host import locate
from kspec.host.buffers import HostBuffer, check_canaries

from .checked import Checked
from .conftest import Program, buffer_of

TEXT = r"""
extern "C" __global__ void fine(int* x) { x[threadIdx.x] = 1 + threadIdx.x; }
extern "C" __global__ void branches(float* x) {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    x[threadIdx.x] = 1;
    __syncthreads();
  }
}
extern "C" __global__ void shuffle_or_barrier(float* x) {
  if (threadIdx.x < 40) x[0] = __shfl_sync(0xffffffffu, x[1], 0); else __syncthreads();
}
extern "C" __global__ void leave_early(int* x, int n) {
  if (threadIdx.x >= n) return;
  __syncthreads();
  x[threadIdx.x] = threadIdx.x;
}
extern "C" __global__ void store(float* x, int i) {
  if (threadIdx.x == 7)
#line 900 "spec.toml"
    x[i] = 1;
#line 28 "test.cu"
}
extern "C" __global__ void load(float* x, int i) { if (threadIdx.x == 7) x[0] = x[i]; }
extern "C" __global__ void divide(int* x, int d) { x[threadIdx.x] = 5 / d; }
__device__ int recurse(int n) {
  volatile char big[512];
  big[n & 511] = n;
  return n <= 0 ? big[1] : recurse(n - 1) + big[n & 511];
}
extern "C" __global__ void deep(int* x, int n) { x[0] = recurse(n); }
extern "C" __global__ void check(int* x) {
  assert(x[threadIdx.x] == 0);
}
extern "C" __global__ void trap() { if (threadIdx.y == 3) __trap(); }
extern "C" __global__ void mask() { if (threadIdx.x < 8) __shfl_sync(0xf0u, 1, 0); }
extern "C" __global__ void dynamic(float* o) {
  extern __shared__ float s[];
  s[threadIdx.x] = 1;
  __syncthreads();
  o[0] = s[1];
}
extern "C" __global__ void misaligned(float4* o, char* p) { o[0] = *(float4*)(p + 4); }
extern "C" __global__ void too_much_shared(int* o) {
  __shared__ int s[13000];
  s[threadIdx.x] = 1;
  o[0] = s[0];
}
extern "C" __global__ void forever(volatile int* x) { while (*x == 0); }
extern "C" __global__ void forever_at_barrier(volatile int* x) { while (*x == 0) __syncthreads(); }
#line 70 "waits.cu"
extern "C" __global__ void add_forever(int* x) {
  while (true)
    atomicAdd(x, 1);
}
extern "C" __global__ void sleep_forever(int*) {
  while (true)
    __nanosleep(1000);
}
extern "C" __global__ void copy_forever(int* x) {
  while (true)
    memmove(x, x + 1, 4);
}
extern "C" __global__ void call(float* x, float (*f)(float)) {
  x[0] = f(x[1]);
}
"""


@pytest.fixture(scope="module")
def program() -> Program:
    return Program(TEXT)


@pytest.fixture
def floats() -> tuple:
    return buffer_of(np.zeros(100, np.float32))


def fault_of(program: Program, *call: object, **options: object) -> HostFault:
    """Make a call that must fail, and check that the next launch works."""
    with pytest.raises(HostFault) as caught:
        program(*call, **options)
    out = np.zeros(64, np.int32)
    program("fine", 1, 64, out)
    assert (out == np.arange(1, 65)).all()
    assert str(call[0]) in str(caught.value)
    return caught.value


def test_barriers_in_two_branches(program, floats):
    fault = fault_of(program, "branches", 1, 64, floats[0])
    assert fault.kind == "barrier-divergence"
    assert "32 of 64 threads wait in __syncthreads() at test.cu:5 (threads 0 1 2" in fault.message
    assert "32 of 64 threads wait in __syncthreads() at test.cu:8 (threads 32 33" in fault.message


def test_barrier_against_warp_operation(program, floats):
    fault = fault_of(program, "shuffle_or_barrier", 1, 64, floats[0])
    assert fault.kind == "barrier-divergence"
    assert "__shfl_sync (mask 0xffffffff) at test.cu:12" in fault.message


def test_returned_threads_do_not_block_a_barrier(program):
    out = np.zeros(64, np.int32)
    program("leave_early", 1, 64, out, 33)
    assert (out[:33] == np.arange(33)).all()


@pytest.mark.parametrize(
    ("index", "words"),
    [(100, "write at 0 bytes past the end of buffer"), (-1200, "bytes before buffer")],
)
def test_store_outside_a_buffer(program, floats, index, words):
    fault = fault_of(program, "store", (2, 1), 64, floats[0], index)
    assert fault.kind == "illegal-address"
    assert words in fault.message and "(400 bytes)" in fault.message
    assert "at spec.toml:900" in fault.message  # the #line directive counts
    assert "thread (7,0,0)]" in fault.message


def test_load_outside_a_buffer(program, floats):
    fault = fault_of(program, "load", 1, 64, floats[0], 1000)
    assert fault.kind == "illegal-address"
    assert "read at 3600 bytes past the end" in fault.message
    assert "[block (0,0,0) thread (7,0,0)]" in fault.message


def test_null_pointer(program):
    fault = fault_of(program, "store", 1, 64, ctypes.c_void_p(0), 0)
    assert fault.kind == "illegal-address" and "null pointer" in fault.message


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (3, "address 0xc: a null pointer "),
        (5000, "address 0x4e20: 20000 bytes after a null pointer "),
        (-2, "address 0xfffffffffffffff8: 8 bytes before a null pointer "),
        (1 << 19, "address 0x200000, which is in no device buffer "),
    ],
)
def test_offset_from_a_null_pointer(program, index, words):
    fault = fault_of(program, "store", 1, 64, ctypes.c_void_p(0), index)
    assert fault.kind == "illegal-address" and f"write at {words}" in fault.message


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (0, "address 0x0: a null pointer"),
        (24, "address 0x18: a null pointer"),
        (8 << 20, "address 0x800000, where there is none"),
        (1 << 62, "an address that no memory can have"),
        (0x4048F5C3 << 32, "an address that no memory can have"),  # the bits of 3.14
    ],
)
def test_wild_function_pointer(program, floats, function, words):
    fault = fault_of(program, "call", 1, 1, floats[0], ctypes.c_void_p(function))
    assert fault.kind == "illegal-address"
    assert f"call of a function at {words} at waits.cu:83 [" in fault.message


def test_array_in_place_of_a_function(program, floats):
    fault = fault_of(program, "call", 1, 1, floats[0], floats[0])
    assert "call of a function at address 0x" in fault.message
    assert "where there is none at waits.cu:83" in fault.message


def test_store_into_the_slack_of_a_buffer(program):
    buffer, _ = buffer_of(np.zeros(99, np.float32))
    fault = fault_of(program, "store", 1, 64, buffer, 99)
    assert fault.kind == "buffer-overflow" and "(396 bytes) was written" in fault.message
    fault = fault_of(program, "store", 1, 64, buffer, -1)
    assert fault.kind == "buffer-underflow"
    check_canaries()  # repaired: reported once


def test_canaries_can_be_checked_without_a_launch():
    buffer = HostBuffer(3)
    ctypes.memset(buffer.ptr + 3, 0, 1)
    with pytest.raises(HostFault, match="offset 3 of buffer") as caught:
        check_canaries()
    assert caught.value.kind == "buffer-overflow"


def test_integer_division(program):
    fault = fault_of(program, "divide", 1, 64, np.zeros(64, np.int32), 0)
    assert fault.kind == "integer-division" and "at test.cu:30" in fault.message


def test_stack_overflow(program):
    fault = fault_of(program, "deep", 1, 1, np.zeros(1, np.int32), 100_000)
    assert fault.kind == "stack-overflow"


def test_assert(program):
    values = np.zeros(64, np.int32)
    values[5] = 1
    fault = fault_of(program, "check", 3, 64, values)
    assert fault.kind == "assert"
    assert "assertion failed: x[threadIdx.x] == 0 at test.cu:38" in fault.message
    assert "thread (5,0,0)]" in fault.message


def test_trap_in_a_2d_block(program):
    fault = fault_of(program, "trap", (1, 2), (8, 4))
    assert fault.kind == "trap" and "thread (0,3,0)]" in fault.message


def test_calling_lane_outside_its_mask(program):
    fault = fault_of(program, "mask", 1, 32)
    assert fault.kind == "warp-mask"
    assert "the calling lane 0 is not in its mask 0x000000f0 at test.cu:41" in fault.message


def test_dynamic_shared_memory_too_small(program, floats):
    program("dynamic", 1, 64, floats[0], shared_mem=256)
    fault = fault_of(program, "dynamic", 1, 64, floats[0], shared_mem=128)
    assert fault.kind == "illegal-address"
    assert "write at 0 bytes past the end of the 128 bytes of dynamic shared" in fault.message
    assert "at test.cu:44 [block (0,0,0) thread (32,0,0)]" in fault.message


def test_misaligned_vector(program, floats):
    fault = fault_of(program, "misaligned", 1, 1, floats[0], floats[0])
    assert fault.kind == "misaligned-address"
    assert "vector access to a misaligned address" in fault.message


def test_too_much_static_shared_memory(program):
    fault = fault_of(program, "too_much_shared", 1, 32, np.zeros(1, np.int32))
    assert fault.kind == "shared-memory" and "48 KiB" in fault.message


@pytest.mark.parametrize("name", ["forever", "forever_at_barrier"])
@pytest.mark.parametrize("blocks", [1, 8])
def test_timeout(program, name, blocks):
    fault = fault_of(program, name, blocks, 64, np.zeros(1, np.int32), timeout=0.2)
    assert fault.kind == "timeout"


@pytest.mark.parametrize(
    ("name", "line"), [("add_forever", 70), ("sleep_forever", 74), ("copy_forever", 78)]
)
@pytest.mark.parametrize("modes", ["", "memory", "race"])
def test_timeout_in_a_function_of_cuda(name, line, modes):
    program = Checked(TEXT, modes)
    fault_of(program, "divide", 1, 1, np.ones(1, np.int32), 0)  # its place is not that of the next
    fault = fault_of(program, name, 1, 2, np.zeros(2, np.int32), timeout=0.2)
    assert fault.kind == "timeout"
    places = [f"it was running at waits.cu:{line + offset} [" for offset in range(4)]
    assert any(place in fault.message for place in places), fault.message


@pytest.fixture
def interruptible():
    """What runs in the background (`nohup`, CI) may have been told to ignore interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("blocks", [1, 8])
@pytest.mark.usefixtures("interruptible")
def test_interrupt(program, blocks):
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        program("forever", blocks, 64, np.zeros(1, np.int32), timeout=300)
    timer.join()
    out = np.zeros(64, np.int32)
    program("fine", 1, 64, out)
    assert out[63] == 64


@pytest.mark.parametrize(
    ("grid", "block", "shared"),
    [
        ((1,), (1025,), 0),
        ((1,), (32, 33), 0),
        ((1,), (1, 1, 65), 0),
        ((1,), (0,), 0),
        ((0,), (1,), 0),
        ((1, 65536), (1,), 0),
        ((1,), (1,), 227 * 1024 + 1),
    ],
)
def test_impossible_configuration(program, grid, block, shared):
    with pytest.raises(LaunchError, match="fine: "):
        program("fine", grid, block, np.zeros(1, np.int32), shared_mem=shared)


def test_without_symbolizer_block_and_thread_remain(program, floats, monkeypatch):
    monkeypatch.setattr(locate.shutil, "which", lambda name: None)
    fault = fault_of(program, "store", 1, 64, floats[0], 100)
    assert "thread (7,0,0)]" in fault.message and "spec.toml" not in fault.message


def test_faults_from_many_threads(program, floats):
    """Launches from several Python threads are serialized; each gets its own fault."""
    kinds = []

    def one(name: str, *arguments: object) -> None:
        for _ in range(5):
            try:
                program(name, 4, 64, *arguments)
            except HostFault as fault:
                kinds.append((name, fault.kind))

    threads = [
        threading.Thread(target=one, args=("store", floats[0], 100)),
        threading.Thread(target=one, args=("divide", np.zeros(64, np.int32), 0)),
        threading.Thread(target=one, args=("fine", np.zeros(64, np.int32))),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(set(kinds)) == [("divide", "integer-division"), ("store", "illegal-address")]
    assert len(kinds) == 10
