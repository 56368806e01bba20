"""Raw CUDA source: `RawModule` and `RawKernel`.

The device is decided by the arguments: CUDA arrays launch on their GPU, NumPy arrays run the
same source on the host device.  Calls are in `raw_call`, kernels that specs declare in `raw_spec`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from kspec.cpp.name_expressions import is_expression
from kspec.errors import ArgumentTypeError, CompileError, LoadError, NotSupportedError
from kspec.files import explain, read_regular
from kspec.model.checks import Checks
from kspec.model.raw.c_params import declared_params
from kspec.model.raw.param_checks import HEADER, ParamLines, param_checks
from kspec.model.signature import CParam
from kspec.model.stages import CudaSource, Header, Image, RawSymbol
from kspec.runtime.arguments.checks import repeatable
from kspec.runtime.callcache.launch_plan import is_checked
from kspec.runtime.callcache.param_buffer import ParameterBuffers
from kspec.runtime.driver.device import HOST, Device, default_device, parse_device
from kspec.runtime.driver.launch import LaunchOptions
from kspec.runtime.kernels.bound import Bound
from kspec.runtime.libraries.untraced import untraced
from kspec.runtime.memory.symbol import Symbol, symbol_of
from kspec.runtime.modules import LoadedModule
from kspec.runtime.modules.loader import KernelLoader
from kspec.runtime.modules.provider import (
    CompilingProvider,
    OneSource,
    Provider,
    Wanted,
    made_in_python,
)
from kspec.runtime.raw.call import RawCaller
from kspec.runtime.raw.untyped_args import RawArgument, listed_arguments

# Carried with a source, it is found before any other of its name.
_CUCOMPLEX = Header("cuComplex.h", '#include "kspec/cucomplex.cuh"\n')
_FORMATS = {".cubin": "cubin", ".ptx": "ptx", ".fatbin": "fatbin"}


class RawKernel(RawCaller):
    """A kernel of raw CUDA source.

    Parameters
    ----------
    code : str
        CUDA C++.
    name : str
        Name of the kernel as the compiler lowers it, usually of an ``extern "C"`` function, or a
        name expression such as ``"fx3<float>"``.
    options : tuple of str, optional
        Compiler options; with ``-dc`` kernels may launch kernels.
    backend : {"nvrtc", "nvcc"}, default "nvrtc"
        Compiler of CUDA code; nvcc knows the host's headers. The host device has its own compiler.
    translate_cucomplex : bool, default False
        Whether ``cuComplex.h`` is kspec's, in which its types are ``complex<T>``.
    jitify : bool, optional
        Whether C++ standard headers work with NVRTC: they do in any case.
    enable_cooperative_groups : bool, default False
        Launch so that all blocks are resident and can wait for each other
        (``cooperative_groups::this_grid().sync()``).
    params : str or sequence of str, optional
        Declared C parameters, such as ``"const float* x, float* y, int n"``. Calls are checked
        against them and numbers converted to them; ``"float* y = nullptr"`` may be None. Without
        them, arguments are packed by CuPy's rules, and compared with the text as far as it shows
        their types. A kernel may write to the arrays behind pointers that are not ``const``, and
        PyTorch's autograd is told so; ``const`` here says that it does not.

    Raises
    ------
    ArgumentTypeError
        If `options` is not a tuple.
    SignatureSyntaxError
        If `params` cannot be parsed.
    ValueError
        If there is no such `backend`, or it is nvcc and `jitify` is true.

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

    With declared parameters, numbers become what the kernel takes:

    >>> code = 'extern "C" __global__ void scale(float* x, float a) { x[threadIdx.x] *= a; }'
    >>> RawKernel(code, "scale", params="float* x, float a")((1,), (3,), (x, 10))
    >>> x
    array([ 0., 20., 40.], dtype=float32)
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
        params: str | Sequence[str] | None = None,
    ) -> None:
        _check_text("code", code)
        _check_text("name", name)
        if "{" in name and "{" not in code:
            raise ArgumentTypeError("RawKernel: name: found CUDA text; the order is code, name")
        module = RawModule(
            code=code,
            options=options,
            backend=backend,
            translate_cucomplex=translate_cucomplex,
            enable_cooperative_groups=enable_cooperative_groups,
            name_expressions=(name,) if _is_instance(name, backend) else (),
            jitify=jitify,
        )
        declared = declared_params(params)
        checked = module._checked(name, declared)
        module.loader = checked or module.loader
        self._attach(module, name, declared)

    def _attach(self, module: RawModule, name: str, params: tuple[CParam, ...] | None) -> None:
        self._declared = params
        self._module = module
        self._loader = module.loader
        self.checks: Checks | None = None
        self._forget()
        self._name = name
        self._cooperative = module.enable_cooperative_groups
        self.__name__ = name

    @property
    def name(self) -> str:
        """Name of the kernel, as it was given."""
        return self._name

    @property
    def code(self) -> str | None:
        """The source; None if the kernel comes from a file."""
        return self._module.code

    @property
    def options(self) -> tuple[str, ...]:
        """Compiler options."""
        return self._module.options

    @property
    def backend(self) -> str:
        """The compiler."""
        return self._module.backend

    @property
    def file_path(self) -> str | None:
        """The compiled file it comes from."""
        return self._module.file_path

    @property
    def enable_cooperative_groups(self) -> bool:
        """Whether all blocks of a launch are resident."""
        return self._cooperative

    @property
    def params(self) -> tuple[CParam, ...] | None:
        """Declared C parameters; None if there are none."""
        return self._declared

    @property
    def _params(self) -> tuple[CParam, ...] | None:
        return self._declared

    def _expression(
        self,
        bound: Mapping[str, str],
        device: Device,
        operands: Sequence[RawArgument] | None = None,
        template: tuple[int, ...] = (),
    ) -> str:
        return self.name

    @untraced
    def bind(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: Sequence[Any],
        *,
        shared_mem: int = 0,
        stream: Any = None,
        cluster: tuple[int, ...] | None = None,
        pdl: bool = False,
    ) -> Bound:
        """Check a launch now, for repeating it with the same arguments.

        Parameters and errors are those of a call. The arrays are kept alive, and must keep their
        memory; the stream is the one that is current now.

        Returns
        -------
        Bound
            Calling it, without arguments, launches the kernel.
        """
        args = listed_arguments(self.name, args)
        options = LaunchOptions(stream, shared_mem, cluster, pdl)
        prepared = self.prepare(grid, block, args, repeatable(options, self.checks))
        made = prepared.launch.host.checks
        in_full = (lambda: is_checked(self.checks, made)) if prepared.device.is_host else None
        buffers = ParameterBuffers(
            prepared.kernel, prepared.launch, lambda: (prepared.parameters, None)
        )
        again = lambda: self.prepare(grid, block, args, options).run()  # noqa: E731
        return Bound(buffers, again, in_full, counted=prepared.counted())

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
        Compiler options; with ``-dc`` kernels may launch kernels.
    backend : {"nvrtc", "nvcc"}, default "nvrtc"
        Compiler of CUDA code; nvcc knows the host's headers. The host device has its own compiler.
    translate_cucomplex : bool, default False
        Whether ``cuComplex.h`` is kspec's, in which its types are ``complex<T>``.
    jitify : bool, optional
        Whether C++ standard headers work with NVRTC: they do in any case.
    enable_cooperative_groups : bool, default False
        For each of its kernels, as for `RawKernel`.
    name_expressions : sequence of str, optional
        Kernels to instantiate, such as ``"fx3<float>"``; NVRTC only.

    Raises
    ------
    ArgumentTypeError
        If neither or both of `code` and `path` are given, or `options` is not a tuple.
    ValueError
        If there is no such `backend`, or `name_expressions` or `jitify` come with `path` or nvcc.
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
        _check_compiler(path, backend, name_expressions, jitify)
        if code is not None:
            _check_text("code", code)
        for option in options:
            _check_text("an option", option)
        for expression in name_expressions or ():
            _check_text("a name expression", expression)
        self.code = code
        self.file_path = path
        self.options = options if path is None else ()
        self.backend = backend if path is None else "nvcc"
        self.enable_cooperative_groups = enable_cooperative_groups
        self.name_expressions = tuple(name_expressions or ())
        self._source = None if code is None else self._source_of(code, translate_cucomplex)
        self.loader = _loader(self._source) if self._source else _file_loader(str(path))

    def get_function(self, name: str, params: str | Sequence[str] | None = None) -> RawKernel:
        """Return a kernel by its name, or by one of the name expressions in any spelling.

        Parameters
        ----------
        name : str
            Name or name expression.
        params : str or sequence of str, optional
            Declared C parameters, as for `RawKernel`.

        Raises
        ------
        CompileError
            If the source, or an expression that is none of the module's, does not compile.
        LoadError
            If there is no such kernel ("named symbol not found").
        SignatureSyntaxError
            If `params` cannot be parsed.

        Notes
        -----
        To compare `params` with the kernel, the source is compiled once more, or taken from the
        cache.
        """
        _check_text("name", name)
        declared = declared_params(params)
        kernel = RawKernel.__new__(RawKernel)
        kernel._attach(self, name, declared)
        self.loader.kernel(RawSymbol(name), self._default_device())
        if checked := self._checked(name, declared):
            # What is loaded stays: its variables are those of all kernels of the module.
            checked.image(RawSymbol(""), self._default_device())
        return kernel

    def get_texref(self, name: str) -> NoReturn:
        """Raise `NotSupportedError`: CUDA 12 removed texture references.

        A kernel takes a ``cudaTextureObject_t`` instead, for which a `kspec.texture.TextureObject`
        is passed.
        """
        raise NotSupportedError(
            f"{name}: CUDA 12 removed texture references; declare a parameter "
            "'cudaTextureObject_t tex', read it by tex2D<float>(tex, x, y), and pass a "
            "kspec.texture.TextureObject for it"
        )

    @property
    def module(self) -> LoadedModule:
        """The module as it is loaded on the current device; it has a `mapping`."""
        return self.loader.module(RawSymbol(""), self._default_device())[1]

    def get_global(self, name: str, device: Device | str | None = None) -> Symbol:
        """Return a ``__constant__`` or ``__device__`` variable: its address, size and elements.

        Once CuPy is imported, a variable on a CUDA device is a `cupy.cuda.MemoryPointer` too:
        ``cupy.ndarray(shape, dtype, module.get_global(name))`` is an array over its memory.

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
        _check_text("name", name)
        place = self._default_device() if device is None else parse_device(device)
        image, module = self.loader.module(RawSymbol(name), place)
        ptr, nbytes = module.get_global(self.loader.symbol(RawSymbol(name), place, image))
        return symbol_of(name, ptr, nbytes, place, module)

    def compile(self, log_stream: Any = None) -> None:
        """Compile for the default device now.

        Parameters
        ----------
        log_stream : object with a method `write`, optional
            Gets the compiler's warnings, or the errors before they are raised. They are kept with
            compiled code, so it does not matter whether it comes from the cache.

        Raises
        ------
        CompileError
            If the source does not compile.
        """
        try:
            log = self.loader.image(RawSymbol(""), self._default_device()).log
        except CompileError as error:
            _write(error.log, log_stream)
            raise
        _write(log, log_stream)

    def _default_device(self) -> Device:
        if self.file_path is not None:
            return Device("cuda") if default_device() is HOST else default_device()
        return default_device()

    def _source_of(self, code: str, translate: bool) -> CudaSource:
        headers = (_CUCOMPLEX,) if translate else ()
        expressions = self.name_expressions
        return CudaSource("kernel.cu", code, expressions, headers, self.options, self.backend)

    def _checked(self, name: str, params: tuple[CParam, ...] | None) -> KernelLoader | None:
        """Return the loader of the source, which checks the declared parameters of a kernel.

        None if nothing is declared, or the compiler cannot know the kernel by its name: mangled
        ones, and those of compiled files.
        """
        if params is None or self._source is None or name.startswith("_Z"):
            return None
        source = self._source
        count = len(params)
        place = ParamLines("<params>", tuple(range(1, count + 1)) or (1,), count + 1)
        checks = param_checks(name, [name], params, place, source.text)
        lines = [f'#include "{HEADER}"', f'#line 1 "{source.name}"', source.text, *checks]
        return _loader(replace(source, text="\n".join(lines)))


def _loader(source: CudaSource) -> KernelLoader:
    return KernelLoader([CompilingProvider(OneSource(source))], made_in_python)


def _file_loader(path: str) -> KernelLoader:
    return KernelLoader([_FileProvider(Path(path))])


class _FileProvider(Provider):
    """Answers with an image the user compiled."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._image: Image | None = None

    def find(self, wanted: Wanted, device: Device, sanitize: tuple[str, ...] = ()) -> Image | None:
        """Return the file's image; raise `LoadError` if it cannot be read."""
        if self._image is None:
            try:
                code = read_regular(self._path)
            except OSError as error:
                raise LoadError(f"CUDA_ERROR_FILE_NOT_FOUND: {explain(error)}") from error
            kind = _FORMATS.get(self._path.suffix, "cubin")
            self._image = Image(kind, "unknown", code, {})
        return self._image

    def describe(self, wanted: Wanted) -> str:
        """Return one line for the error that nothing was found."""
        return f"{self._path} has no such kernel"


def _check_text(what: str, value: object) -> None:
    if not isinstance(value, str):
        raise ArgumentTypeError(f"{what} must be a string, not {type(value).__name__}")


def _is_instance(name: str, backend: str) -> bool:
    """Return whether a kernel's name is an expression that its compiler can instantiate."""
    return is_expression(name) and backend == "nvrtc"


def _write(log: str, stream: Any) -> None:
    if stream is not None:
        stream.write(log)


def _check_compiler(
    path: str | None, backend: str, name_expressions: Sequence[str] | None, jitify: bool | None
) -> None:
    """Refuse what only goes with code, and what only NVRTC can do."""
    if backend not in ("nvrtc", "nvcc"):
        raise ValueError(f"unknown backend {backend!r}; expected 'nvrtc' or 'nvcc'")
    if isinstance(name_expressions, str):
        raise ArgumentTypeError("name_expressions must be a sequence of strings, not a string")
    if name_expressions and path is not None:
        raise ValueError("name_expressions need code; an image already has its kernels")
    if name_expressions and backend == "nvcc":
        raise ValueError("name_expressions need backend='nvrtc'")
    if jitify and (path is not None or backend == "nvcc"):
        raise ValueError("jitify=True needs code and backend='nvrtc'")
