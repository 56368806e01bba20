"""Raw CUDA source: `RawModule`, `RawKernel`, and the kernels that raw specs declare.

The device is decided by the arguments: CUDA arrays launch on their GPU, NumPy arrays run the
same source on the host device.  With declared parameters, arguments are checked and converted;
without, they are packed by CuPy's rules.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kspec import dtypes
from kspec.checks import Checks
from kspec.declaration import RawDeclaration
from kspec.errors import ArgumentTypeError, LoadError, NotSupportedError, UnboundPlaceholderError
from kspec.host.device import Region
from kspec.runtime import marshal
from kspec.runtime.checked import checks_of_call, regions_of_call
from kspec.runtime.device import HOST, Device, default_device, parse_device
from kspec.runtime.interop import Library, library_of, stream_handle
from kspec.runtime.launch import make_launch
from kspec.runtime.memory import Symbol
from kspec.runtime.provider import CompilingProvider, KernelLoader, Wanted
from kspec.runtime.views import ArrayView
from kspec.signature import CParam
from kspec.stages import CudaSource, Image, RawSymbol

_FORMATS = {".cubin": "cubin", ".ptx": "ptx", ".fatbin": "fatbin"}


class RawKernel:
    """A kernel of raw CUDA source.

    Parameters
    ----------
    code : str
        CUDA C++.
    name : str
        Name of the kernel, as the compiler lowers it: usually of an ``extern "C"`` function.
    options : tuple of str, optional
        Compiler options.
    backend : {"nvrtc"}, default "nvrtc"
        Compiler.
    enable_cooperative_groups : bool, default False
        Launch so that all blocks are resident and can wait for each other
        (``cooperative_groups::this_grid().sync()``).

    Raises
    ------
    ArgumentTypeError
        If `options` is no tuple.
    NotSupportedError
        For parts of CuPy's interface that are still missing.

    Attributes
    ----------
    checks : Checks or None
        What to check when it runs on the host device; None: as `kspec.checking` or the
        environment say.

    Examples
    --------
    >>> import numpy as np
    >>> code = 'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }'
    >>> twice = RawKernel(code, "twice")
    >>> x = np.arange(3, dtype=np.float32)
    >>> twice((1,), (3,), (x,))
    >>> x
    array([0., 2., 4.], dtype=float32)
    """

    def __init__(
        self,
        code: str,
        name: str,
        options: tuple[str, ...] = (),
        backend: str = "nvrtc",
        *,
        translate_cucomplex: bool = False,
        enable_cooperative_groups: bool = False,
        jitify: bool | None = None,
    ) -> None:
        module = RawModule(
            code=code,
            options=options,
            backend=backend,
            translate_cucomplex=translate_cucomplex,
            enable_cooperative_groups=enable_cooperative_groups,
            jitify=jitify,
        )
        self._attach(module, name)

    def _attach(self, module: RawModule, name: str) -> None:
        self._module = module
        self.checks: Checks | None = None
        self.name = name
        self.__name__ = name
        self.code = module.code
        self.options = module.options
        self.backend = module.backend
        self.enable_cooperative_groups = module.enable_cooperative_groups
        self.file_path = module.file_path

    def __call__(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: Sequence[Any],
        *,
        shared_mem: int = 0,
        stream: Any = None,
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
            Arrays pass their address; Python int, float, complex and bool pass 8, 8, 16 and 1
            bytes, NumPy scalars their own, None a null pointer.
        shared_mem : int, default 0
            Dynamic shared memory in bytes.
        stream : stream, optional
            Default: the current stream of the first array's library.
        sanitize, order, timeout : optional
            What to check on the host device (`kspec.Checks`); default: as the kernel's `checks`,
            `kspec.checking` or the environment say.

        Raises
        ------
        ArgumentTypeError
            For an argument no kernel can take, or arrays on several devices.
        LaunchError
            If the sizes are impossible, or the blocks of a cooperative launch can not all be
            resident.
        """
        operands = [_View(number, value) for number, value in enumerate(args)]
        device, library = _place(self.name, operands)
        parameters = [_pack_undeclared(self.name, operand, device) for operand in operands]
        handle = _stream(stream, library, device)
        checks = checks_of_call(self.name, device, self.checks, sanitize, order, timeout)
        regions = _regions(checks, operands)
        cooperative = self.enable_cooperative_groups
        launch = make_launch(grid, block, shared_mem, handle, checks, regions, cooperative)
        kernel = self._module.loader.kernel(RawSymbol(self.name), device, checks.sanitize)
        _check_floats(self.name, operands, kernel.parameter_sizes)
        kernel.launch(launch, marshal.ParameterBlock(parameters))

    def compile(self, log_stream: Any = None) -> None:
        """Compile for the default device now; the compiler's log goes to `log_stream`."""
        self._module.compile(log_stream)


