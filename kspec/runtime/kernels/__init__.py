"""Base classes of callable kernels: a declaration, a loader, and inspection.

`KernelCallable` is the base of all three kinds, `GeneratedCallable` that of elementwise and
reduction kernels, whose parameters and sources can be read.
"""

from __future__ import annotations

import ctypes
import functools
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from kspec.dataclass import dataclass
from kspec.errors import KspecError, NotCompiledError, ShapeError
from kspec.model.checks import Checks
from kspec.model.declaration import PLACES, Declaration, GeneratedDeclaration
from kspec.model.infer import Binding, param_dtype
from kspec.model.shapes import Shape
from kspec.model.stages import Specialization
from kspec.runtime.arguments.binding import Call, new_output
from kspec.runtime.callcache import ABSENT, CacheEntry, CacheInfo, CallCache, types_of
from kspec.runtime.driver import stream as driver_streams
from kspec.runtime.libraries.lookup import default_library
from kspec.runtime.memory import numpy_dtype
from kspec.runtime.modules.loader import KernelLoader

if TYPE_CHECKING:
    from kspec.model.backward import Backward
    from kspec.model.tuning import Chooser
    from kspec.runtime.arguments.param_info import ParamInfo
    from kspec.runtime.callcache.codegen import ArgumentCode
    from kspec.runtime.callcache.prepared import Prepared
    from kspec.runtime.kernels.bound import Bound

CALL_ERRORS = (KspecError, np.exceptions.AxisError)  # that users make

DeclarationT = TypeVar("DeclarationT", bound=Declaration)
GeneratedT = TypeVar("GeneratedT", bound=GeneratedDeclaration)


@dataclass(frozen=True)
class Origin:
    """Origin of a generated kernel.

    Attributes
    ----------
    file : Path
        The generated module.
    source_sha256 : str
        Digest of its source.
    """

    file: Path
    source_sha256: str


class KernelCallable(Generic[DeclarationT]):
    """A kernel that can be called, copied and pickled.

    Parameters
    ----------
    declaration : Declaration
        How it is called.
    loader : KernelLoader
        Where its compiled specializations come from.
    gradients : callable, optional
        Returns the kernel that computes its gradients.

    Attributes
    ----------
    checks : Checks or None
        What to check on the host device, unless the call says otherwise.
    origin : Origin or None
        Where it is from, if it was generated.
    tuned : Chooser or None
        Its measurements; setting others forgets the plans of earlier calls.
    """

    _call_cache_class: ClassVar[type[CallCache]] = CallCache
    _tuned: Chooser | None = None

    def __init__(
        self,
        declaration: DeclarationT,
        loader: KernelLoader,
        gradients: Callable[[], KernelCallable[Any]] | None = None,
    ) -> None:
        self.checks: Checks | None = None
        self.origin: Origin | None = None
        self._gradients = gradients
        self._declare(declaration, loader)

    def _declare(self, declaration: DeclarationT, loader: KernelLoader) -> None:
        """Take a declaration; what was compiled for the one before is forgotten."""
        self._declaration = declaration
        self._loader = loader
        self._call_cache = self._call_cache_class()
        self.__doc__ = declaration.doc or type(self).__doc__

    @property
    def declaration(self) -> DeclarationT:
        """Declaration by which the kernel is called."""
        return self._declaration

    def __repr__(self) -> str:
        """Return the kind, the name and the parameters of the kernel."""
        return f"<{self._declaration.kind} kernel {self.name}{self._signature()}>"

    def _signature(self) -> str:
        return ""

    @property
    def tuned(self) -> Chooser | None:
        """Measurements of the kernel; None if there are none."""
        return self._tuned

    @tuned.setter
    def tuned(self, tuned: Chooser | None) -> None:
        self._tuned = tuned
        self._call_cache = self._call_cache_class()

    def cache_info(self) -> CacheInfo:
        """Return the number of repeated calls that launch at once."""
        return self._call_cache.info()

    def entry_of(self, arguments: Sequence[object]) -> CacheEntry | None:
        """Return the entry for calls with positional arguments of these types, if there is one."""
        return self._call_cache.entries.get(types_of(arguments))

    @functools.cached_property
    def backward(self) -> Backward | None:
        """Computation of the kernel's gradients; None if its spec has no `backward`."""
        from kspec.model.backward import Backward

        if self._gradients is None:
            return None
        kernel = self._gradients()
        takes, gives = kernel.declaration.sides
        return Backward(kernel, takes, gives)

    def is_same(self, other: KernelCallable[Any]) -> bool:
        """Whether another object calls the same kernel, of the same module."""
        return other._loader.is_same(self._loader) and other._declaration == self._declaration

    @property
    def __name__(self) -> str:
        return self._declaration.name

    @property
    def name(self) -> str:
        """Name of the CUDA kernel."""
        return self._declaration.name


