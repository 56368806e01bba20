"""`rawkernel`: Python functions that are compiled to CUDA kernels, and how they are called.

>>> import numpy as np
>>> from kspec import jit
>>> @jit.rawkernel()
... def twice(x, n):
...     i = jit.grid(1)
...     if i < n:
...         x[i] *= 2
>>> x = np.arange(3, dtype=np.float32)
>>> twice[1, 32](x, 3)                                                     # doctest: +SKIP

`kspec.jit` makes the CUDA C++ of a function for the types of a call's arguments; here kernels are
kept by these types and launched.
"""

from __future__ import annotations

import functools
import inspect
import linecache
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kspec.errors import (
    ArgumentTypeError,
    JitNotSupportedError,
    JitOverflowError,
    KspecError,
    NotCompiledError,
    shorten,
)
from kspec.ir.types import ArrayType, Type, is_record
from kspec.jit.build_ir import JitProgram, build
from kspec.jit.builtins import OnlyInKernels
from kspec.jit.capture import Captured, capture, carry_source
from kspec.jit.scope import ProgramBuilder, Scope
from kspec.jit.syntax.functions import LANGUAGE, parameter_names, parameter_type
from kspec.jit.types import MODES, type_of_constant
from kspec.locks import make_lock
from kspec.model.stages import CudaSource
from kspec.pickling import PickledByName
from kspec.runtime.driver.launch import LaunchOptions
from kspec.runtime.libraries.untraced import untraced
from kspec.runtime.memory import dtype_name
from kspec.runtime.modules.inspection import Inspection, inspect_source, lto_ir
from kspec.runtime.modules.loader import KernelLoader
from kspec.runtime.modules.provider import CompilingProvider, OneSource, made_in_python
from kspec.runtime.raw.untyped_args import RawArgument
from kspec.runtime.raw.view_kernel import ViewCaller, ViewKernel, is_wide

if TYPE_CHECKING:
    from kspec.spec.models import RawSpec

__all__ = ["DeviceFunction", "JitKernel", "rawkernel"]


def rawkernel(
    *, mode: str = "cuda", device: bool = False
) -> Callable[[Callable[..., Any]], JitKernel | DeviceFunction]:
    """Make a CUDA kernel of a Python function.

    Parameters
    ----------
    mode : {"cuda", "numpy"}
        Typing rules: CUDA's, by which ``0.5`` is a float32 and integers are int32, or NumPy's.
    device : bool, default False
        Whether it is a function that kernels call, and no kernel.

    Returns
    -------
    callable
        The decorator.

    Raises
    ------
    ValueError
        If there is no such `mode`.
    JitError
        If the function's source cannot be found.
    """
    if mode not in MODES:
        raise ValueError(f"mode must be 'cuda' or 'numpy', not {mode!r}")

    def decorate(function: Callable[..., Any]) -> JitKernel | DeviceFunction:
        return DeviceFunction(function) if device else JitKernel(function, mode)

    return decorate


