"""Arrays of more elements than 32 bits count, made and compared where they are."""

from __future__ import annotations

from typing import Any

import kspec
from tests.devices import ArrayDevice

# The formula of the elements: it repeats itself neither in powers of two nor in 32 bits.
VALUE = """
__device__ inline unsigned char value(long long i) {
  return (unsigned char)((i * 2654435761ll) >> 13);
}
"""
_FILL = kspec.ElementwiseKernel("", "uint8 x", "x = value(i)", "large_fill", preamble=VALUE)
TOTAL = kspec.ReductionKernel("uint8 x", "int64 y", "x", "a + b", "y = a", "0", "large_total")


def count_of(device: ArrayDevice) -> int:
    """Return a number of elements: above 2^31 on GPUs, of which the host has a few thousand."""
    return 10_007 if device.is_host else 2**31 + 5


def filled(device: ArrayDevice, *shape: int) -> Any:
    """Return an array of bytes, of which element number i is ``value(i)``."""
    x = kspec.empty(shape, "uint8", device=device.place)
    _FILL(x)
    return x


def wrong_ones(found: Any, expected: str, preamble: str = "") -> int:
    """Return how many elements are not as an expression of their number ``i`` says."""
    compare = kspec.ElementwiseKernel(
        "uint8 y", "uint8 e", f"e = y != (unsigned char)({expected})", "large_compare",
        preamble=VALUE + preamble,
    )  # fmt: skip
    return int(kspec.asnumpy(TOTAL(compare(found))))