class GeneratedCallable(KernelCallable[GeneratedT]):
    """An elementwise or reduction kernel: its parameters and sources can be read."""

    _absent: ClassVar = (ABSENT,) * PLACES

    def _signature(self) -> str:
        return f"({self._declaration.inputs}) -> ({self._declaration.outputs})"

    @property
    def in_params(self) -> tuple[ParamInfo, ...]:
        """Declared inputs."""
        from kspec.runtime.arguments.param_info import ParamInfo

        inputs = self._declaration.inputs
        return tuple(ParamInfo.of(one, is_const=not one.non_const) for one in inputs)

    @property
    def out_params(self) -> tuple[ParamInfo, ...]:
        """Declared outputs."""
        from kspec.runtime.arguments.param_info import ParamInfo

        return tuple(ParamInfo.of(one, is_const=False) for one in self._declaration.outputs)

    @property
    def params(self) -> tuple[ParamInfo, ...]:
        """Inputs, then outputs."""
        return self.in_params + self.out_params

    @property
    def nin(self) -> int:
        """Number of inputs."""
        return len(self._declaration.inputs)

    @property
    def nout(self) -> int:
        """Number of outputs."""
        return len(self._declaration.outputs)

    @property
    def nargs(self) -> int:
        """Number of inputs and outputs."""
        return self.nin + self.nout

    def all_given(
        self, args: tuple[Any, ...], out: Any, indices: int = 0
    ) -> tuple[Any, ...] | None:
        """Return the arguments with the outputs given by keyword; None if there is a wrong number.

        `indices`: arrays of integers that a form takes beside the inputs.
        """
        if out is None:
            return args
        outputs = out if type(out) is tuple else (out,)
        declaration = self._declaration
        wanted = len(declaration.inputs) + indices, len(declaration.outputs)
        return (*args, *outputs) if (len(args), len(outputs)) == wanted else None

    def given_outputs(self, args: Sequence[Any], out: Any) -> tuple[Any, ...]:
        """Return the outputs given by keyword.

        Raises
        ------
        ShapeError
            If there are outputs among `args` too, or `out` holds more or fewer.
        """
        if out is None:
            return ()
        if len(args) > len(self.declaration.inputs):
            raise ShapeError(
                f"{self.__name__}: cannot specify 'out' as both positional and keyword"
            )
        outputs = out if isinstance(out, tuple) else (out,)
        if len(outputs) != len(self.declaration.outputs):
            raise ShapeError(
                f"{self.__name__}: out must hold {len(self.declaration.outputs)} arrays, "
                f"not {len(outputs)}"
            )
        return outputs

    def with_outputs(
        self, call: Call, shapes: Sequence[Shape], binding: Binding, size: int = 0
    ) -> Call:
        """Allocate the outputs that the caller has not given, of these shapes.

        `size`: of the loop, if the caller has said it; -1 if not, which raw outputs need.
        Errors are those of the size, and of `check_made_outputs`.
        """
        outputs = self._declaration.outputs
        if call.outputs or not len(outputs):
            return call
        self._declaration.check_made_outputs()
        library = call.library or default_library(call.device)
        made = []
        for param, shape in zip(outputs, shapes, strict=True):
            if param.raw and size < 0:
                raise ShapeError(
                    f"Output array size is Undecided: {self.name}: raw output {param.name} "
                    "needs size=, or must be given"
                )
            array = library.empty(shape, param_dtype(param, binding), call.device)
            made.append(new_output(param, array))
        return Call(call.inputs, tuple(made), call.device, library)

    def _entry(
        self,
        args: Sequence[Any],
        options: tuple[str, ...],
        returned: str,
        grows: bool = False,
        extra: tuple[str, ...] = (),
        indices: int = 0,
        prepare: str = "prepare",
    ) -> CacheEntry | None:
        """Return the entry for calls with arguments of these types; None if there is none.

        The parameters are those of `CallType`, how many arrays without a declared parameter there
        are between inputs and outputs, and the method that checks such a call.
        """
        from kspec.runtime.callcache.codegen import CallType, argument_code

        declaration = self._declaration
        seen = getattr(declaration, "raw_views", ())
        arguments: list[ArgumentCode] = []
        nin = len(declaration.inputs)
        params = (*declaration.inputs, *[None] * indices, *declaration.outputs)
        for number, (param, value) in enumerate(zip(params, args, strict=False)):
            written = param is not None and (number >= nin or param.non_const)
            exact = param is not None and (param.raw or param.name in seen)
            argument = argument_code(value, written=written, exact=exact)
            if argument is None:
                return None
            arguments.append(argument)
        if not any(argument.access for argument in arguments):
            return None
        new = len(params) - len(arguments)
        outputs = len(declaration.outputs)
        calls = CallType(tuple(arguments), options, new, outputs, returned, grows, extra)
        return CacheEntry(calls, prepare)

    def _bound(self, prepared: Prepared, call: Callable[..., Any]) -> Bound:
        """Return a prepared call with its arguments fixed; `call` takes them to be checked."""
        from kspec.runtime.callcache.launch_plan import is_checked
        from kspec.runtime.callcache.param_buffer import ParameterBuffers
        from kspec.runtime.kernels.bound import Bound

        values = [one.value for one in prepared.operands]
        on_host, stream = prepared.device.is_host, prepared.launch.stream
        again = functools.partial(call, *values, stream=stream)
        in_full: Callable[[], bool] | None = None
        if prepared.scratch and (on_host or driver_streams.is_of_thread(stream)):
            # Scratch memory cannot be shared: on the host a launch may fail halfway and the next
            # one go on, launches of several threads may run at the same time.
            in_full = _always
        elif prepared.scratch:
            # A graph may be launched on any stream, beside others that use the same memory.
            ordinal = prepared.device.ordinal
            in_full = functools.partial(driver_streams.is_capturing, ordinal, stream)
        elif on_host and prepared.kernel is not None:
            made = prepared.launch.host.checks
            in_full = lambda: is_checked(self.checks, made)  # noqa: E731
            if any(one.is_new for one in prepared.operands):
                given = [one.value for one in prepared.operands if not one.is_output]
                again = functools.partial(
                    _begin_anew, prepared, functools.partial(call, *given, stream=stream)
                )
        buffers = None
        if prepared.kernel is not None:
            make = prepared.maker(prepared.parameters())
            buffers = ParameterBuffers(prepared.kernel, prepared.launch, make)
        return Bound(buffers, again, in_full, prepared.result, prepared.counted(outputs=True))

    @property
    def cached_codes(self) -> dict[tuple[np.dtype[Any], ...], str]:
        """CUDA source by the dtypes of all parameters, for the dtypes called so far.

        Without any there is a `UserWarning`: kernels are compiled when they are called.
        """
        codes = self._cached_codes
        if not codes:
            warnings.warn(
                f"{self.name} has no source yet: it is compiled at the first call", stacklevel=2
            )
        return codes

    @property
    def cached_code(self) -> str:
        """The first of `cached_codes`; a `UserWarning` says if there are others.

        Raises
        ------
        NotCompiledError
            If the kernel has not been called yet.
        """
        codes = self._cached_codes
        if not codes:
            raise NotCompiledError(
                f"{self.name} has no source yet: call it once, for it is compiled for the dtypes "
                "of its arguments"
            )
        if len(codes) > 1:
            warnings.warn(
                f"{self.name} was compiled for {len(codes)} combinations of dtypes, and this is "
                "the source of the first; cached_codes has all",
                stacklevel=2,
            )
        return next(iter(codes.values()))

    @property
    def _cached_codes(self) -> dict[tuple[np.dtype[Any], ...], str]:
        codes: dict[tuple[np.dtype[Any], ...], str] = {}
        for wanted, text in self._loader.sources().items():
            if isinstance(wanted, Specialization) and wanted.kernel == self.name:
                names = (param_dtype(param, wanted.binding) for param in self.params)
                # Layouts share a source: the first one stays.
                codes.setdefault(tuple(map(numpy_dtype, names)), text)
        return codes


def _always() -> bool:
    return True


def _begin_anew(prepared: Prepared, call: Callable[[], Any]) -> Any:
    """Make a call with new outputs, on the host device, and keep these in those of a bound one.

    What the kernel finds in outputs is then what it finds without checks: the zeros of items, or
    memory that has not been written.
    """
    found = call()
    outputs = [one for one in prepared.operands if one.is_output]
    for one, array in zip(outputs, found if len(outputs) > 1 else (found,), strict=True):
        assert one.view is not None
        assert one.library is not None
        size = one.view.size * numpy_dtype(one.view.dtype).itemsize
        ctypes.memmove(one.view.ptr, one.library.view(array).ptr, size)
    return prepared.result
