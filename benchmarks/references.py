"""Array functions by one name for NumPy, CuPy and torch: what results are checked with.

CuPy compiles its functions when they are first used, a tenth of a second each; torch has them
compiled, so the checks of a whole run are done with torch where it is there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

import kspec

Axis = tuple[int, ...]
_WIDE = {"f": "float64", "c": "complex128", "i": "int64", "u": "int64", "b": "bool"}


class Ops(Protocol):
    """What references and comparisons are written with."""

    def of(self, array: Any) -> Any:
        """Return an array of the library the functions are for, without a copy if possible."""

    def wide(self, x: Any) -> Any:
        """Return x in the widest type of its kind."""

    def convert(self, x: Any, dtype: str) -> Any:
        """Return x in the type it is converted to, or a wider one."""

    def sqrt(self, x: Any) -> Any: ...
    def exp(self, x: Any) -> Any: ...
    def cos(self, x: Any) -> Any: ...
    def sin(self, x: Any) -> Any: ...
    def erfc(self, x: Any) -> Any: ...
    def log(self, x: Any) -> Any: ...
    def abs(self, x: Any) -> Any: ...
    def floor(self, x: Any) -> Any: ...
    def maximum(self, x: Any, y: Any) -> Any: ...
    def flip(self, x: Any) -> Any: ...
    def with_edges(self, x: Any, widths: Sequence[int]) -> Any:
        """Return x with the nearest elements that many times around it, along each axis."""

    def positions(self, x: Any) -> Any:
        """Return the position of every element in C order."""

    def sum(self, x: Any, axis: Axis) -> Any: ...
    def amax(self, x: Any, axis: Axis) -> Any: ...
    def argmax(self, x: Any, axis: Axis) -> Any: ...
    def variance(self, x: Any, axis: Axis) -> Any: ...
    def cumsum(self, x: Any, axis: Axis) -> Any: ...
    def segment_sums(self, x: Any, bounds: Any) -> Any:
        """Return the sums of segments of one axis, from one bound to the next."""

    def key_sums(self, x: Any, keys: Any, n: int) -> Any:
        """Return the sums of the elements of each of n keys."""

    def take(self, x: Any, places: Any) -> Any: ...
    def solve(self, A: Any, b: Any) -> Any: ...
    def cholesky(self, A: Any) -> Any: ...
    def lower(self, A: Any) -> Any:
        """Return matrices with zeros above the diagonal."""

    def transposed(self, A: Any) -> Any: ...
    def identity(self, like: Any, n: int) -> Any:
        """Return an identity matrix where another array is, in the widest type."""

    def stack(self, parts: Sequence[Any]) -> Any:
        """Return arrays side by side along a new last axis."""

    def joined(self, parts: Sequence[Any]) -> Any:
        """Return arrays after each other along the first axis."""

    def count(self, x: Any, axis: Axis) -> int:
        """Return how many elements each output is made of."""

    def narrow(self, x: Any, dtype: str) -> Any:
        """Return integers as a store to `dtype` leaves them; others unchanged."""


class ArrayModuleOps:
    """NumPy, or CuPy.

    Parameters
    ----------
    module : module
        The array module.
    widen : bool
        False: compute in the dtype of the arrays, as a user of the module would.
    """

    def __init__(self, module: Any, widen: bool = True) -> None:
        self._xp = module
        self._widen = widen
        for name in ("sqrt", "exp", "cos", "sin", "log", "abs", "floor", "maximum"):
            setattr(self, name, getattr(module, name))

    def of(self, array: Any) -> Any:
        return array

    def wide(self, x: Any) -> Any:
        return x.astype(_WIDE[x.dtype.kind]) if self._widen else x

    def convert(self, x: Any, dtype: str) -> Any:
        return self.wide(x) if self._widen else x.astype(dtype)

    def erfc(self, x: Any) -> Any:
        if self._xp is np:
            return np.vectorize(math.erfc, otypes=[np.float64])(x)
        from cupyx.scipy.special import erfc

        return erfc(x)

    def flip(self, x: Any) -> Any:
        return self._xp.flip(x)

    def with_edges(self, x: Any, widths: Sequence[int]) -> Any:
        return self._xp.pad(x, [(one, one) for one in widths], mode="edge")

    def positions(self, x: Any) -> Any:
        return self._xp.arange(x.size).reshape(x.shape)

    def sum(self, x: Any, axis: Axis) -> Any:
        return x.sum(axis=axis)

    def amax(self, x: Any, axis: Axis) -> Any:
        return x.max(axis=axis)

    def argmax(self, x: Any, axis: Axis) -> Any:
        return x.argmax(axis=None if len(axis) == x.ndim else axis[0])

    def variance(self, x: Any, axis: Axis) -> Any:
        return x.var(axis=axis)

    def cumsum(self, x: Any, axis: Axis) -> Any:
        return x.cumsum(axis=axis[0])

    def segment_sums(self, x: Any, bounds: Any) -> Any:
        before = self._xp.concatenate([self._xp.zeros(1, x.dtype), x.cumsum()])
        return before[bounds[1:]] - before[bounds[:-1]]

    def key_sums(self, x: Any, keys: Any, n: int) -> Any:
        return self._xp.bincount(keys, x, n)

    def take(self, x: Any, places: Any) -> Any:
        return x[places]

    def solve(self, A: Any, b: Any) -> Any:
        return self._xp.linalg.solve(A, b[..., None])[..., 0]

    def cholesky(self, A: Any) -> Any:
        return self._xp.linalg.cholesky(A)

    def lower(self, A: Any) -> Any:
        return self._xp.tril(A)

    def transposed(self, A: Any) -> Any:
        return A.swapaxes(-1, -2)

    def identity(self, like: Any, n: int) -> Any:
        return self._xp.eye(n, dtype="float64" if self._widen else like.dtype)

    def stack(self, parts: Sequence[Any]) -> Any:
        return self._xp.stack(parts, axis=-1)

    def joined(self, parts: Sequence[Any]) -> Any:
        return self._xp.concatenate(parts)

    def count(self, x: Any, axis: Axis) -> int:
        return math.prod(x.shape[k] for k in axis)

    def narrow(self, x: Any, dtype: str) -> Any:
        return x.astype(dtype) if np.dtype(dtype).kind in "iu" else x


class TorchOps:
    """torch; arrays of other libraries are viewed through DLPack."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        for name in ("sqrt", "exp", "cos", "sin", "log", "abs", "floor", "maximum"):
            setattr(self, name, getattr(torch, name))
        self.erfc = torch.special.erfc

    def of(self, array: Any) -> Any:
        if isinstance(array, self._torch.Tensor):
            return array
        if _runs_backwards(array):
            array = _copied(array)
        return as_tensor(self._torch, array)

    def wide(self, x: Any) -> Any:
        if x.dtype == self._torch.bool:
            return x
        if x.is_complex():
            return x.to(self._torch.complex128)
        return x.to(self._torch.float64 if x.is_floating_point() else self._torch.int64)

    def convert(self, x: Any, dtype: str) -> Any:
        return self.wide(x)

    def flip(self, x: Any) -> Any:
        return self._torch.flip(x, tuple(range(x.ndim)))

    def with_edges(self, x: Any, widths: Sequence[int]) -> Any:
        for axis, one in enumerate(widths):
            places = self._torch.arange(-one, x.shape[axis] + one, device=x.device)
            x = x.index_select(axis, places.clamp(0, x.shape[axis] - 1))
        return x

    def positions(self, x: Any) -> Any:
        return self._torch.arange(x.numel(), device=x.device).reshape(x.shape)

    def sum(self, x: Any, axis: Axis) -> Any:
        return self._torch.sum(x, dim=axis)

    def amax(self, x: Any, axis: Axis) -> Any:
        return self._torch.amax(x, dim=axis)

    def argmax(self, x: Any, axis: Axis) -> Any:
        return self._torch.argmax(x, dim=None if len(axis) == x.ndim else axis[0])

    def variance(self, x: Any, axis: Axis) -> Any:
        return self._torch.var(x, dim=axis, correction=0)

    def cumsum(self, x: Any, axis: Axis) -> Any:
        return self._torch.cumsum(x, dim=axis[0])

    def segment_sums(self, x: Any, bounds: Any) -> Any:
        before = self._torch.nn.functional.pad(self._torch.cumsum(x, dim=0), (1, 0))
        return before[bounds[1:]] - before[bounds[:-1]]

    def key_sums(self, x: Any, keys: Any, n: int) -> Any:
        return self._torch.bincount(keys, x, n)

    def take(self, x: Any, places: Any) -> Any:
        return x[places.long()]

    def solve(self, A: Any, b: Any) -> Any:
        return self._torch.linalg.solve(A, b)

    def cholesky(self, A: Any) -> Any:
        return self._torch.linalg.cholesky(A)

    def lower(self, A: Any) -> Any:
        return self._torch.tril(A)

    def transposed(self, A: Any) -> Any:
        return A.transpose(-1, -2)

    def identity(self, like: Any, n: int) -> Any:
        return self._torch.eye(n, dtype=self._torch.float64, device=like.device)

    def stack(self, parts: Sequence[Any]) -> Any:
        return self._torch.stack(tuple(parts), dim=-1)

    def joined(self, parts: Sequence[Any]) -> Any:
        return self._torch.cat(tuple(parts))

    def count(self, x: Any, axis: Axis) -> int:
        return math.prod(x.shape[k] for k in axis)

    def narrow(self, x: Any, dtype: str) -> Any:
        whole = np.dtype(dtype).kind in "iu"
        return x.to(getattr(self._torch, dtype)) if whole else x


