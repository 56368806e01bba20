"""How checks are asked for: per call, per kernel, in a block, by environment; and what they leave."""

from __future__ import annotations

import resource
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.errors import ArgumentTypeError, CheckOptionError, HostFault, KspecError
from kspec.model.checks import Checks, checking, current_checks, parse_checks, resolve_checks
from kspec.model.stages import RawSymbol, Target
from kspec.runtime.arguments.checks import checks_of_call
from kspec.runtime.driver.device import HOST, Device
from kspec.runtime.driver.launch import LaunchOptions
from tests.host.checked import Checked

CODE = r"""
__device__ int launches;
extern "C" __global__ void overrun(float* x, int n) {
  if (threadIdx.x == 0) launches++;
  if (threadIdx.x < n) x[threadIdx.x] = 1;
}
extern "C" __global__ void racy(float* x, int n) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  x[threadIdx.x] = s[threadIdx.x ^ 32];
}
extern "C" __global__ void forever(volatile float* x, int n) { while (*x == 0); }
"""
MODULE = kspec.RawModule(code=CODE)


@pytest.fixture
def floats() -> np.ndarray:
    return np.zeros(64, np.float32)


def kernel(name: str) -> kspec.RawKernel:
    return MODULE.get_function(name)


class TestChecks:
    def test_values(self) -> None:
        checks = Checks("race, memory", order="random:7", timeout=1)
        assert checks == Checks(["memory", "race"], "random:7", 1.0)
        assert checks.sanitize == ("memory", "race") and checks.timeout == 1.0
        assert Checks() == parse_checks() == parse_checks("", "forward")
        assert hash(checks) == hash(Checks("memory,race", "random:7", 1))

    @pytest.mark.parametrize(
        ("values", "words"),
        [
            (
                {"sanitize": "races"},
                "'races' is not a checking mode; give some of init, memory, race",
            ),
            ({"order": "backward"}, "order='backward' is not an order; give 'forward', 'reverse'"),
            ({"order": "random"}, "'random:SEED' with an integer"),
            ({"order": "random:x"}, "'random:SEED' with an integer"),
            ({"timeout": 0}, "timeout=0 must be a positive number"),
            ({"timeout": "1"}, "timeout='1' must be a positive number"),
            ({"timeout": float("nan")}, "must be a positive number"),
        ],
    )
    def test_bad_values(self, values: dict[str, Any], words: str) -> None:
        with pytest.raises(ValueError, match=words) as caught:
            Checks(**values)
        assert isinstance(caught.value, KspecError) and isinstance(caught.value, CheckOptionError)

    def test_target(self) -> None:
        assert str(Target("host", ("memory", "race"))) == "host+memory+race"
        assert str(Target("host")) == "host" and Target("host", ("race",)).is_host


