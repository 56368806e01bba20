"""A kernel that fails makes CUDA unusable for the process: the error says so, and what to do."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from kspec.errors import DriverError
from kspec.runtime import driver
from tests.projects import ROOT, run_python


class FakeDriver:
    @staticmethod
    def CUresult(code: int) -> Any:
        names = {700: "CUDA_ERROR_ILLEGAL_ADDRESS", 1: "CUDA_ERROR_INVALID_VALUE"}
        return SimpleNamespace(value=code, name=names[code])

    @staticmethod
    def cuGetErrorString(error: Any) -> tuple[Any, bytes]:
        return SimpleNamespace(value=0), b"the driver's words"


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_bindings", FakeDriver)
    monkeypatch.setattr(driver, "_launched", {})


@pytest.mark.usefixtures("fake")
class TestMessage:
    def test_it_names_candidates_and_the_way_out(self) -> None:
        for name in ("first", "second", "first"):
            driver.note_launch(name)
        with pytest.raises(DriverError) as caught:
            driver.check_code(700, "third")
        assert str(caught.value) == (
            "CUDA_ERROR_ILLEGAL_ADDRESS: third: the driver's words; a kernel has failed, and CUDA "
            "no longer works in this process. It is this one or one launched before it (kspec has "
            "launched second, first); with CUDA_LAUNCH_BLOCKING=1 the launch itself fails. Call that "
            'kernel with NumPy copies of its arguments, under kspec.checking(sanitize="memory"): '
            "the host device names the line"
        )
        assert caught.value.code == 700

    def test_the_list_is_short(self) -> None:
        for number in range(100):
            driver.note_launch(f"f{number}")
        assert list(driver._launched) == [f"f{number}" for number in range(92, 100)]

    def test_threads_launch_at_the_same_time(self) -> None:
        problems: list[str] = []

        def work(thread: int) -> None:
            try:
                for number in range(50_000):
                    driver.note_launch(f"f{thread}_{number % 50}")
            except Exception as error:
                problems.append(repr(error))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(interval)
        driver.note_launch("last")
        assert problems == []
        assert len(driver._launched) <= 8

    def test_other_errors_say_what_they_said(self) -> None:
        driver.note_launch("first")
        with pytest.raises(DriverError, match=r"^CUDA_ERROR_INVALID_VALUE: f: the driver's words$"):
            driver.check_code(1, "f")


SCRIPT = r"""
import numpy as np
import kspec

code = '''
extern "C" __global__ void astray(float* x, long long i) { x[i] = 1; }
extern "C" __global__ void innocent(float* x) { x[0] = 1; }
'''
module = kspec.RawModule(code=code)
x = kspec.zeros(4, "float32", device="cuda")
module.get_function("innocent")((1,), (1,), (x,))
try:
    module.get_function("astray")((1,), (1,), (x, 1 << 45))
    for _ in range(3):
        module.get_function("innocent")((1,), (1,), (x,))
        kspec.asnumpy(x)
except kspec.DriverError as error:
    print(error)
"""


@pytest.mark.gpu
@pytest.mark.unsanitized("a kernel that writes where nothing is")
@pytest.mark.parametrize("blocking", ["0", "1"])
def test_on_a_gpu(blocking: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", blocking)
    printed = run_python(SCRIPT, ROOT)
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in printed
    assert "no longer works in this process" in printed
    assert "astray" in printed
