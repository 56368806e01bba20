"""Wrong indices so large that no memory can have the address: processors do not name it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import kspec

_TYPES = {"char": np.int8, "short": np.int16, "int": np.int32, "float": np.float32, "double": float}
_BODIES = {
    "get": "y[0] += x[i];",
    "put": "x[i] = (T)y[0];",
    "add": "x[i] += (T)7; x[i * 3 + 2] -= 1;",
    "local": "T l[9]; for (int k = 0; k < 9; k++) l[k] = k; y[0] += l[i]; y[1] = l[i % 3];",
    "sum": "T s = 0; x += i; for (int k = 0; k < 64; k++) s += x[k]; y[0] = s;",
    "gather": "T s[16]; for (int k = 0; k < 16; k++) s[k] = x[(long long)y[k] + i];"
    " for (int k = 0; k < 16; k++) y[k] = s[15 - k];",
}
_CODE = "\n".join(
    f'extern "C" __global__ void {name}_{kind}({kind}* x, double* y, long long i) {{\n'
    f"  {body.replace('T ', kind + ' ').replace('(T)', f'({kind})')}\n}}"
    for kind in _TYPES
    for name, body in _BODIES.items()
)
_VECTORS = r"""
extern "C" __global__ void get_float4(float4* x, double* y, long long i) { y[0] = x[i].y; }
extern "C" __global__ void put_float4(float4* x, double* y, long long i) {
  x[i] = make_float4(1, 2, 3, 4);
}
"""


@pytest.fixture(scope="module", params=[(), ("-O1",), ("-mavx2",)], ids=["plain", "O1", "avx2"])
def module(request: pytest.FixtureRequest) -> Iterator[kspec.RawModule]:
    if "-mavx2" in request.param and "avx2" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("the processor has no AVX2")
    yield kspec.RawModule(code=_CODE + _VECTORS, options=request.param)


@pytest.mark.parametrize("sanitize", [None, "none"])
@pytest.mark.parametrize("index", [2**57 + 3, 2**57 * 3, -(2**57)])
def test_impossible_addresses(module: kspec.RawModule, index: int, sanitize: str | None) -> None:
    names = [(kind, name) for kind in _TYPES for name in _BODIES]
    for kind, name in [*names, ("float4", "get"), ("float4", "put")]:
        x, y = np.zeros(64, _TYPES.get(kind, np.float32)), np.zeros(64)
        kernel = module.get_function(f"{name}_{kind}")
        with pytest.raises(
            kspec.HostFault, match=r"no memory can have|bytes (before|past)"
        ) as caught:
            kernel((1,), (1,), (x, y, np.int64(index)), sanitize=sanitize)
        assert caught.value.kind == "illegal-address", (kind, name)
        assert caught.value.line
