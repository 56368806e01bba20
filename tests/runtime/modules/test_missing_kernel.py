"""A kernel that a module does not have: the message lists those it has."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.runtime import driver
from kspec.runtime.driver import module as driver_module
from tests.devices import ArrayDevice

SUCCESS = SimpleNamespace(value=0, name="CUDA_SUCCESS")
NOT_FOUND = SimpleNamespace(value=500, name="CUDA_ERROR_NOT_FOUND")


class FakeDriver:
    def __init__(self, *names: str) -> None:
        self.names = names

    def cuModuleGetFunction(self, module: Any, name: bytes) -> Any:
        return NOT_FOUND, None

    def cuGetErrorString(self, error: Any) -> Any:
        return SUCCESS, b"named symbol not found"

    def cuModuleGetFunctionCount(self, module: Any) -> Any:
        return SUCCESS, len(self.names)

    def cuModuleEnumerateFunctions(self, count: int, module: Any) -> Any:
        return SUCCESS, list(range(count))

    def cuFuncGetName(self, function: int) -> Any:
        return SUCCESS, self.names[function].encode()


class OldDriver(FakeDriver):
    cuModuleGetFunctionCount = None  # type: ignore[assignment]

    def __getattribute__(self, name: str) -> Any:
        if name == "cuModuleGetFunctionCount":
            raise AttributeError(name)
        return super().__getattribute__(name)


@pytest.mark.parametrize(
    ("fake", "text"),
    [
        (FakeDriver("scale", "fill"), "no kernel 'flil' in the module, which has fill, scale$"),
        (FakeDriver(), "which has none$"),
        (FakeDriver(*[f"f{k}" for k in range(10)]), r"f0, f1, .*, f7, \.\.\.$"),
        (FakeDriver("_Z4flilPf"), 'has _Z4flilPf; declare it extern "C", or name an instance'),
        (OldDriver("fill"), "no kernel 'flil' in the module$"),
    ],
)
def test_message(fake: Any, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_bindings", lambda: fake)
    monkeypatch.setattr(driver, "on_device", lambda ordinal: nullcontext())
    monkeypatch.setattr(driver, "whatever_is_captured", nullcontext)
    monkeypatch.setattr(driver_module, "load", lambda ordinal, code: object())
    module = driver_module.DriverModule(0, b"")
    with pytest.raises(kspec.LoadError, match=f"CUDA_ERROR_NOT_FOUND: named symbol .*{text}"):
        module.get_function("flil")
    module.stay()  # there is nothing to unload


def test_both_devices_list_kernels(place: ArrayDevice) -> None:
    code = 'extern "C" __global__ void fill(float* x) { *x = 1; }\n__global__ void other(int) {}'
    with pytest.raises(kspec.LoadError, match=r"named symbol not found.*fill"):
        kspec.RawKernel(code, "flil")((1,), (1,), (place.zeros(1, "float32"),))


def test_code_and_name_in_the_wrong_order() -> None:
    code = 'extern "C" __global__ void fill(float* x) { *x = 1; }'
    with pytest.raises(kspec.ArgumentTypeError, match="name: found CUDA text; the order is code, "):
        kspec.RawKernel("fill", code)


def test_a_template_without_arguments_on_the_host() -> None:
    code = "template <class T> __global__ void fill(T* x) { *x = 1; }"
    with pytest.raises(kspec.CompileError, match="no kernel fits the name expression 'fill'"):
        kspec.RawModule(code=code, name_expressions=["fill"]).get_function("fill").compile()
    with pytest.raises(kspec.LoadError, match=r'fill; .*name an instance of a template, as in "k<'):
        kspec.RawKernel(code, "fill")((1,), (1,), (np.zeros(1, np.float32),))


def test_c_linkage_has_no_namespaces(place: ArrayDevice) -> None:
    code = """namespace a { extern "C" __global__ void one(int* x) { *x += 1; } }
    extern "C" { namespace b { __global__ void two(int* x) { *x += 2; } } }"""
    x = place.zeros(1, "int32")
    for name in ("one", "two"):
        kspec.RawKernel(code, name)((1,), (1,), (x,))
    assert place.numpy(x).tolist() == [3]
