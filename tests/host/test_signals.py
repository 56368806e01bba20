"""Signals while kernels run: whose handlers are called, what they may do, what they stop."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.host.conftest import held_compiler

PRELUDE = textwrap.dedent("""
    import asyncio, ctypes, os, signal, threading, time
    import numpy as np, kspec

    TEXT = '''
    extern "C" __global__ void add(int* x, int a) { x[blockIdx.x * blockDim.x + threadIdx.x] += a; }
    extern "C" __global__ void wait(volatile int* flags) {
        flags[1] = 1;
        while (!flags[0]) flags[2]++;
        flags[3] = 1;
    }
    '''
    module = kspec.RawModule(code=TEXT)
    add, wait = module.get_function("add"), module.get_function("wait")
    flags = np.zeros(4, np.int32)
    calls = []

    def check():
        x = np.zeros(256, np.int32)
        add((4,), (64,), (x, 3))
        assert (x == 3).all()

    def send(*numbers):
        def main():
            for number in numbers:
                while not flags[1]:
                    time.sleep(0.001)
                flags[1] = 0
                time.sleep(0.02)
                os.kill(os.getpid(), number)
        threading.Thread(target=main).start()

    check()
    signal.alarm(60)
""")


def run_signalled(text: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"KSPEC_HOST_THREADS": "2"} | variables,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("grid", [1, 3])
def test_a_handler_of_ones_own_that_raises(grid: int) -> None:
    run_signalled(f"""
        class Stop(Exception):
            pass

        def handler(number, frame):
            assert threading.current_thread() is threading.main_thread()
            calls.append((number, frame is not None))
            raise Stop

        signal.signal(signal.SIGINT, handler)
        check()
        for _ in range(2):
            flags[:] = 0
            send(signal.SIGINT)
            try:
                wait(({grid},), (1,), (flags,))
            except Stop as error:
                assert error.__context__ is None
            else:
                raise AssertionError("the kernel went on")
            assert not flags[3]
            check()
        assert calls == [(signal.SIGINT, True)] * 2
    """)


def test_a_handler_of_ones_own_that_returns() -> None:
    run_signalled("""
        def handler(number, frame):
            calls.append(number)
            flags[0] = len(calls) == 2  # which ends the kernel

        signal.signal(signal.SIGINT, handler)

        def twice():
            for count in (1, 2):
                while not flags[1]:
                    time.sleep(0.001)
                os.kill(os.getpid(), signal.SIGINT)
                while len(calls) < count:
                    time.sleep(0.001)

        threading.Thread(target=twice).start()
        wait((1,), (1,), (flags,))
        assert calls == [signal.SIGINT] * 2 and flags[3] == 1
        check()
    """)


def test_other_handlers_while_a_handler_of_ones_own_is_there() -> None:
    """A launch that waits for one's own handler of SIGINT lets those of other signals run, too."""
    run_signalled("""
        def handler(number, frame):
            raise TimeoutError

        signal.signal(signal.SIGINT, lambda number, frame: None)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        try:
            wait((1,), (1,), (flags,))
        except TimeoutError:
            check()
        else:
            raise AssertionError("the kernel went on")
    """)


def test_faults_and_timeouts_with_a_handler_of_ones_own() -> None:
    run_signalled("""
        signal.signal(signal.SIGINT, lambda number, frame: None)
        for kind, call in (
            ("timeout", lambda: wait((2,), (1,), (flags,), timeout=0.1)),
            ("illegal-address", lambda: add((1,), (5,), (flags, 1))),
        ):
            try:
                call()
            except kspec.HostFault as fault:
                assert fault.kind == kind, fault
                # The kernel may be stopped inside of the runtime, which has no line.
                assert fault.line or kind == "timeout", fault
            else:
                raise AssertionError(kind)
            check()
    """)


@pytest.mark.parametrize("task", ["run(main())", "run(nested())"])
def test_ctrl_c_under_asyncio(task: str) -> None:
    run_signalled(f"""
        async def main():
            try:
                await asyncio.sleep(0)
                wait((2,), (1,), (flags,))
            finally:
                calls.append("finally")

        async def nested():
            await asyncio.gather(main(), asyncio.sleep(10))

        signal.signal(signal.SIGINT, signal.default_int_handler)
        send(signal.SIGINT)
        try:
            asyncio.{task}
        except KeyboardInterrupt:
            assert calls == ["finally"] and not flags[3]
            check()
            asyncio.run(asyncio.sleep(0))
        else:
            raise AssertionError("no KeyboardInterrupt")
    """)