class TestPrecedence:
    def test_call_over_kernel_over_block_over_environment(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("KSPEC_HOST_SANITIZE", "init")
        monkeypatch.setenv("KSPEC_HOST_ORDER", "reverse")
        monkeypatch.setenv("KSPEC_HOST_TIMEOUT", "2.5")
        assert current_checks() == Checks("init", "reverse", 2.5)
        with checking("memory") as checks:
            assert current_checks() is checks
            with checking("race", order="random:1", timeout=3):
                assert current_checks() == Checks("race", "random:1", 3)
            assert resolve_checks(None, None, None, None) == Checks("memory")
            assert resolve_checks(Checks("undefined"), None, None, None) == Checks("undefined")
            assert resolve_checks(Checks("undefined"), "race", None, None) == Checks("race")
            assert resolve_checks(None, None, "reverse", 1) == Checks("memory", "reverse", 1)
        assert resolve_checks(None, "", None, None) == Checks("", "reverse", 2.5)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("KSPEC_HOST_SANITIZE", "mem"),
            ("KSPEC_HOST_ORDER", "sideways"),
            ("KSPEC_HOST_TIMEOUT", "soon"),
        ],
    )
    def test_bad_environment(self, monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
        monkeypatch.setenv(name, value)
        with pytest.raises(CheckOptionError, match=f"KSPEC_HOST_.*{value}"):
            current_checks()

    def test_block_is_left_after_an_error(self) -> None:
        before = current_checks()
        with pytest.raises(ZeroDivisionError), checking("race", order="random:12345"):
            raise ZeroDivisionError
        assert current_checks() == before

    def test_other_threads_are_not_in_the_block(self) -> None:
        seen: list[Checks] = []
        with checking("race", order="random:12345"):
            thread = threading.Thread(target=lambda: seen.append(current_checks()))
            thread.start()
            thread.join()
        assert seen[0].order != "random:12345"

    def test_only_on_the_host(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("SANITIZE", "ORDER", "TIMEOUT"):
            monkeypatch.delenv(f"KSPEC_HOST_{name}", raising=False)
        cuda = Device("cuda", 0)
        assert checks_of_call("k", HOST, None, LaunchOptions(sanitize="race")) == Checks("race")
        for asked in ({"sanitize": "race"}, {"order": "reverse"}, {"timeout": 1.0}):
            with pytest.raises(ArgumentTypeError, match=r"k: .* on the host device only"):
                checks_of_call("k", cuda, None, LaunchOptions(**asked))
        with checking("race"):
            assert checks_of_call("k", cuda, Checks("race")) == Checks()
        nothing = LaunchOptions(sanitize="", order="forward")
        assert checks_of_call("k", cuda, None, nothing) == Checks()


class TestCalls:
    @pytest.mark.parametrize("way", ["call", "kernel", "block", "environment"])
    def test_raw_kernel(
        self, floats: np.ndarray, monkeypatch: pytest.MonkeyPatch, way: str
    ) -> None:
        racy, options = kernel("racy"), {}
        if way == "call":
            options = {"sanitize": "race"}
        if way == "kernel":
            racy.checks = Checks("race")
        if way == "environment":
            monkeypatch.setenv("KSPEC_HOST_SANITIZE", "race")
        block = checking("race") if way == "block" else nullcontext()
        with block, pytest.raises(HostFault, match=r"racy: race: .* at kernel.cu:10") as caught:
            racy((1,), (64,), (floats, np.int32(0)), **options)
        assert caught.value.kind == "race"
        racy((1,), (64,), (floats, np.int32(0)), sanitize="")

    def test_numpy_array_passed_without_a_copy(self, floats: np.ndarray) -> None:
        with pytest.raises(HostFault, match=r"0 bytes past the end of argument 0 .256 bytes."):
            kernel("overrun")((1,), (65,), (floats, np.int32(65)), sanitize="memory")
        kernel("overrun")((1,), (64,), (floats, np.int32(64)), sanitize="memory")
        assert floats.sum() == 64

    def test_view_of_an_array(self, floats: np.ndarray) -> None:
        kernel("overrun")((1,), (63,), (floats[:32], np.int32(63)), sanitize="memory")
        with pytest.raises(HostFault, match="0 bytes past the end of argument 0"):
            kernel("overrun")((1,), (64,), (floats[1:], np.int32(64)), sanitize="memory")

    def test_global_variables_are_one(self, floats: np.ndarray) -> None:
        count = MODULE.get_global("launches", device="host").array(1, "int32")
        before = int(kspec.asnumpy(count)[0])
        for modes in ("", "memory", "race", "memory,race"):
            kernel("overrun")((1,), (64,), (floats, np.int32(64)), sanitize=modes)
        assert int(kspec.asnumpy(count)[0]) == before + 4

    @pytest.mark.parametrize("modes", ["", "race"])
    def test_timeout(self, floats: np.ndarray, modes: str) -> None:
        with pytest.raises(HostFault) as caught:
            kernel("forever")((1,), (1,), (floats, np.int32(0)), timeout=0.1, sanitize=modes)
        assert caught.value.kind == "timeout"

    def test_elementwise(self) -> None:
        index = kspec.ElementwiseKernel("raw T x", "T y", "y = x[i + 1]", "checked_next")
        x, y = np.arange(8.0), np.zeros(8)
        with pytest.raises(HostFault, match=r"past the end of x .64 bytes.") as caught:
            index(x, y, sanitize="memory", order="reverse", timeout=5.0)
        assert caught.value.kind == "illegal-address"
        index.checks = Checks("memory")
        with pytest.raises(HostFault):
            index(x, y)
        index(x, y[:7])
        assert y[6] == 7

    def test_reduction(self) -> None:
        total = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "checked_sum")
        x = np.ones((40, 5000))
        for modes in ("memory", "race", "init", "undefined", "init,memory,race,undefined"):
            for order in ("forward", "reverse", "random:2"):
                assert total(x, sanitize=modes, order=order) == 200000
                assert (total(x[::2, ::-1], axis=0, sanitize=modes, order=order) == 20).all()

    def test_cached_by_mode(self, floats: np.ndarray) -> None:
        plain = MODULE.loader.kernel(RawSymbol("racy"), HOST)
        race = MODULE.loader.kernel(RawSymbol("racy"), HOST, ("race",))
        assert race is MODULE.loader.kernel(RawSymbol("racy"), HOST, ("race",)) is not plain


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def thread_count() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def repeat(times: int, call: Callable[[], None]) -> None:
    for _ in range(times):
        with pytest.raises(HostFault):
            call()


@pytest.mark.parametrize("modes", ["", "init,memory,race,undefined"])
def test_a_thousand_faults_leave_nothing(modes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Looking a line up starts a process; that it works is tested elsewhere.
    monkeypatch.setattr(
        "kspec.host.locate.source_positions", lambda code, offsets: dict.fromkeys(offsets, "k.cu:1")
    )
    program = Checked(
        r"""
        extern "C" __global__ void stuck(int* x) {
          x[threadIdx.x] = 1;
          if (threadIdx.x < 32) __syncthreads(); else __syncwarp(0xffffu << 16);
          if (threadIdx.x >= 48) __syncthreads();
          if (threadIdx.x < 48) assert(x[0] == 0);
        }
        """,
        modes,
    )
    values = np.zeros(64, np.int32)

    def call() -> None:
        program("stuck", 4, 64, values, timeout=30.0)

    repeat(50, call)
    threads, memory = thread_count(), resident_bytes()
    repeat(1000, call)
    assert thread_count() <= threads
    assert resident_bytes() - memory < 10 << 20