def as_tensor(torch: Any, array: Any) -> Any:
    """Return a tensor on the memory of an array of NumPy, CuPy or kspec, or a tensor itself.

    Raises
    ------
    ValueError
        For negative strides: torch has none, and ends the process when it is given some.
    """
    if isinstance(array, getattr(torch, "Tensor", ())):
        return array
    if _runs_backwards(array):
        raise ValueError("torch has no negative strides")
    return torch.from_dlpack(array)


def _runs_backwards(array: Any) -> bool:
    return any(stride < 0 for stride in array.strides)


def _copied(array: Any) -> Any:
    if isinstance(array, kspec.DeviceArray):
        return kspec.asarray(kspec.asnumpy(array), device=array.device)
    return array.copy()


def worst_error(ops: Ops, got: Any, want: Any, dtype: str, tolerance: float) -> float:
    """Return the worst error of an output in units of what is allowed; above 1 it is wrong.

    Errors are relative to the wanted value plus the average one, so that values near zero do not
    count as wrong for having been rounded.  Integers and booleans are exact: any difference is
    infinite.
    """
    got = ops.of(got)
    if tuple(got.shape) != tuple(want.shape):
        raise ValueError(f"shape {tuple(got.shape)}, not {tuple(want.shape)}")
    if np.dtype(dtype).kind in "biu":
        return math.inf if bool((got != ops.narrow(want, dtype)).any()) else 0.0
    size = ops.abs(want)
    error = ops.abs(ops.wide(got) - want) / ((size + size.mean() + 1e-300) * tolerance)
    worst = float(error.max())
    return math.inf if math.isnan(worst) else worst
