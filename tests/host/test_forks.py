"""Forked processes run kernels, whatever the parent's threads were doing."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from kspec.locks import OnceMap, make_lock
from tests.host.conftest import held_compiler

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

PRELUDE = textwrap.dedent("""
    import multiprocessing, os, signal, threading, time, warnings
    import numpy as np, kspec
    warnings.filterwarnings("ignore", ".*fork")  # of Python 3.12: we know

    TEXT = '''
    extern "C" __global__ void add(int* x, int n, int a) {
        __shared__ int tile[64];
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        tile[threadIdx.x] = i < n ? x[i] : 0;
        __syncthreads();
        if (i < n) x[i] = tile[threadIdx.x] + a;
    }
    extern "C" __global__ void wait(volatile int* flags, int* x, int n) {
        int mine[8];
        for (int i = 0; i < 8; i++) mine[i] = i;
        flags[blockIdx.x + 1] = 1;
        while (!flags[0]) mine[flags[1]]++;
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) x[i] = i;
    }
    '''
    module = kspec.RawModule(code=TEXT)
    add, wait = module.get_function("add"), module.get_function("wait")

    def launches(count):
        x = np.zeros(1000, np.int32)
        for k in range(count):
            add((16,), (64,), (x, 1000, k))
        assert (x == sum(range(count))).all(), x
        try:
            add((16,), (64,), (x, 1001, 1))
        except kspec.HostFault as fault:
            assert fault.kind == "illegal-address" and fault.line, fault
        else:
            raise AssertionError("no fault")

    def fork(work):
        child = os.fork()
        if not child:
            signal.alarm(60)
            try:
                work()
            except BaseException:
                __import__("traceback").print_exc()
                os._exit(1)
            os._exit(0)
        return child

    def join(child):
        status = os.waitpid(child, 0)[1]
        assert status == 0, f"the child ended with status {status:#x}"
""")


def run_forking(text: str, threads: int = 3, **variables: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "KSPEC_HOST_THREADS": str(threads), **variables},
    )
    assert done.returncode == 0, done.stderr


def test_twenty_launches_in_each_of_eight_children() -> None:
    run_forking("""
        launches(3)
        context = multiprocessing.get_context("fork")
        for _ in range(2):
            children = [context.Process(target=launches, args=(20,)) for _ in range(4)]
            for child in children:
                child.start()
            launches(20)
            for child in children:
                child.join(60)
                assert child.exitcode == 0, child.exitcode
    """)


def test_children_of_children() -> None:
    run_forking("""
        def descend(depth):
            launches(2)
            if depth:
                join(fork(lambda: descend(depth - 1)))
                launches(2)

        descend(4)
    """)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_fork_during_a_launch_of_another_thread(threads: int) -> None:
    run_forking(
        """
        launches(1)
        flags, x = np.zeros(3, np.int32), np.zeros(128, np.int32)
        thread = threading.Thread(target=wait, args=((2,), (64,), (flags, x, 128)))
        thread.start()
        while not flags[1]:
            time.sleep(0.001)
        before = flags.copy()
        for _ in range(2):
            join(fork(lambda: (launches(5), launches(5))))
        assert x.sum() == 0 and thread.is_alive()
        flags[0] = 1
        thread.join()
        assert (x == np.arange(128)).all()
        launches(5)
        """,
        threads,
    )


def test_ctrl_c_in_a_child_of_a_launch_that_took_it() -> None:
    """The parent's launch handles SIGINT and faults; its children do so as Python does."""
    run_forking("""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        flags, x = np.zeros(3, np.int32), np.zeros(128, np.int32)

        def interrupted():
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(5)
            except KeyboardInterrupt:
                return launches(2)
            raise AssertionError("no KeyboardInterrupt")

        def from_another_thread():
            while not flags[1]:
                time.sleep(0.001)
            try:
                join(fork(lambda: (signal.default_int_handler, launches(2))))
                children.append(fork(lambda: os.kill(os.getpid(), signal.SIGSEGV)))
            finally:
                flags[0] = 1

        children = []
        thread = threading.Thread(target=from_another_thread)
        thread.start()
        wait((2,), (64,), (flags, x, 128))
        thread.join()
        status = os.waitpid(children[0], 0)[1]
        assert os.WTERMSIG(status) == signal.SIGSEGV, status
        join(fork(interrupted))
    """)


def test_forks_during_many_short_launches() -> None:
    run_forking("""
        launches(1)  # imports what it needs: Python's locks of modules stay closed in a child
        kspec.zeros(10, device="host")
        done = threading.Event()

        def work():
            while not done.is_set():
                launches(2)
                kspec.zeros(10, device="host")

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(10):
            join(fork(lambda: launches(3)))
            time.sleep(0.01)
        done.set()
        for thread in threads:
            thread.join()
        launches(3)
    """)


def test_a_fork_while_another_thread_compiles(tmp_path: Path) -> None:
    compiler, hold, held = held_compiler(tmp_path)
    run_forking(
        f"""
        from pathlib import Path
        hold, held = Path({str(hold)!r}), Path({str(held)!r})
        launches(1)
        hold.touch()
        twice = kspec.ElementwiseKernel("T x", "T y", "y = 2 * x", "twice_in_forks")
        x = np.arange(9.0)
        results = []
        thread = threading.Thread(target=lambda: results.append(twice(x)))
        thread.start()
        while not held.exists():
            time.sleep(0.01)

        def work():
            launches(2)
            hold.unlink()
            assert (twice(x) == 2 * x).all()

        join(fork(work))
        thread.join()
        assert (results[0] == 2 * x).all() and (twice(x) == 2 * x).all()
        """,
        KSPEC_CXX=compiler,
        KSPEC_CACHE_DIR=str(tmp_path / "cache"),
    )


@pytest.mark.filterwarnings("ignore:.*fork")  # of Python 3.12 and of JAX: we know
def test_locks_of_another_thread_are_open_in_a_child() -> None:
    locks = [make_lock(), make_lock()]
    made: OnceMap[int, int] = OnceMap()
    held, done = threading.Event(), threading.Event()

    def make() -> int:
        held.set()
        done.wait()
        return 1

    def hold() -> None:
        with locks[0], locks[1]:
            made.get_or_make(0, make)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        free = all(lock.acquire(timeout=1) for lock in locks)
        os._exit(0 if free and made.get_or_make(0, lambda: 2) == 2 else 1)
    status = os.waitpid(child, 0)[1]
    taken = not any(lock.acquire(blocking=False) for lock in locks)
    done.set()
    thread.join()
    assert status == 0 and taken and made.get(0) == 1


def test_a_daemon_that_has_closed_all_files() -> None:
    """Its next files have the numbers of those that the runtime had opened."""
    run_forking("""
        import tempfile
        put = kspec.RawKernel(
            'extern "C" __global__ void put(char* x, long long i) { x[i] = 1; }', "put"
        )
        memory, x = np.zeros(1 << 25, np.uint8), np.zeros(40, np.uint8)
        away = memory.ctypes.data - x.ctypes.data
        put((1,), (1,), (x, 1))

        def work():
            os.closerange(3, 256)
            files = [tempfile.TemporaryFile(buffering=0) for _ in range(32)]
            for file in files:
                file.write(bytes(1 << 16))
            for index in range(0, 1 << 25, 1 << 20):
                try:
                    put((1,), (1,), (x, away + index))
                except kspec.HostFault as fault:
                    assert fault.kind == "illegal-address" and fault.line, fault
                else:
                    raise AssertionError(index)
            assert memory.sum() == 0
            launches(3)

        join(fork(work))
    """)
