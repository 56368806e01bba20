"""Launching through a pointer to the driver's function: what it is given, and what it answers.

The driver here is a Python function behind a C pointer, so no GPU is needed.
"""

from __future__ import annotations

import ctypes
import gc
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kspec.errors import DriverError
from kspec.runtime import driver
from kspec.runtime.driver import launch_ex as launcher
from kspec.runtime.driver.launch import Launch
from kspec.runtime.schedules.marshal import PackedParameters

LAUNCH = Launch((3, 2, 1), (64, 4, 1), 128, 0x77)
PROTOTYPE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p
)


CURRENT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p))


class FakeDriver:
    """Remembers launches; answers with `codes` in turn, then with 0.

    The context of a device is 0x100 more than its number.
    """

    CUdriverProcAddress_flags = SimpleNamespace(CU_GET_PROC_ADDRESS_DEFAULT=0)

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.launches: list[tuple[Any, ...]] = []
        self.attributes: list[Any] = []
        self.devices: list[int] = []
        self.count = 1
        self.context: int | None = None  # the current one
        self._functions = {  # ctypes frees them with us
            b"cuLaunchKernelEx": (11080, PROTOTYPE(self._launch)),
            b"cuCtxGetCurrent": (4000, CURRENT(self._current)),
        }

    def _launch(self, config: int, function: int, params: Any, extra: int | None) -> int:
        packed = ctypes.string_at(config, 56)
        values = [struct.unpack("q", ctypes.string_at(params[k], 8))[0] for k in range(2)]
        config = struct.unpack("7I4xPPI4x", packed)
        self.attributes = [
            struct.unpack("I4x64s", ctypes.string_at(config[8] + 72 * k, 72))
            for k in range(config[9])
        ]
        self.launches.append((config, function, values, extra))
        return self.codes.pop(0) if self.codes else 0

    def cuGetProcAddress(self, name: bytes, version: int, flags: int) -> tuple[Any, int, int]:
        since, function = self._functions[name]
        assert version == since
        return SimpleNamespace(value=0), ctypes.cast(function, ctypes.c_void_p).value or 0, 0

    def _current(self, found: Any) -> int:
        found[0] = self.context
        return 0

    def cuDeviceGetCount(self) -> tuple[Any, int]:
        return SimpleNamespace(value=0), self.count

    @staticmethod
    def CUresult(code: int) -> Any:
        return SimpleNamespace(value=code, name=f"CUDA_ERROR_{code}")

    @staticmethod
    def cuGetErrorString(error: Any) -> tuple[Any, bytes]:
        return SimpleNamespace(value=0), b"because"

    @contextmanager
    def on_device(self, ordinal: int) -> Iterator[None]:
        self.devices.append(ordinal)
        yield


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    made = FakeDriver()
    monkeypatch.setattr(driver, "_bindings", lambda: made)
    monkeypatch.setattr(driver, "on_device", made.on_device)
    monkeypatch.setattr(driver, "context_of", lambda ordinal: 0x100 + ordinal)
    monkeypatch.setattr(driver, "several_devices", driver.several_devices.__wrapped__)
    monkeypatch.setattr(launcher, "driver_function", launcher.driver_function.__wrapped__)
    return made


def params(*values: int) -> PackedParameters:
    return PackedParameters([struct.pack("q", value) for value in values])


CONFIG = (3, 2, 1, 64, 4, 1, 128, 0x77, 0, 0)


def test_the_driver_gets_what_was_prepared(fake: FakeDriver) -> None:
    block = params(5, -6)
    start = launcher.prepare_launch(0, 0xF00, LAUNCH, block.address)
    assert start() == start() == 0
    assert fake.launches == [(CONFIG, 0xF00, [5, -6], None)] * 2
    assert fake.devices == []


@pytest.mark.parametrize(
    ("launch", "attributes"),
    [
        (LAUNCH, []),
        (replace(LAUNCH, cooperative=True), [(2, struct.pack("i", 1))]),
        (replace(LAUNCH, cluster=(3, 2, 1)), [(4, struct.pack("3I", 3, 2, 1))]),
        (replace(LAUNCH, pdl=True, carveout=-1), [(6, b"\1\0\0\0"), (14, b"\xff\xff\xff\xff")]),
    ],
)
def test_attributes(launch: Launch, attributes: list[Any], fake: FakeDriver) -> None:
    block = params(5, -6)
    start = launcher.prepare_launch(0, 0xF00, launch, block.address)
    gc.collect()  # whatever the driver reads is kept
    assert start() == 0
    assert fake.attributes == [(number, value.ljust(64, b"\0")) for number, value in attributes]
    assert fake.launches[0][0][:8] == CONFIG[:8]


def test_a_launch_of_another_size(fake: FakeDriver) -> None:
    block = params(5, -6)
    start, resize = launcher.prepare_resizable(0, 0xF00, LAUNCH, block.address)
    resize(7, 1, 1, 96, 1, 1)
    assert start() == 0
    assert fake.launches[0][0] == (7, 1, 1, 96, 1, 1, *CONFIG[6:])


def test_a_single_launch_makes_the_device_current(fake: FakeDriver) -> None:
    block = params(1, 2)
    launcher.launch_once(2, 0xF00, LAUNCH, block.address, "f")
    assert fake.launches == [(CONFIG, 0xF00, [1, 2], None)]
    assert fake.devices == [2]


def test_with_several_devices_each_launch_asks(fake: FakeDriver) -> None:
    fake.count = 2
    block = params(1, 2)
    start = launcher.prepare_launch(1, 0xF00, LAUNCH, block.address)
    for fake.context, switched in (None, [1]), (0x101, [1]), (0x100, [1, 1]), (0x101, [1, 1]):
        assert start() == 0
        assert fake.devices == switched
    assert fake.launches == [(CONFIG, 0xF00, [1, 2], None)] * 4


@pytest.mark.parametrize("code", [201, 400])
def test_a_thread_without_the_context_gets_it(code: int, fake: FakeDriver) -> None:
    fake.codes = [code]
    block = params(1, 2)
    start = launcher.prepare_launch(0, 0xF00, LAUNCH, block.address)
    launcher.relaunch(0, start, start(), "f")
    assert len(fake.launches) == 2
    assert fake.devices == [0]


@pytest.mark.parametrize("codes", [[700], [201, 700]])
def test_other_codes_are_errors(codes: list[int], fake: FakeDriver) -> None:
    fake.codes = list(codes)
    block = params(1, 2)
    start = launcher.prepare_launch(0, 0xF00, LAUNCH, block.address)
    with pytest.raises(DriverError, match=r"CUDA_ERROR_700: f: because"):
        launcher.relaunch(0, start, start(), "f")
    assert len(fake.launches) == len(codes)
    with pytest.raises(DriverError, match="CUDA_ERROR_1"):
        fake.codes = [1]
        launcher.launch_once(0, 0xF00, LAUNCH, block.address, "f")
