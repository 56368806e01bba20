"""One kernel to review: its CUDA text, its arguments and its launch.

::

    case = Case("copy", text, lambda: (x, y), (1024,), (256,), expected=lambda x, y: x)
    case.kernel()(case.grid, case.block, case.arguments(), shared_mem=case.shared_mem)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import kspec

# Elements of the arrays: 128 MiB of float32, more than twice the L2 cache of an H200.
ELEMENTS = 2**25


@dataclass(frozen=True)
class Case:
    """A raw kernel and one launch of it.

    Attributes
    ----------
    name : str
        Name of the case and of the kernel.
    code : str
        CUDA C++.
    arguments : callable
        Makes the NumPy arrays and numbers of the launch, always the same ones.
    grid, block : tuple of int
        Size of the launch.
    expected : callable
        ``expected(*arguments)``: the elements of the output after the launch, in any shape.
    output : int
        Position of the output among the arguments.
    shared_mem : int
        Bytes of dynamic shared memory.
    bandwidth_bound : bool
        Whether the bandwidth of the memory should limit it.
    """

    name: str
    code: str
    arguments: Callable[[], tuple[Any, ...]]
    grid: tuple[int, ...]
    block: tuple[int, ...]
    expected: Callable[..., Any]
    output: int = 1
    shared_mem: int = 0
    bandwidth_bound: bool = False

    def kernel(self, options: tuple[str, ...] = ()) -> kspec.RawKernel:
        """Return the kernel, compiled with these options."""
        return kspec.RawKernel(self.code, self.name, options)


def floats(count: int, seed: int = 0) -> Any:
    """Return float32 numbers from [0, 1)."""
    return np.random.default_rng(seed).random(count, dtype=np.float32)


def integers(count: int, below: int, dtype: str = "int32", seed: int = 0) -> Any:
    """Return whole numbers from [0, below)."""
    return np.random.default_rng(seed).integers(0, below, count, dtype=dtype)


def permutation(count: int, seed: int = 3) -> Any:
    """Return the numbers from 0 to count - 1 in random order."""
    return np.random.default_rng(seed).permutation(count).astype(np.int32)


def zeros(count: int, dtype: str = "float32") -> Any:
    """Return zeros, for outputs."""
    return np.zeros(count, dtype)


def matrix_shape(elements: int) -> tuple[int, int]:
    """Return the rows and columns of a matrix of 2**k elements, with at least as many columns."""
    rows = 2 ** ((elements.bit_length() - 1) // 2)
    return rows, elements // rows
