"""How a foreign kernel is declared, and how it runs on CuPy, on kspec and as NumPy's reference."""

from __future__ import annotations

import copy
import importlib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class View:
    """An operand that is a view: of `base`, by `take`."""

    base: npt.NDArray[Any]
    take: Callable[[Any], Any]


@dataclass(frozen=True)
class Library:
    """Whose kernels, and whose arrays.

    Attributes
    ----------
    kernels : {"kspec", "cupy"}
        The module with the constructors.
    arrays : {"numpy", "cupy"}
        The module with the arrays.
    """

    kernels: str
    arrays: str

    @property
    def constructors(self) -> Any:
        return importlib.import_module(self.kernels)

    @property
    def jit(self) -> Any:
        return importlib.import_module({"kspec": "kspec.jit", "cupy": "cupyx.jit"}[self.kernels])

    @property
    def xp(self) -> Any:
        return importlib.import_module(self.arrays)

    def fuse(self, function: Callable[..., Any]) -> Any:
        """Return a fused function, also for NumPy's arrays."""
        options = {"device": "host"} if self.arrays == "numpy" else {}
        return self.constructors.fuse(**options)(function)

    def placed(self, operand: Any) -> Any:
        """Return an operand with a copy of its memory, where the kernel runs."""
        if isinstance(operand, View):
            return operand.take(self.placed(operand.base))
        if isinstance(operand, np.ndarray) and operand.dtype.kind != "V":
            return self.xp.array(operand)
        return copy.copy(operand)

    def taken(self, value: Any) -> Any:
        """Return NumPy's copy of an array of this library."""
        assert isinstance(value, self.xp.ndarray | self.xp.generic), type(value)
        return np.array(value.get() if hasattr(value, "get") else value)


@dataclass(frozen=True)
class Foreign:
    """A kernel with one call of it.

    Results are what the call returns, and after that all arrays among its operands: kernels write to them.

    Attributes
    ----------
    name : str
        What is unusual about it.
    make : callable
        Returns the kernel, given the library.
    operands : tuple
        NumPy's arrays, `View`s, and numbers.
    reference : callable
        Does the same to NumPy's arrays, and returns the same.
    keywords : mapping
        Of the call.
    launch : tuple, optional
        Grid and block; for raw and jitted kernels.
    call : callable, optional
        Calls the kernel, given the library, the kernel and the operands.
    tolerance : float
        How much results may differ, relative to themselves.
    """

    name: str
    make: Callable[[Library], Any]
    operands: tuple[Any, ...]
    reference: Callable[..., Any]
    keywords: Mapping[str, Any] = field(default_factory=dict)
    launch: tuple[Any, Any] | None = None
    call: Callable[[Library, Any, tuple[Any, ...]], Any] | None = None
    tolerance: float = 1e-6

    def __str__(self) -> str:
        return self.name.replace(" ", "-")

    def run(self, library: Library) -> list[npt.NDArray[Any]]:
        """Return the results of the kernel that a library makes."""
        with warnings.catch_warnings():  # cupyx.jit is experimental, and says so
            warnings.simplefilter("ignore", FutureWarning)
            kernel = self.make(library)
        placed = tuple(map(library.placed, self.operands))
        if self.call is not None:
            returned = self.call(library, kernel, placed)
        elif self.launch is not None:
            returned = kernel(*self.launch, placed, **self.keywords)
        else:
            returned = kernel(*placed, **self.keywords)
        return [library.taken(one) for one in (*_several(returned), *self._arrays(placed))]

    def expected(self) -> list[npt.NDArray[Any]]:
        """Return the results of the reference."""
        numpy = Library("kspec", "numpy")
        placed = tuple(map(numpy.placed, self.operands))
        returned = self.reference(*placed)
        return [np.asarray(one) for one in (*_several(returned), *self._arrays(placed))]

    def _arrays(self, placed: tuple[Any, ...]) -> list[Any]:
        pairs = zip(self.operands, placed, strict=True)
        return [
            one
            for declared, one in pairs
            if isinstance(declared, View | np.ndarray) and one.dtype.kind != "V"
        ]


def _several(returned: Any) -> tuple[Any, ...]:
    if returned is None:
        return ()
    return returned if isinstance(returned, tuple) else (returned,)


def elementwise(*arguments: Any, **options: Any) -> Callable[[Library], Any]:
    return lambda library: library.constructors.ElementwiseKernel(*arguments, **options)


def reduction(*arguments: Any, **options: Any) -> Callable[[Library], Any]:
    return lambda library: library.constructors.ReductionKernel(*arguments, **options)


def raw(code: str, name: str, *arguments: Any, **options: Any) -> Callable[[Library], Any]:
    return lambda library: library.constructors.RawKernel(code, name, *arguments, **options)


def module(name: str, code: str, **options: Any) -> Callable[[Library], Any]:
    """Return one function of a module."""
    return lambda library: library.constructors.RawModule(code=code, **options).get_function(name)


def drawn(*shape: int, dtype: str = "float32", low: float = -3, high: float = 3) -> Any:
    """Return an array of numbers that depend on its shape and dtype alone."""
    draw = np.random.default_rng([*shape, len(dtype), ord(dtype[0])])
    if np.dtype(dtype).kind in "iu":
        return draw.integers(int(low), int(high), shape).astype(dtype)
    if np.dtype(dtype).kind == "b":
        return draw.random(shape) < 0.5
    values = draw.uniform(low, high, shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * draw.uniform(low, high, shape)
    return values.astype(dtype)
