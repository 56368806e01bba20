"""kspec's classes in CuPy's modules: what CuPy's Python code declares is then made by kspec.

CuPy's compiled modules keep their own classes, and so do kernels that CuPy makes while it is imported.
Nothing else of kspec is changed: headers, names and options have to be found as users' kernels find them.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np

import kspec

CLASSES = ("ElementwiseKernel", "ReductionKernel", "RawKernel", "RawModule")


class Count:
    """How often kspec was asked for a kernel, by a call or from a module."""

    used = 0


def install() -> None:
    """Replace the classes, `fuse` and ufuncs, for all modules that are imported from now on."""
    importlib.import_module("cupy")
    importlib.import_module("cupy._core")
    replacements: dict[str, Any] = {name: _counted(getattr(kspec, name)) for name in CLASSES}
    replacements["fuse"] = _fuse
    own = sys.modules["cupy._core"].create_ufunc
    replacements["create_ufunc"] = lambda *args, **kwargs: Ufunc(own, *args, **kwargs)
    for key, module in list(sys.modules.items()):
        if key.split(".")[0] in ("cupy", "cupyx"):
            for name, new in replacements.items():
                if callable(vars(module).get(name)):
                    setattr(module, name, new)


def _counted(cls: Any) -> type:
    """Return a class that counts the uses of its instances, and returns CuPy's arrays."""
    method = "get_function" if cls is kspec.RawModule else "__call__"

    def use(self: Any, *args: Any, **kwargs: Any) -> Any:
        Count.used += 1
        returned = getattr(super(kind, self), method)(*args, **kwargs)
        if isinstance(returned, tuple):
            return tuple(map(_cupys, returned))
        return _cupys(returned)

    kind = type(cls.__name__, (cls,), {method: use})
    return kind


def _cupys(value: Any) -> Any:
    """Return CuPy's array over an array of kspec's, which calls without any array return."""
    return sys.modules["cupy"].asarray(value) if isinstance(value, kspec.DeviceArray) else value


def _fuse(*args: Any, **kwargs: Any) -> Any:
    """Return what `kspec.fuse` does, with counted calls."""
    if not (args and callable(args[0])):
        return lambda function: _fuse(function, *args, **kwargs)
    fused = kspec.fuse(*args, **kwargs)

    def call(*values: Any) -> Any:
        Count.used += 1
        return fused(*values)

    return call


class Ufunc:
    """A ufunc of CuPy's, each of whose loops is an `ElementwiseKernel` of kspec.

    Calls with keywords or without arrays, and all else, are CuPy's own ufunc's.
    """

    def __init__(
        self,
        create: Any,
        name: str,
        ops: tuple[Any, ...],
        routine: Any = None,
        preamble: str = "",
        doc: str = "",
        default_casting: Any = None,
        loop_prep: str = "",
        **options: Any,
    ) -> None:
        self._own = create(name, ops, routine, preamble, doc, default_casting, loop_prep, **options)
        loops = [op if isinstance(op, tuple) else (op, routine) for op in ops]
        self._loops = [(types, code) for types, code in loops if isinstance(code, str)]
        self._name, self._preamble, self._loop_prep = name, preamble, loop_prep
        self._kernels: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        array = sys.modules["cupy"].ndarray
        loops = self._loops if not kwargs and any(isinstance(one, array) for one in args) else []
        for types, code in loops:
            inputs, outputs = types.split("->")
            if len(args) == len(inputs) and all(map(_fits, args, inputs)):
                if types not in self._kernels:
                    self._kernels[types] = self._kernel(inputs, outputs, code)
                return self._kernels[types](*map(_cast, args, inputs))
        return self._own(*args, **kwargs)

    def _kernel(self, inputs: str, outputs: str, code: str) -> Any:
        cupy = sys.modules["cupy"]
        scalar = importlib.import_module("cupy._core._scalar")
        names = [f"in{i}" for i in range(len(inputs))] + [f"out{i}" for i in range(len(outputs))]
        dtypes = [np.dtype(char) for char in inputs + outputs]
        params = [f"{dtype.name} {name}" for dtype, name in zip(dtypes, names, strict=True)]
        typedefs = "".join(
            f"typedef {scalar.get_typename(dtype)} {name}_type;\n"
            for dtype, name in zip(dtypes, names, strict=True)
        )
        return cupy.ElementwiseKernel(
            ", ".join(params[: len(inputs)]),
            ", ".join(params[len(inputs) :]),
            code,
            self._name,
            preamble=typedefs + self._preamble,
            loop_prep=self._loop_prep,
        )


def _cast(argument: Any, char: str) -> Any:
    """Return an array in the dtype of the loop, as ufuncs convert them; numbers as they are."""
    return argument.astype(char, copy=False) if hasattr(argument, "astype") else argument


def _fits(argument: Any, char: str) -> bool:
    if isinstance(argument, bool | int | float | complex):  # Python's numbers have no width
        return bool(np.dtype(type(argument)).kind <= np.dtype(char).kind)
    return bool(np.can_cast(argument.dtype, char))