class RawModule:
    """CUDA source or a compiled image with several kernels.

    Parameters
    ----------
    code : str, optional
        CUDA C++; exclusive with `path`.
    path : str, optional
        A ``.cubin``, ``.ptx`` or ``.fatbin`` file.
    options : tuple of str, optional
        Compiler options.
    backend : {"nvrtc"}, default "nvrtc"
        Compiler.
    enable_cooperative_groups : bool, default False
        For each of its kernels, as for `RawKernel`.
    name_expressions : sequence of str, optional
        Kernels to instantiate, such as ``"fx3<float>"``.

    Raises
    ------
    ArgumentTypeError
        If neither or both of `code` and `path` are given, or `options` is no tuple.
    ValueError
        If `name_expressions` come with `path`.
    NotSupportedError
        For parts of CuPy's interface that are still missing.
    """

    def __init__(
        self,
        *,
        code: str | None = None,
        path: str | None = None,
        options: tuple[str, ...] = (),
        backend: str = "nvrtc",
        translate_cucomplex: bool = False,
        enable_cooperative_groups: bool = False,
        name_expressions: Sequence[str] | None = None,
        jitify: bool | None = None,
    ) -> None:
        if (code is None) == (path is None):
            raise ArgumentTypeError("give exactly one of code and path")
        if not isinstance(options, tuple):
            raise ArgumentTypeError(f"options must be a tuple, not {type(options).__name__}")
        if isinstance(name_expressions, str):
            raise ArgumentTypeError("name_expressions must be a sequence of strings, not a string")
        if name_expressions and path is not None:
            raise ValueError("name_expressions need code; an image already has its kernels")
        _refuse_missing(backend, translate_cucomplex, jitify)
        self.code = code
        self.file_path = path
        self.options = options
        self.backend = backend
        self.enable_cooperative_groups = enable_cooperative_groups
        self.name_expressions = tuple(name_expressions or ())
        self.loader = KernelLoader([self._provider()])

    def get_function(self, name: str) -> RawKernel:
        """Return a kernel by its name, or by one of the name expressions as it was given.

        Raises
        ------
        CompileError
            If the source does not compile.
        LoadError
            If there is no such kernel ("named symbol not found").
        """
        self.loader.kernel(RawSymbol(name), self._default_device())
        kernel = RawKernel.__new__(RawKernel)
        kernel._attach(self, name)
        return kernel

    def get_global(self, name: str, device: Device | str | None = None) -> Symbol:
        """Return a ``__constant__`` or ``__device__`` variable: its address, size and elements.

        Parameters
        ----------
        name : str
            Of a variable at namespace scope, or one of the name expressions (``"&ns::table"``),
            which CUDA needs for variables that are not ``extern "C"`` and in a namespace.
        device : {"host", "cuda", "cuda:N"}, optional
            Which device's copy; default: the current CUDA device if there is one, else the host.

        Raises
        ------
        CompileError
            If the source does not compile.
        LoadError
            If there is no such variable ("named symbol not found").
        """
        place = self._default_device() if device is None else parse_device(device)
        image, module = self.loader.module(RawSymbol(name), place)
        ptr, nbytes = module.get_global(image.symbols.get(name, name))
        return Symbol(name, ptr, nbytes, place, module)

    def compile(self, log_stream: Any = None) -> None:
        """Compile for the default device now; the compiler's log goes to `log_stream`."""
        image = self.loader.image(RawSymbol(""), self._default_device())
        if log_stream is not None:
            log_stream.write(image.log)

    def _default_device(self) -> Device:
        if self.file_path is not None:
            return Device("cuda") if default_device() is HOST else default_device()
        return default_device()

    def _provider(self) -> CompilingProvider | _FileProvider:
        if self.file_path is not None:
            return _FileProvider(Path(self.file_path))
        source = CudaSource("kernel.cu", self.code or "", self.name_expressions, (), self.options)
        return CompilingProvider(lambda wanted: source)


class _FileProvider:
    """Answers with an image the user compiled."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._image: Image | None = None

    def find(self, wanted: Wanted, device: Device, sanitize: tuple[str, ...] = ()) -> Image | None:
        """Return the file's image; raise `LoadError` if it can not be read."""
        if self._image is None:
            try:
                code = self._path.read_bytes()
            except OSError as error:
                raise LoadError(f"CUDA_ERROR_FILE_NOT_FOUND: {error}") from error
            kind = _FORMATS.get(self._path.suffix, "cubin")
            self._image = Image(kind, "unknown", code, {})
        return self._image

    def describe(self) -> str:
        """Return one line for the error that nothing was found."""
        return f"{self._path} has no such kernel"


