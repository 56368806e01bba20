"""Types of generated functions: what they take, and that they return the caller's kind.

>>> from typing import assert_type                                     # doctest: +SKIP
>>> assert_type(norms.l2norm(np.ones(3)), np.ndarray)                  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np


class AnyArray(Protocol):
    """An array of any supported library: NumPy, CuPy, kspec's own, ..."""

    @property
    def shape(self) -> Any:
        """Extents."""

    @property
    def dtype(self) -> Any:
        """Element type."""


class AnyStream(Protocol):
    """A stream object with a handle, such as CuPy's."""

    @property
    def ptr(self) -> int:
        """The stream's handle."""


ArrayT = TypeVar("ArrayT", bound=AnyArray)
Integer = int | np.integer[Any]
Scalar = bool | int | float | complex | np.number[Any] | np.bool_
Stream = int | AnyStream
Axis = int | Sequence[int]
Dim3 = tuple[int] | tuple[int, int] | tuple[int, int, int]

# Dtypes of NumPy's arrays in signatures where they differ.
DType0 = TypeVar("DType0", bound=np.generic)
DType1 = TypeVar("DType1", bound=np.generic)
DType2 = TypeVar("DType2", bound=np.generic)
DType3 = TypeVar("DType3", bound=np.generic)
DType4 = TypeVar("DType4", bound=np.generic)
DType5 = TypeVar("DType5", bound=np.generic)
DType6 = TypeVar("DType6", bound=np.generic)
DType7 = TypeVar("DType7", bound=np.generic)
