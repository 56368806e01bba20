"""Offsets that loops count: which of them need no check, and that all others are checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kspec


def kernel(operation: str, reach: Any = ("R",), **keywords: Any) -> kspec.ElementwiseKernel:
    return kspec.ElementwiseKernel(
        "T u, int32 d",
        "T v",
        operation,
        "loops",
        windows={"u": {"reach": list(reach), "boundary": "nearest"}},
        sizes={"R": [1, 2], "Q": [1]},
        **keywords,
    )


def is_checked(made: kspec.ElementwiseKernel) -> bool:
    return bool(made.declaration.windows[0].computed)


WITHIN: list[tuple[str, Any]] = [
    ("for (int k = -R; k <= R; ++k) v += u(k)", ["R"]),
    ("for (int k = 1; k <= R; k++) v += u(-k) + u(k)", ["R"]),
    ("for (int k = 0; k < R; ++k) { v += u(-k); v -= u(k - R); }", [["R", 0]]),
    ("for (int k = R; k >= -R; --k) v += u(k)", ["R"]),
    ("for (int k = R; k > 0; k--) v += u(R - k)", [[0, "R"]]),
    ("for (ptrdiff_t k = 0; k <= 2 * R; ++k) v += u(k - R)", ["R"]),
    ("for (int k = 0; k < 3; ++k) v += u(k - 1)", [1]),
    ("for (int a = -1; a <= 1; ++a) for (int b = -2; b <= 2; ++b) v += u(a, b)", [1, 2]),
    ("for (int a = 0; a <= R; ++a) for (int b = -a; b <= a; ++b) v += u(b)", ["R"]),
    ("for (int a = 0; a <= R; ++a)\n#pragma unroll\n  for (int b = 0; b < 2; ++b) v += u(b)", [1]),
    ("for (int k = 0; k <= R; ++k) if (k % 2) v += u(k); else v -= u(-k); v += u", ["R"]),
    ("for (int k = 0; k <= R; ++k) { T w = exp(-T(k * k)); v += w * u(k); }", ["R"]),
    ("T s = 0; for (int k = 0; k <= R; ++k) { if (u(k) > s) break; s = u(k); } v = s", ["R"]),
    ("v = u(R) - u(-R) + u(0)", ["R"]),
]
UNKNOWN: list[tuple[str, Any]] = [
    ("for (int k = -R; k <= R; ++k) v += u(k + 1)", ["R"]),
    ("for (int k = -R; k <= R + 1; ++k) v += u(k)", ["R"]),
    ("for (int k = -R; k <= R; ++k) v += u(2 * k)", ["R"]),
    ("for (int k = -R; k <= Q; ++k) v += u(k)", ["R"]),
    ("for (int k = -1; k <= 1; ++k) v += u(k)", ["R"]),  # calls may give R = 0
    ("for (int k = d; k <= R; ++k) v += u(k)", ["R"]),
    ("for (int k = 0; k <= R; ++k) v += u(k + d)", ["R"]),
    ("for (unsigned k = 0; k <= R; ++k) v += u(-k)", ["R"]),
    ("for (int k = 0; k <= R; ++k) { k += 3; v += u(k); }", ["R"]),
    ("for (int k = 0; k <= R; ++k) v += u(k++)", ["R"]),
    ("for (int k = 0; k <= R; ++k) { int& j = k; j = 9; v += u(k); }", ["R"]),
    ("for (int k = 0; k <= R; ++k) { int* j = &k; *j = 9; v += u(k); }", ["R"]),
    ("for (int k = 0; k <= R; ++k) { far(k); v += u(k); }", ["R"]),
    ("for (int k = 0; k <= R; ++k) { int k = d; v += u(k); }", ["R"]),
    ("for (int k = 0; k <= R; ++k) { int k{9}; v += u(k); }", ["R"]),
    ("for (int k = 0; k <= R; ++k) { int a[] = {9}; auto& [k] = a; v += u(k); }", ["R"]),
    ("for (int k = 0; k <= R; ++k) v += [&](int k) { return u(k); }(9)", ["R"]),
    ("int k = d; for (int k = 0; k <= R; ++k) v += u(k); v += u(k)", ["R"]),
    ("int k = d; for (int k = 0; k <= R; ++k) switch (k) {} v += u(k);", ["R"]),
    ("int k = d; for (int k = 0; k <= R; ++k); v += u(k);", ["R"]),
    ("for (int k = 0; k <= R || v > 0; ++k) v += u(k)", ["R"]),
    ("for (int k = 0; k <= R; k *= 2) v += u(k)", ["R"]),
    ("for (int k = 0; k != R; ++k) v += u(k)", ["R"]),
    ("for (int k = 010; k <= R; ++k) v += u(k)", ["R"]),
    ("for (int k = 0; k <= R; ++k) v += u(k / 2)", ["R"]),
    ("for (int k = 0; k <= R; ++k) { BUMP; v += u(k); }", ["R"]),
    ("for (int k = 0; k <= TOP; ++k) v += u(k)", ["R"]),
    ("for (int k = 0; k <= R; ++k) v += FAR", ["R"]),
    ("#define k 9\nfor (int j = 0; j <= R; ++j) v += u(k)", ["R"]),
    ("#define LOOP for (int k = 0; k <= R; ++k)\nLOOP v += u(k)", ["R"]),
    ("while (d > 0) v += u(d)", ["R"]),
    ("for (int one : {1, 2}) v += u(one)", ["R"]),
    ("v = u(d)", ["R"]),
]
PREAMBLE = (
    "#define BUMP ++k\n#define TOP (R + 1)\n#define FAR u(k + 1)\n"
    "__device__ void far(int& k) { k = 9; }"
)


def started(operation: str) -> str:
    return operation if operation[0] == "v" else f"v = 0; {operation}"


@pytest.mark.parametrize(("operation", "reach"), WITHIN)
def test_offsets_within_the_reach_are_not_checked(operation: str, reach: Any) -> None:
    assert not is_checked(kernel(started(operation), reach))


@pytest.mark.parametrize("reach", [["R"], [["R", 0]], [[0, "R"]], [1], [1, 2]], ids=str)
def test_they_stay_within_bounds(reach: Any) -> None:
    every = [started(operation) for operation, own in WITHIN if own == reach]
    made = kernel("".join(f"{{ {operation}; }}\n" for operation in every), reach)
    assert every and not is_checked(made)
    u, d = np.arange(40.0).reshape(5, 8), np.zeros((5, 8), "int32")
    for size in (0, 1, 3) if "R" in str(reach) else (1,):
        made(u, d, R=size)


@pytest.mark.parametrize(("operation", "reach"), UNKNOWN)
def test_others_are_checked(operation: str, reach: Any) -> None:
    assert is_checked(kernel(operation, reach, preamble=PREAMBLE))


def test_headers_may_have_macros() -> None:
    loop = "v = 0; for (int k = 0; k <= R; ++k) v += u(k)"
    assert not is_checked(kernel(loop))
    assert not is_checked(kernel(loop, preamble="#include <kspec/complex.cuh>"))
    assert is_checked(kernel(loop, options=("-include", "mine.h")))


def test_a_loop_that_goes_too_far_is_still_a_fault() -> None:
    far = kernel("v = 0; for (int k = -R; k <= R + 1; ++k) v += u(k)")
    with pytest.raises(kspec.HostFault, match=r"offset 3 of u .* which is \[-2, 2\]"):
        far(np.arange(6.0), np.zeros(6, "int32"), R=2)


def test_values() -> None:
    u = np.arange(9.0) ** 2
    made = kernel("v = 0; for (int k = 1; k <= R; ++k) v += k * (u(k) - u(-k))")
    padded = np.pad(u, 3, mode="edge")
    wanted = sum(k * (padded[3 + k : 12 + k] - padded[3 - k : 12 - k]) for k in (1, 2, 3))
    np.testing.assert_array_equal(made(u, np.zeros(9, "int32"), R=3), wanted)