@pytest.mark.parametrize("own", ["default_int_handler", "Handlers.SIG_IGN"])
def test_a_launch_from_a_handler_during_a_launch(own: str) -> None:
    run_signalled(f"""
        def handler(number, frame):
            flags[0] = 1
            check()

        signal.signal(signal.SIGINT, signal.{own})
        signal.signal(signal.SIGUSR1, handler)

        def release():
            while not flags[1]:
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(0.05)
            flags[0] = 1

        threading.Thread(target=release).start()
        try:
            wait((1,), (1,), (flags,))
        except kspec.LaunchError as error:
            assert "a signal handler cannot launch a kernel" in str(error), error
        else:
            raise AssertionError("no LaunchError")
        assert flags[3]
        check()
    """)


def test_a_launch_from_a_handler_of_sigint_during_a_launch() -> None:
    run_signalled("""
        def handler(number, frame):
            other = kspec.RawKernel('extern "C" __global__ void one(int* x) { x[0] = 1; }', "one")
            for call in (check, lambda: other((1,), (1,), (flags,))):
                try:
                    call()
                except kspec.LaunchError as error:
                    calls.append(str(error))
            flags[0] = 1

        signal.signal(signal.SIGINT, handler)
        send(signal.SIGINT)
        wait((1,), (1,), (flags,))
        assert len(calls) == 2 and "a signal handler cannot launch a kernel" in calls[0], calls
        assert flags[3]
        check()
    """)


def test_a_launch_from_a_handler_in_c_during_a_launch() -> None:
    run_signalled("""
        @ctypes.CFUNCTYPE(None, ctypes.c_int)
        def handler(number):
            try:
                check()
            except kspec.LaunchError as error:
                calls.append(str(error))
            flags[0] = 1

        ctypes.CDLL(None).signal(signal.SIGUSR1, handler)
        send(signal.SIGUSR1)
        wait((1,), (1,), (flags,))
        assert len(calls) == 1 and "a signal handler cannot launch a kernel" in calls[0], calls
        assert flags[3]
        check()
    """)


def test_a_launch_from_a_handler_while_the_kernel_is_compiled(tmp_path: Path) -> None:
    compiler, hold, held = held_compiler(tmp_path)
    run_signalled(
        f"""
        from pathlib import Path
        hold, held = Path({str(hold)!r}), Path({str(held)!r})
        kernel = kspec.ElementwiseKernel("T x", "T y", "y = 3 * x", "thrice_in_handlers")
        x = np.arange(4.0)

        def handler(number, frame):
            signal.signal(number, signal.SIG_IGN)
            try:
                kernel(x)
            except kspec.LaunchError as error:
                calls.append(str(error))
            finally:
                hold.unlink()

        def interrupt():
            while not held.exists():
                time.sleep(0.001)
            # Again: Python does not see a signal that comes just before the main thread waits.
            while hold.exists():
                os.kill(os.getpid(), signal.SIGUSR1)
                time.sleep(0.1)

        signal.signal(signal.SIGUSR1, handler)
        hold.touch()
        threading.Thread(target=interrupt).start()
        y = kernel(x)
        assert (y == 3 * x).all()
        assert len(calls) == 1 and "a signal handler cannot launch a kernel" in calls[0], calls
        assert (kernel(x) == y).all()
        """,
        KSPEC_CACHE_DIR=str(tmp_path / "cache"),
        KSPEC_CXX=compiler,
    )


def test_a_fork_in_a_handler_during_a_launch() -> None:
    run_signalled("""
        def handler(number, frame):
            calls.append(os.fork())
            flags[0] = 1

        signal.signal(signal.SIGINT, handler)
        send(signal.SIGINT)
        try:
            wait((1,), (1,), (flags,))
        except kspec.HostFault as fault:
            assert calls == [0] and fault.kind == "forked", fault
            check()
            os._exit(0)
        assert calls[0] and flags[3]
        assert os.waitpid(calls[0], 0)[1] == 0
        check()
    """)