class RawCallable:
    """A raw kernel that a spec declares.

    Parameters
    ----------
    declaration : RawDeclaration
        Its parameters and name expressions.
    loader : KernelLoader
        Where its compiled kernels come from.
    """

    def __init__(self, declaration: RawDeclaration, loader: KernelLoader) -> None:
        self.declaration = declaration
        self.checks: Checks | None = None
        self._loader = loader
        self.__name__ = declaration.name
        self.__doc__ = declaration.doc or type(self).__doc__

    def __call__(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: Sequence[Any],
        *,
        shared_mem: int = 0,
        stream: Any = None,
        sanitize: str | None = None,
        order: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Launch the kernel; parameters as for `RawKernel`.

        Raises
        ------
        ArgumentTypeError
            If arguments do not fit the declared parameters.
        OverflowError
            If a number does not fit its parameter.
        """
        name, params = self.__name__, self.declaration.params
        operands = [_View(number, value) for number, value in enumerate(args)]
        device, library = _place(name, operands)
        if params is None:
            parameters = [_pack_undeclared(name, operand, device) for operand in operands]
            bound: dict[str, str] = {}
        else:
            if len(args) != len(params):
                listed = ", ".join(map(str, params))
                raise ArgumentTypeError(
                    f"{name} takes {len(params)} parameters ({listed}), but {len(args)} were given"
                )
            bound = _bind(name, params, operands)
            parameters = [
                _pack_declared(name, param, operand, bound)
                for param, operand in zip(params, operands, strict=True)
            ]
        checks = checks_of_call(name, device, self.checks, sanitize, order, timeout)
        handle, regions = _stream(stream, library, device), _regions(checks, operands)
        launch = make_launch(grid, block, shared_mem, handle, checks, regions)
        symbol = RawSymbol(self._expression(bound))
        kernel = self._loader.kernel(symbol, device, checks.sanitize)
        kernel.launch(launch, marshal.ParameterBlock(parameters))

    def _expression(self, bound: dict[str, str]) -> str:
        """Return the name expression for a binding: the one with these template arguments."""
        expressions = self.declaration.name_expressions
        if not bound:
            return expressions[0]
        wanted = [dtypes.lookup(dtype).ctype for dtype in bound.values()]
        for expression in expressions:
            _, _, arguments = expression.partition("<")
            if [part.strip() for part in arguments.rstrip("> ").split(",")] == wanted:
                return expression
        types = ", ".join(f"{letter}={dtype}" for letter, dtype in bound.items())
        raise ArgumentTypeError(
            f"{self.__name__} has no instance for {types}; it has {', '.join(expressions)}: add "
            f"one to name_expressions in the spec"
        )


class _View:
    """An argument by position, with its elements if it is an array."""

    def __init__(self, number: int, value: Any) -> None:
        self.number = number
        self.value = value
        # A structured array is a C struct, passed by value.
        structured = isinstance(value, np.ndarray) and value.dtype.names is not None
        self.library: Library | None = None if structured else library_of(value)
        self.view: ArrayView | None = self.library.view(value) if self.library else None


def _regions(checks: Checks, operands: Sequence[_View]) -> tuple[Region, ...]:
    """Return the memory that a checked kernel may touch."""
    named = ((f"argument {one.number}", one.value, one.view) for one in operands)
    return regions_of_call(checks, named)


def _place(name: str, operands: Sequence[_View]) -> tuple[Device, Library | None]:
    """Return where the call runs: where its arrays live."""
    arrays = [one for one in operands if one.view is not None and one.library is not None]
    cuda = [one for one in arrays if one.view is not None and not one.view.device.is_host]
    # Symbols, textures and surfaces know their device too.
    handles = {one.value.device for one in operands if _is_handle(one)}
    if not arrays:
        return (handles.pop() if len(handles) == 1 else default_device()), None
    # Next to CUDA arrays, NumPy arrays of one element are values (CuPy's rule).
    chosen = cuda or arrays
    devices = {one.view.device for one in chosen if one.view is not None} | handles
    if len(devices) > 1:
        listed = ", ".join(sorted(map(str, devices)))
        raise ArgumentTypeError(f"{name}: arguments live on different devices: {listed}")
    return devices.pop(), chosen[0].library


def _is_handle(operand: _View) -> bool:
    return operand.view is None and type(getattr(operand.value, "device", None)) is Device


def _stream(stream: object, library: Library | None, device: Device) -> int:
    if stream is not None:
        return stream_handle(stream)
    return library.stream(device) if library is not None else 0


def _pack_undeclared(name: str, operand: _View, device: Device) -> bytes:
    value, view = operand.value, operand.view
    where = f"{name}: argument {operand.number}"
    if view is not None:
        if view.device == device:
            return struct.pack("P", view.ptr)
        if view.size == 1:
            return bytes(np.asarray(value).tobytes())
        raise ArgumentTypeError(
            f"{where} is a NumPy array next to CUDA arrays; move it to {device} first"
        )
    if value is None:
        return struct.pack("P", 0)
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.size == 1):
        return value.tobytes()
    if isinstance(value, bool):
        return struct.pack("?", value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise OverflowError(f"{where}: Python int {value} has more than 64 bits")
        return struct.pack("Q" if value >= 2**63 else "q", value)
    if isinstance(value, float):
        return struct.pack("d", value)
    if isinstance(value, complex):
        return struct.pack("dd", value.real, value.imag)
    if isinstance(getattr(value, "ptr", None), int):
        return struct.pack("P", value.ptr)
    raise ArgumentTypeError(f"{where}: can not pass a {type(value).__name__} to a kernel")


def _check_floats(name: str, operands: Sequence[_View], sizes: tuple[int, ...] | None) -> None:
    """Refuse a Python float or complex for a smaller parameter, which would read half of it."""
    for operand, size in zip(operands, sizes or (), strict=False):
        value = operand.value
        if type(value) in (float, complex) and size * 2 == (8 if type(value) is float else 16):
            narrow = "numpy.float32" if type(value) is float else "numpy.complex64"
            raise ArgumentTypeError(
                f"{name}: argument {operand.number} is a Python {type(value).__name__}, in C a "
                f"double, but the parameter has {size} bytes; pass {narrow}({value!r})"
            )


def _bind(name: str, params: Sequence[CParam], operands: Sequence[_View]) -> dict[str, str]:
    """Bind the placeholders of declared C parameters by the arrays given for them."""
    letters = list(dict.fromkeys(param.type for param in params if len(param.type) == 1))
    bound: dict[str, str] = {}
    for param, operand in zip(params, operands, strict=True):
        if param.type in letters and operand.view is not None:
            dtype = operand.view.dtype
            if bound.setdefault(param.type, dtype) != dtype:
                raise ArgumentTypeError(
                    f"Type is mismatched. {name}: {param.type} is {bound[param.type]}, but "
                    f"{param.name} has dtype {dtype}"
                )
    for letter in letters:
        if letter not in bound:
            raise UnboundPlaceholderError(f"{name}: no array decides the type {letter}")
    return {letter: bound[letter] for letter in letters}


def _pack_declared(name: str, param: CParam, operand: _View, bound: dict[str, str]) -> bytes:
    where = f"{name}: argument {param.name}"
    row = dtypes.lookup(bound[param.type]) if param.type in bound else dtypes.from_ctype(param.type)
    view = operand.view
    if param.pointer:
        if operand.value is None:
            return struct.pack("P", 0)
        if view is None:
            raise ArgumentTypeError(
                f"{where} is declared {param}, so it must be an array, "
                f"not {type(operand.value).__name__}"
            )
        if row is not None and view.dtype != row.name:
            raise ArgumentTypeError(
                f"{where} is declared {param} ({row.name}), but the array has dtype {view.dtype}"
            )
        if not param.const and view.readonly:
            raise ArgumentTypeError(f"{where} is written to, but the array is read-only")
        if not view.is_c_contiguous:
            raise ArgumentTypeError(
                f"{where} is a pointer, so the array must be C-contiguous; pass a copy"
            )
        return struct.pack("P", view.ptr)
    if view is not None and view.size != 1:
        raise ArgumentTypeError(
            f"{where} is declared {param}, so it must be a number, not an array"
        )
    if row is None:
        return _pack_struct(where, param, operand.value)
    value = operand.value.item() if view is not None else operand.value
    if not marshal.is_number(value):
        raise ArgumentTypeError(
            f"{where} is declared {param}, so it must be a number, not {type(value).__name__}"
        )
    return marshal.convert_scalar(value, row.name)


def _pack_struct(where: str, param: CParam, value: Any) -> bytes:
    """Pass a structured scalar, or a size-one structured array, byte for byte."""
    if isinstance(value, np.void | np.ndarray):
        return value.tobytes()
    raise ArgumentTypeError(
        f"{where} is declared {param}; pass a structured NumPy scalar of the same layout"
    )


def _refuse_missing(backend: str, translate_cucomplex: bool, jitify: bool | None) -> None:
    if backend not in ("nvrtc", "nvcc"):
        raise ValueError(f"unknown backend {backend!r}; expected 'nvrtc'")
    missing = {
        "backend='nvcc'": backend == "nvcc",
        "translate_cucomplex=True": translate_cucomplex,
        "jitify=True": bool(jitify),
    }
    for option, wanted in missing.items():
        if wanted:
            raise NotSupportedError(f"{option} is not supported yet")
