"""Raw kernels whose specs name template parameters: which instance a call takes."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.model.declaration import RawDeclaration
from kspec.model.raw.c_params import parse_c_params
from kspec.model.raw.launch_rules import LaunchRules
from kspec.model.stages import CudaSource
from kspec.runtime.modules.loader import KernelLoader
from kspec.runtime.modules.provider import CompilingProvider, OneSource
from kspec.runtime.raw.launch_rules import RawFunction
from tests.devices import ArrayDevice

# What the kernel is: the size of its type, its integers, its block.
CODE = """
template <int TILE, class T, bool UP> __global__ void seen(const T* x, double* out, int n) {
  if (threadIdx.x || threadIdx.y) return;
  out[0] = sizeof(T); out[1] = TILE; out[2] = UP; out[3] = blockDim.x; out[4] = n;
}
"""
INSTANCES = (
    "seen<16, float, true>",
    "seen<0x20u, float, true>",
    "seen< 16,double ,false >",
    "seen<32, double, true>",
)


def function(
    instances: tuple[str, ...] = INSTANCES,
    template: tuple[str, ...] = ("TILE", "T", "UP"),
    defaults: Any = (("n", "x.size"),),
) -> RawFunction:
    rules = LaunchRules(("1",), ("TILE", "2"), "", defaults, template=template)
    params = parse_c_params("const T* x, double* out, int n")
    declared = RawDeclaration("seen", instances, params, "", rules)
    source = CudaSource("k.cu", CODE, instances)
    return RawFunction(declared, KernelLoader([CompilingProvider(OneSource(source))]))


KERNEL = function()


def seen(place: ArrayDevice, kernel: RawFunction, dtype: str, *template: Any) -> list[float]:
    out, x = place.zeros(5), place.zeros(7, dtype)
    for _ in range(4):  # the last ones are answered by a plan
        kernel(None, None, (x, out, None), template=template)
    return list(place.numpy(out))


class TestCalls:
    def test_types_and_integers_choose(self, device: ArrayDevice) -> None:
        assert seen(device, KERNEL, "float32", 16, 1) == [4, 16, 1, 16, 7]
        assert seen(device, KERNEL, "float32", 32, True) == [4, 32, 1, 32, 7]
        assert seen(device, KERNEL, "float64", 16, 0) == [8, 16, 0, 16, 7]
        assert seen(device, KERNEL, "float64", np.int8(32), True) == [8, 32, 1, 32, 7]
        assert seen(device, KERNEL, "float32", 16, 1) == [4, 16, 1, 16, 7]

    def test_one_value_is_the_default(self, place: ArrayDevice) -> None:
        kernel = function(INSTANCES[:2])
        assert kernel.declaration.implied == {"UP": 1}
        assert seen(place, kernel, "float32", 32) == [4, 32, 1, 32, 7]
        assert seen(place, kernel, "float32", 32, None) == [4, 32, 1, 32, 7]
        # It is known to the defaults of others.
        kernel = function(INSTANCES[:1], defaults=(("n", "TILE + UP"),))
        assert seen(place, kernel, "float32") == [4, 16, 1, 16, 17]

    def test_defaults(self, place: ArrayDevice) -> None:
        defaults = (("TILE", "16 if x.size < 9 else 32"), ("UP", True), ("n", "2"))
        kernel = function(defaults=defaults)
        assert seen(place, kernel, "float32") == [4, 16, 1, 16, 2]
        assert seen(place, kernel, "float64", 32) == [8, 32, 1, 32, 2]
        out = place.zeros(5)
        for size in (8, 9, 8, 30, 9):
            kernel(None, None, (place.zeros(size, "float32"), out, None))
            assert place.numpy(out)[1] == (16 if size < 9 else 32)

    def test_with_options(self, place: ArrayDevice) -> None:
        out = place.zeros(5)
        options: dict[str, Any] = {"order": "reverse"} if place.is_host else {"pdl": True}
        for tile in (32, 16):
            KERNEL(None, None, (place.zeros(1, "float32"), out, 5), template=(tile, 1), **options)
            assert list(place.numpy(out)) == [4, tile, 1, tile, 5]

    def test_copies(self, place: ArrayDevice) -> None:
        again = pickle.loads(pickle.dumps(KERNEL))
        assert seen(place, again, "float64", 32, 1) == [8, 32, 1, 32, 7]

    def test_plans(self) -> None:
        kernel, out, x = function(), np.zeros(5), np.zeros(7, "f4")
        for tile in (16, 32) * 4:
            kernel(None, None, (x, out, None), template=(tile, 1))
            assert out[1] == tile
        assert kernel.cache_info().plans == 2

    def test_a_prepared_call(self) -> None:
        out, x = np.zeros(5), np.zeros(7, "f4")
        options = kspec.runtime.driver.launch.LaunchOptions(template=(32, 1))
        KERNEL.prepare(None, None, (x, out, None), options).run()
        assert list(out) == [4, 32, 1, 32, 7]


class TestErrors:
    def test_an_instance_that_is_not_listed(self) -> None:
        message = (
            r"seen has no instance for T=float32, TILE=8, UP=1; it has seen<16, float, true>, "
        )
        for _ in range(2):
            with pytest.raises(kspec.InstanceNotBuilt, match=message) as caught:
                seen(NUMPY, KERNEL, "float32", 8, 1)
            assert isinstance(caught.value, TypeError)
        with pytest.raises(kspec.InstanceNotBuilt, match="no instance for T=int32, TILE=16, UP=1"):
            seen(NUMPY, KERNEL, "int32", 16, 1)

    @pytest.mark.parametrize(
        ("template", "error", "message"),
        [
            (
                (),
                TypeError,
                "seen: no value for template parameter TILE; give it by name: TILE = 16",
            ),
            ((16, None), TypeError, r"parameter UP; give it by name: UP = 1 or 0"),
            ((16, 1, 2), TypeError, r"seen: template has 2 integers \(TILE, UP\), not 3"),
            ((16.0, 1), TypeError, "seen: template parameter TILE must be an integer, not float"),
            (("16", 1), TypeError, "template parameter TILE must be an integer, not str"),
            ((2**63, 1), kspec.LaunchError, r"block\.x = TILE is 9223372036854775808"),
        ],
    )
    def test_wrong_values(self, template: Any, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message) as caught:
            seen(NUMPY, KERNEL, "float32", *template)
        assert isinstance(caught.value, kspec.KspecError)


NUMPY = ArrayDevice("numpy", "host")