class DeviceFunction(PickledByName):
    """A function that kernels call.

    Parameters
    ----------
    function : callable
        The Python function.

    Attributes
    ----------
    device_function : callable
        The same.
    """

    __name__: str

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        _checked(capture(function))
        self.device_function = function

    def made_of(self) -> tuple[Any, ...]:
        """Return the arguments that make another one."""
        return (carry_source(self.device_function),)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Raise `RuntimeError`: it is called by kernels."""
        raise OnlyInKernels(f"{self.__name__} is a device function: kernels call it")


class JitKernel(PickledByName, ViewCaller):
    """A kernel made of a Python function.

    It is launched by ``kernel[grid, block](x, y)`` or by ``kernel((grid,), (block,), (x, y))``.

    Parameters
    ----------
    function : callable
        The Python function.
    mode : {"cuda", "numpy"}
        Typing rules.
    """

    is_kernel = True
    __name__: str

    def __init__(self, function: Callable[..., Any], mode: str = "cuda") -> None:
        functools.update_wrapper(self, function)
        captured = _checked(capture(function))
        self.function = function
        self.mode = mode
        self._signature = inspect.signature(function)
        self._names = tuple(captured.parameters)
        # Annotated parameters have their type whatever they are given.
        scope = Scope(ProgramBuilder(mode, LANGUAGE), captured)
        self._annotated = {
            name: dtype
            for name in self._names
            if (dtype := parameter_type(scope, captured, name)) is not None
            and not is_record(dtype)  # nothing else becomes a record
        }
        self._kernels: dict[tuple[Type, ...], tuple[JitProgram, ViewKernel, str]] = {}
        self._lock = make_lock()
        self._forget()

    @property
    def name(self) -> str:
        """Name of the function."""
        return self.__name__

    def made_of(self) -> tuple[Any, ...]:
        """Return the arguments that make another one."""
        return carry_source(self.function), self.mode

    def __getitem__(self, sizes: tuple[Any, Any]) -> Callable[..., None]:
        """Return a function that launches the kernel with a grid and blocks of some size."""
        if not isinstance(sizes, tuple) or len(sizes) != 2:
            raise ValueError(f"{self.name}: write kernel[grid, block](...)")
        grid, block = sizes
        return functools.partial(
            self._launch,
            grid if type(grid) is tuple else (grid,),
            block if type(block) is tuple else (block,),
        )

    @untraced
    def _launch(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        *args: Any,
        shared_mem: int = 0,
        stream: Any = None,
        **keywords: Any,
    ) -> None:
        try:
            if keywords:
                args = self._bound(args, keywords)
            self._call_cache.last(self, grid, block, args, shared_mem, stream, None)
        except KspecError as error:
            shorten(error)
            raise

    @untraced
    def __call__(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: Sequence[Any],
        shared_mem: int = 0,
        stream: Any = None,
        *,
        sanitize: str | None = None,
        order: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Launch the kernel.

        Parameters
        ----------
        grid, block : tuple of int
            Number of blocks, and of threads in each; one to three numbers.
        args : sequence
            Arrays, and Python or NumPy numbers.
        shared_mem : int, default 0
            Dynamic shared memory in bytes.
        stream : stream, optional
            Default: the current stream of the first array's library.
        sanitize, order, timeout : optional
            What to check on the host device (`kspec.Checks`).

        Raises
        ------
        JitError
            If the function cannot be a kernel for these arguments; it lists all problems.
        ArgumentTypeError
            If there are too many or too few arguments, or one that kernels cannot take.
        CompileError
            If the compiler refuses what was made of the function.
        LaunchError
            If the sizes are impossible.
        """
        try:
            if sanitize is None and order is None and timeout is None:
                self._call_cache.last(self, grid, block, args, shared_mem, stream, None)
            else:
                options = LaunchOptions(
                    stream, shared_mem, sanitize=sanitize, order=order, timeout=timeout
                )
                self.prepare(grid, block, args, options).run()
        except KspecError as error:
            shorten(error)
            raise

    @property
    def cached_codes(self) -> dict[tuple[Type, ...], str]:
        """CUDA C++ by the types of the arguments, of all kernels so far."""
        if not self._kernels:
            warnings.warn(f"{self.name} has not been called yet", UserWarning, stacklevel=2)
        return {types: code for types, (_, _, code) in self._kernels.items()}

    @property
    def cached_code(self) -> str:
        """The CUDA C++ of the first of them; `NotCompiledError` if there is none yet."""
        for _, _, code in self._kernels.values():
            return code
        raise NotCompiledError(f"{self.name} has not been called yet")

    def ir(self, *args: Any) -> str:
        """Return the intermediate representation of the function for some arguments."""
        return self._entry(self._given(args))[0].ir()

    def inspect(self, *args: Any, arch: str | None = None) -> Inspection:
        """Return every stage of the function's translation for some arguments.

        Parameters
        ----------
        *args
            As for a call; nothing is launched.
        arch : str, optional
            Such as ``"sm_90"``; default: that of the current GPU.
        """
        built, _, code = self._entry(self._given(args))
        captured = built.captured[0]
        node = captured.node
        lines = captured.lines[node.lineno - 1 : node.end_lineno]
        return inspect_source("\n".join(lines), built.ir(), code, arch)

    def get_lto_ir(self, args: Sequence[Any], arch: str | None = None) -> bytes:
        """Return the function as LTO-IR: a device function that other programs are linked with.

        It has its own name, without mangling (``extern "C"``), and may return a value. Arrays are
        passed as ``kspec::View`` of ``kspec/view.cuh``.

        Parameters
        ----------
        args : sequence
            As for a call; nothing is launched.
        arch : str, optional
            Such as ``"sm_90"``; default: that of the current GPU.

        Raises
        ------
        JitError
            With everything that is wrong.
        CompileError
            If NVRTC refuses it.
        """
        built = build(capture(self.function), self._given(args), self.mode, exported=True)
        return lto_ir(built.text(), arch)

    def to_spec(self, *args: Any) -> tuple[RawSpec, ...]:
        """Return the kernel for some arguments as a spec, as spec files have them.

        Its arrays are C-ordered. Arguments as for a call; nothing is launched.
        """
        from kspec.jit.freezing import raw_spec  # calls need no pydantic

        given = tuple(
            replace(one, contiguous=True) if isinstance(one, ArrayType) else one
            for one in self._given(args)
        )
        doc = inspect.getdoc(self.function) or f"{self.name}, made of a Python function."
        return (raw_spec(self._entry(given)[0], doc),)

    def complete(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """Return arguments with the defaults of those that are left out."""
        return tuple(args) if len(args) == len(self._names) else self._bound(tuple(args), {})

    def kernel_for(self, operands: Sequence[RawArgument]) -> ViewKernel:
        """Return the kernel for some arguments; make it if there is none."""
        given = tuple(map(self._type_of, self._names, operands))
        return self._entry(given)[1]

    def _bound(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
        try:
            bound = self._signature.bind(*args, **keywords)
        except TypeError as error:
            raise ArgumentTypeError(f"{self.name}: {error}") from None
        bound.apply_defaults()
        return tuple(bound.arguments[name] for name in self._names)

    def _given(self, args: Sequence[Any]) -> tuple[Type, ...]:
        return tuple(map(self._type_of, self._names, self.operands(args)))

    def _type_of(self, name: str, operand: RawArgument) -> Type:
        view, value = operand.view, operand.value
        if view is not None:
            wide = is_wide(view)
            return ArrayType(view.dtype, len(view.shape), view.is_c_contiguous, wide)
        where = operand.where
        if name in self._annotated:
            return self._annotated[name]
        if isinstance(value, str):
            raise JitNotSupportedError(f"{where} is a str: kernels take arrays and numbers")
        if isinstance(value, np.void):
            return dtype_name(value.dtype)
        try:
            return type_of_constant(self.mode, value)
        except OverflowError as error:
            raise JitOverflowError(f"{where}: {error}") from None
        except TypeError:
            raise ArgumentTypeError(
                f"{where} must be an array or a number, not {type(value).__name__}"
            ) from None

    def _entry(self, given: tuple[Type, ...]) -> tuple[JitProgram, ViewKernel, str]:
        with self._lock:
            entry = self._kernels.get(given)
            if entry is not None and entry[0].is_stale():
                entry = None
                self._forget()
            if entry is None:
                entry = self._make(given)
                self._kernels[given] = entry
            return entry

    def _make(self, given: tuple[Type, ...]) -> tuple[JitProgram, ViewKernel, str]:
        built = build(capture(self.function), given, self.mode)
        code = built.text()
        provider = CompilingProvider(OneSource(CudaSource("kernel.cu", code)))
        lines = functools.partial(_line_of, {one.path for one in built.captured})
        kernel = ViewKernel(
            built.name,
            KernelLoader([provider], made_in_python, line_of=lines),
            tuple(one if isinstance(one, str) else "" for one in given),
            built.written,
            built.cooperative,
            built.is_stale,
        )
        return built, kernel, code


def _line_of(paths: set[str], path: str, line: int) -> str:
    """Return a line of a Python file that a kernel is made of."""
    return linecache.getline(path, line).rstrip("\n") if path in paths else ""


def _checked(captured: Captured) -> Captured:
    """Return a function whose parameters kernels have."""
    try:
        parameter_names(captured)
    except NotImplementedError as error:
        raise JitNotSupportedError(str(error)) from None
    return captured
