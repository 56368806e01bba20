"""sanitize="init" of outputs that calls make: each read before a write is found, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.errors import HostFault

# What no reader of the text sees.
OLD = "#define OLD(v) v\n"
Make = Callable[[str], Any]


def total(post_map: str) -> kspec.ReductionKernel:
    return kspec.ReductionKernel(
        "T x", "T y", "x", "a + b", post_map, "0", "total_init", preamble=OLD
    )


def keys(x: np.ndarray) -> np.ndarray:
    return np.arange(len(x)) % 3


FORMS: dict[str, Callable[[kspec.ReductionKernel, np.ndarray, dict[str, Any]], Any]] = {
    "reduce": lambda f, x, given: f(x, axis=0, **given),
    "scan": lambda f, x, given: f.scan(x, axis=0, **given),
    "segments": lambda f, x, given: f.segments(x, np.array([0, 1, 1, len(x)]), **given),
    "by_key": lambda f, x, given: f.by_key(x, keys(x), 5, **given),
    "window": lambda f, x, given: f.window(x, 2, axis=0, **given),
}


@pytest.mark.parametrize("shape", [(1000,), (4, 300)], ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str, shape: tuple[int, ...]) -> None:
    call, x = FORMS[form], np.ones(shape)
    right = call(total("y = a"), x, {"sanitize": "init"})
    np.testing.assert_array_equal(right, call(total("y = a"), x, {}))
    adding = total("y = OLD(y) + a")
    with pytest.raises(HostFault, match=r"read of 8 unwritten bytes at offset 0 of y") as caught:
        call(adding, x, {"sanitize": "init"})
    assert caught.value.kind == "uninitialized-read"
    y = np.zeros(right.shape)
    np.testing.assert_array_equal(call(adding, x, {"sanitize": "init", "out": y}), right)


def elementwise(operation: str, outputs: str = "T y", **fields: Any) -> kspec.ElementwiseKernel:
    return kspec.ElementwiseKernel(
        "T x", outputs, operation, "elements_init", preamble=OLD, **fields
    )


@pytest.mark.parametrize(
    "operation",
    [
        "y = OLD(y) + x",
        "if (x > 3) y = 0; y += x",
        "if (x > 3) { y += x; } else { y = x; }",
        "y = x > 3 ? y + x : x",
        "T* p = &y; *p += x",
        "auto add = [&](T v) { y += v; }; add(x)",
    ],
)
def test_elements_that_are_read(operation: str) -> None:
    kernel, x = elementwise(operation), np.arange(64.0).reshape(8, 8)
    for one in (x, x.T[::2], x.astype("int16")):
        with pytest.raises(HostFault, match=r"unwritten bytes at offset .* of y") as caught:
            kernel(one, sanitize="init")
        assert "which the call allocated; pass out=, or set it first" in str(caught.value)
        kernel(one, np.zeros_like(one), sanitize="init")
        kernel(one, out=np.zeros_like(one), sanitize="init,memory")


@pytest.mark.parametrize(
    "operation",
    [
        "y = x; y += 1",
        "if (x > 3) y = x",
        "if (x > 3) continue; y = x",
        "if (x > 3) y = 0; else y = 1; y += x",
        "T* p = &y; *p = x; *p += 1",
        "for (int k = 0; k < 3; ++k) { if (k == 0) y = 0; y += x; }",
        "switch ((int)x) { case 0: y = 1; break; default: y = 2; } y += 1",
    ],
)
def test_elements_that_are_set(operation: str) -> None:
    kernel, x = elementwise(operation), np.arange(64.0).reshape(8, 8)
    for one in (x, x[:, ::2], x.T):
        kernel(one, sanitize="init")


@pytest.mark.parametrize("dtype", ["float16", "int8", "bool", "complex64"])
def test_dtypes(dtype: str) -> None:
    kernel = elementwise("if (x != T(0)) y = x; else continue; y += x")
    kernel(np.ones(5, dtype), sanitize="init")


def test_raw_outputs() -> None:
    kernel = kspec.ElementwiseKernel(
        "raw int32 j", "raw float32 y", "atomicAdd(&y[j[i]], 1)", "histogram_init"
    )
    j = np.arange(12, dtype=np.int32) % 3
    with pytest.raises(HostFault, match="atomic of 4 unwritten bytes at offset 0 of y"):
        kernel(j, size=12, sanitize="init")
    y = np.zeros(3, np.float32)
    assert kernel(j, y, size=12, sanitize="init").tolist() == [4, 4, 4]


def test_windows_and_core_dimensions() -> None:
    blur = kspec.ElementwiseKernel(
        "T u",
        "T v",
        "if (i > 1) v = u(-1) + u(1)",
        "blur_init",
        windows={"u": {"reach": [1], "boundary": "nearest"}},
    )
    blur(np.arange(300.0), sanitize="init")
    twice = kspec.ElementwiseKernel(
        "T x[n]", "T y[n]", "for (int k = 0; k < n; ++k) y(k) += 2 * x(k)", "twice_init"
    )
    for n in (3, 60):  # begin as zeros
        x = np.ones((5, n))
        np.testing.assert_array_equal(twice(x, sanitize="init"), 2 * x)


def test_several_outputs_and_structs() -> None:
    both = elementwise("y = x; z = OLD(z) + y", "T y, T z")
    with pytest.raises(HostFault, match="of z "):
        both(np.ones(4), sanitize="init")
    point = np.dtype([("p", "f4"), ("q", "f8")], align=True)
    parts = kspec.ElementwiseKernel("T x", "U y", "y.q = x; y.p = y.q", "parts_init")
    y = np.zeros(4, point)
    assert parts(np.ones(4), y, sanitize="init")["p"].tolist() == [1] * 4


def test_arrays_of_kspec() -> None:
    kernel = elementwise("y = OLD(y) + x")
    with pytest.raises(HostFault, match="of y"):
        kernel(kspec.zeros(4, device="host"), sanitize="init")
    kernel(kspec.zeros(4, device="host"), kspec.zeros(4, device="host"), sanitize="init")


def test_other_modes_do_not_look() -> None:
    kernel = elementwise("y = OLD(y) + x")
    kernel(np.ones(4), sanitize="memory")
    with kspec.checking("init"), pytest.raises(HostFault, match="unwritten"):
        kernel(np.ones(4))
