"""`fuse`: array code that runs as one kernel, or as few as it can.

>>> import numpy as np
>>> @fuse(device="host")
... def squared_diff(x, y):
...     return (x - y) * (x - y)
>>> squared_diff(np.arange(3.0), 1.0)
array([1., 0., 1.])

`kspec.fusion` makes kernels of a function; here they are called with the arrays of a call. Which
kernels is found by the types and shapes of the arguments, once for each.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

import numpy as np

from kspec.constructors import ElementwiseKernel
from kspec.cpp.names import name_problem
from kspec.errors import (
    ArgumentTypeError,
    FusionError,
    KspecError,
    OverlapError,
    SpecError,
    shorten,
)
from kspec.fusion import types
from kspec.fusion.call.around import ArrayVariable, read_also, with_all_arrays, with_arguments
from kspec.fusion.call.overlaps import Overlaps, first_of_same, may_overlap, overlapping, views_of
from kspec.fusion.call.rows import row_spec, where_it_fits
from kspec.fusion.call.running import Run, Runnable
from kspec.fusion.call.short import ShortCalls
from kspec.fusion.explain import explain
from kspec.fusion.program import ArgumentType, DefaultArgument, ShapedArray, trace
from kspec.fusion.refusals import ConcreteArray
from kspec.fusion.tracing.proxies import Proxy
from kspec.locks import make_lock
from kspec.pickling import PickledByName
from kspec.runtime.arguments.binding import check_alignment
from kspec.runtime.callcache import CacheInfo
from kspec.runtime.callcache.launch_plan import ALIGNMENT
from kspec.runtime.kernels import CALL_ERRORS
from kspec.runtime.libraries.aliasing import Place, check_overlaps, check_writable
from kspec.runtime.libraries.lookup import library_of
from kspec.runtime.libraries.untraced import untraced
from kspec.runtime.memory import ArrayView, numpy_dtype
from kspec.spec.models import Spec

Function = TypeVar("Function", bound=Callable[..., Any])
_MOST_SHAPES = 4096  # whose programs are found without comparing extents


@overload
def fuse(function: Callable[..., Any], /) -> Fused: ...
@overload
def fuse(
    kernel_name: str | None = None,
    /,
    *,
    device: str | None = None,
    options: tuple[str, ...] = (),
    round_each: bool = False,
) -> Callable[[Callable[..., Any]], Fused]: ...
@overload
def fuse(
    *,
    kernel_name: str | None = None,
    device: str | None = None,
    options: tuple[str, ...] = (),
    round_each: bool = False,
) -> Callable[[Callable[..., Any]], Fused]: ...
def fuse(
    function: Any = None,
    /,
    *,
    kernel_name: str | None = None,
    device: str | None = None,
    options: tuple[str, ...] = (),
    round_each: bool = False,
) -> Any:
    """Make array code run as few kernels.

    As a decorator, with or without parentheses. When the function is called with arrays on a GPU,
    it runs once with proxies for them; what it computes becomes kernels, which are called from
    then on for arguments of the same types. Without any such array it is called as it is.

    Parameters
    ----------
    function : callable
        Takes arrays, numbers and None; returns an array, a number, a tuple of these, or None.
    kernel_name : str, optional
        Name of the kernels; default: that of the function.
    device : {"host"}, optional
        ``"host"``: fuse calls with NumPy arrays, for the host device.
    options : tuple of str, optional
        Compiler options of the kernels, such as ``"--use_fast_math"``.
    round_each : bool, optional
        Whether functions of float16 and bfloat16 elements are rounded one by one, for NumPy's
        bits; default: they are computed in float32, and what is stored is rounded.

    Returns
    -------
    Fused
        Is called like the function.

    Raises
    ------
    SpecError
        If `kernel_name` cannot be the name of a kernel.
    TypeError
        If `function` is none, or `options` no tuple.
    """
    if isinstance(function, str):
        function, kernel_name = None, function
    if device not in (None, "host"):
        raise ValueError(f"device must be 'host' or None, not {device!r}")
    if kernel_name is not None and name_problem(kernel_name):
        raise SpecError(f"Invalid kernel name: {name_problem(kernel_name)}")
    if not isinstance(options, tuple):
        raise ArgumentTypeError(f"options must be a tuple, not {type(options).__name__}")
    if function is None:
        return lambda one: Fused(one, kernel_name, device, options, round_each)
    return Fused(function, kernel_name, device, options, round_each)


class Fused(PickledByName):
    """A function that runs as few kernels.

    Parameters
    ----------
    function : callable
        The function.
    kernel_name : str, optional
        Name of its kernels.
    device : {"host"}, optional
        ``"host"``: calls with NumPy arrays are fused, too.
    options : tuple of str, optional
        Compiler options of its kernels.
    round_each : bool, optional
        Whether functions of float16 and bfloat16 are rounded one by one.

    Attributes
    ----------
    func : callable
        The function.
    name : str
        Name of its kernels.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        kernel_name: str | None = None,
        device: str | None = None,
        options: tuple[str, ...] = (),
        round_each: bool = False,
    ) -> None:
        if not callable(function):
            raise TypeError(f"fuse takes a function, not a {type(function).__name__}")
        functools.update_wrapper(self, function)
        name = getattr(function, "__name__", "fused")
        self.func = function
        self.name = kernel_name or ("fused" if name_problem(name) else name)
        self._on_host = device == "host"
        self._options = options
        self._round_each = round_each
        self._signature = inspect.signature(function)
        kinds = [one.kind for one in self._signature.parameters.values()]
        plain = all(kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for kind in kinds)
        self._count = len(kinds) if plain else -1  # of arguments that need no sorting out
        self._names = tuple(self._signature.parameters)
        self._defaults = {
            name: DefaultArgument(one.default)
            for name, one in self._signature.parameters.items()
            if one.default is not inspect.Parameter.empty and library_of(one.default) is None
        }
        self._lock = make_lock()
        self.clear_cache()

    def made_of(self) -> tuple[Any, ...]:
        """Return the arguments that make another one."""
        return (
            self.func,
            self.name,
            "host" if self._on_host else None,
            self._options,
            self._round_each,
        )

    def cache_info(self) -> CacheInfo:
        """Return the contents of the call caches of all its kernels, of every traced program."""
        with self._lock:
            known: list[Runnable | Fused] = list(self._programs.values())
        known += self._extended[:1]
        return CacheInfo.total(one.cache_info() for one in known)

    def clear_cache(self) -> None:
        """Forget what was traced; the next call traces anew."""
        self._runs: dict[tuple[Any, ...], tuple[Run, ElementwiseKernel | None]] = {}
        self._short = ShortCalls(self._by_key)
        self._programs: dict[object, Runnable] = {}
        self._arrays: set[type] = set()
        # The function with arrays around it as further arguments, and their variables.
        self._extended: tuple[()] | tuple[Fused, tuple[ArrayVariable, ...]] = ()

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        return self if owner is None else functools.partial(self, owner)

    @untraced
    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Call the function; arguments and results are its own.

        Raises
        ------
        FusionError
            A `TypeError`: the function does what cannot be fused, or an argument is not an array,
            number or None.
        ShapeError
            A `ValueError`: shapes do not fit.
        """
        try:
            if not keywords:
                short = self._short.get((*map(type, args),))
                if short is not None:
                    launch, kernel, rest = short
                    return launch(kernel, *args, *rest)
            if keywords or len(args) != self._count:
                args = self._all_arguments(args, keywords)
            return self._by_key(args)
        except CALL_ERRORS as error:
            shorten(error)
            raise

    def _by_key(self, args: tuple[Any, ...]) -> Any:
        return self._with_arrays_around(Fused._answer, args)

    def _with_arrays_around(
        self, method: Callable[[Fused, tuple[Any, ...]], Any], args: Any
    ) -> Any:
        """Call a method with all arguments, and with the arrays around the function that it reads.

        Which are read is known when one of them meets a proxy: the function is traced anew then.
        """
        while True:
            fused, variables = self._extended or (self, ())
            values = (*args, *[one.value() for one in variables]) if variables else args
            try:
                return method(fused, values)
            except ConcreteArray as met:
                if any(isinstance(one, Proxy) for one in args):  # it is part of another one
                    raise
                more = read_also(self.func, variables, met)
            except TypeError as error:  # of CuPy's functions, which ask their array before a proxy
                more = with_all_arrays(self.func, variables)
                ours = isinstance(error, KspecError) or any(isinstance(one, Proxy) for one in args)
                if ours or more == variables:
                    raise
            extended = with_arguments(self.func, self._signature, more)
            made = Fused(extended, self.name, *self.made_of()[2:])
            self._extended = made, more

    def _answer(self, args: tuple[Any, ...]) -> Any:
        """Answer a call by the types and shapes of all its arguments."""
        arrays = self._arrays
        key = tuple([(a.dtype, a.shape) if type(a) in arrays else type(a) for a in args])
        run, kernel = self._runs.get(key) or self._find(args, key)
        try:
            result = run(args)
        except OverflowError:
            self._check_integers(args)
            raise
        if kernel is not None:
            self._short.learn(args, kernel)
        return result

    def _check_integers(self, args: tuple[Any, ...]) -> None:
        """Refuse Python integers that no kernel takes."""
        for position, one in enumerate(args):
            if type(one) is int and one.bit_length() > 63:
                name = self._name_of(position, args)
                raise FusionError(f"{self.name}: {name} is beyond int64; pass np.uint64 or float")

    def explain(self, *args: Any, **keywords: Any) -> str:
        """Return the plan of a call: its kernels, their reads and writes, and their boundaries.

        Arguments as for a call; nothing is computed.
        """
        try:
            given = self._all_arguments(args, keywords)
            text: str = self._with_arrays_around(Fused._explanation, given)
            return text
        except CALL_ERRORS as error:
            shorten(error)
            raise

    def _explanation(self, args: tuple[Any, ...]) -> str:
        program = self._runnable(args).program
        where = where_it_fits(program.rows) if program.rows is not None else ""
        return explain(program, self._argument_names(len(args)), where)

    def to_spec(self, *args: Any, **keywords: Any) -> tuple[Spec, ...]:
        """Return the kernels of a call as specs, as spec files have them.

        Arguments as for a call; nothing is computed. A function that would be several kernels
        and keeps rows in registers is one raw kernel, for rows as long as these and C-ordered
        arrays.
        """
        try:
            given = self._all_arguments(args, keywords)
            program = self._with_arrays_around(Fused._runnable, given).program
            several = len(program.kernels) > 1  # one that takes rows of any length is better
            rows = row_spec(program.rows) if program.rows and several else None
            return (rows,) if rows else tuple(kernel.spec for kernel in program.all_kernels)
        except CALL_ERRORS as error:
            shorten(error)
            raise

    def _all_arguments(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
        try:
            bound = self._signature.bind(*args, **keywords)
        except TypeError as error:
            raise TypeError(f"{self.name}: {error}") from None
        given = set(bound.arguments)
        bound.apply_defaults()
        found: list[Any] = []
        for name, value in bound.arguments.items():
            kind = self._signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                found += value
            elif kind is inspect.Parameter.VAR_KEYWORD and value:
                raise FusionError(f"{self.name}: parameters such as **options cannot be fused")
            elif kind is not inspect.Parameter.VAR_KEYWORD:
                found.append(value if name in given else self._defaults.get(name, value))
        return tuple(found)

    def _plain(self, args: tuple[Any, ...]) -> Any:
        """Call the function as it is."""
        positional: list[Any] = []
        named: dict[str, Any] = {}
        values = iter([one.value if isinstance(one, DefaultArgument) else one for one in args])
        for name, one in self._signature.parameters.items():
            if one.kind is inspect.Parameter.VAR_POSITIONAL:
                positional += itertools.islice(values, self._more(len(args)))
            elif one.kind is inspect.Parameter.KEYWORD_ONLY:
                named[name] = next(values)
            elif one.kind is not inspect.Parameter.VAR_KEYWORD:
                positional.append(next(values))
        return self.func(*positional, **named)

    def _find(
        self, args: tuple[Any, ...], key: tuple[Any, ...]
    ) -> tuple[Run, ElementwiseKernel | None]:
        if any(isinstance(one, Proxy) for one in args) or not self._is_fused(args):
            return self._plain, None
        runnable = self._runnable(args)
        run: Run = runnable.run
        if runnable.program.written:
            run = self._watching(args)
        known = {type(one) for one in args if library_of(one) is not None}
        if not known <= self._arrays:
            if all(hasattr(kind, "dtype") and hasattr(kind, "shape") for kind in known):
                self._arrays |= known
            return run, None
        if len(self._runs) >= _MOST_SHAPES:
            self._runs.clear()
        self._runs[key] = run, runnable.short
        return run, runnable.short

    def _watching(self, args: tuple[Any, ...]) -> Run:
        """Return a function for kernels that write into arguments, which may overlap."""
        described = self._describe(args)
        with self._lock:
            apart = self._program(described, tuple(range(len(args))))
        written = apart.program.written
        writing = [
            one for one in apart.program.kernels if any(w.target is not None for w in one.writes)
        ]
        checked: set[object] = set()

        def run(args: tuple[Any, ...]) -> Any:
            try:
                views = views_of(args)
                if len(writing) > 1:  # none of them may have run when another is refused
                    self._check_integers(args)
                    layout = tuple([_layout(view) for view in views.values()])
                    if layout not in checked:
                        self._check_arrays(args, written)
                        if len(checked) >= _MOST_SHAPES:
                            checked.clear()
                        checked.add(layout)
                if not may_overlap(views, written):
                    return apart.run(args)
                runnable = self._runnable(args)
                if runnable.program.phases:  # the first must not have run when another is refused
                    self._check_integers(args)
                    self._check_arrays(args, written)
                return runnable.run(args)
            except (ArgumentTypeError, OverlapError):
                self._check_arrays(args, written)
                raise

        return run

    def _check_arrays(self, args: tuple[Any, ...], written: Sequence[int]) -> None:
        """Raise what kernels raise for an array, by the name of the argument, which they lack."""
        for position, one in enumerate(args):
            view, library = self._view(args, position), library_of(one)
            if view is None or library is None:
                continue
            name = self._name_of(position, args)
            check_alignment(f"{self.name}: argument {name}", view)
            if position in written:
                check_writable(f"{self.name}: argument {name}", library, view)
                check_overlaps(self.name, [Place(name, view, written=True)])

    def _is_fused(self, args: tuple[Any, ...]) -> bool:
        found = (self._view(args, position) for position in range(len(args)))
        views = [view for view in found if view is not None]
        on_host = [view.device.is_host for view in views]
        if not views or (all(on_host) and not self._on_host):
            return False
        if any(on_host) and not all(on_host):
            place = self._names[on_host.index(True)] if len(self._names) == len(args) else "one"
            raise FusionError(
                f"{self.name}: {place} is on the host next to arrays on a GPU; move it there first"
            )
        return True

    def _view(self, args: tuple[Any, ...], position: int) -> ArrayView | None:
        """Return the view of an argument; None if it is not an array."""
        library = library_of(args[position])
        if library is None:
            return None
        try:
            return library.view(args[position])
        except ArgumentTypeError as error:
            name = self._name_of(position, args)
            raise type(error)(f"{self.name}: argument {name}: {error}") from error.__cause__

    def _runnable(self, args: tuple[Any, ...]) -> Runnable:
        described = self._describe(args)
        different = tuple(range(len(args)))
        with self._lock:
            found = self._program(described, different)
            if found.program.written:  # what is read through another argument changes, too
                same = first_of_same(args)
                overlaps = overlapping(args, same)
                if overlaps or same != different:
                    found = self._program(described, same, overlaps)
        return found

    def _program(
        self,
        described: tuple[ArgumentType, ...],
        same: tuple[int, ...],
        overlaps: Overlaps = (),
    ) -> Runnable:
        exact = described, same, overlaps
        found = self._programs.get(exact)
        if found is None:
            shapeless = _shape_free(described), same, overlaps
            found = self._programs.get(shapeless)
            if found is None:
                names = self._argument_names(len(described))
                program = trace(
                    self._traced_function,
                    described,
                    names,
                    self.name,
                    same,
                    self._options,
                    overlaps,
                    self._round_each,
                )
                found = Runnable(program)
                self._programs[exact if program.shaped else shapeless] = found
        return found

    def _traced_function(self, *args: Any) -> Any:
        return self._plain(args)

    def _argument_names(self, count: int) -> tuple[str, ...]:
        names: list[str] = []
        for name, one in self._signature.parameters.items():
            if one.kind is inspect.Parameter.VAR_POSITIONAL:
                names += [f"x{len(names) + k}" for k in range(self._more(count))]
            elif one.kind is not inspect.Parameter.VAR_KEYWORD:
                names.append(name)
        return tuple(names)

    def _name_of(self, position: int, args: tuple[Any, ...]) -> str:
        return self._argument_names(len(args))[position]

    def _more(self, count: int) -> int:
        """Return the number of arguments in ``*args``, of so many."""
        several = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
        parameters = self._signature.parameters.values()
        return count - sum(one.kind not in several for one in parameters)

    def _describe(self, args: tuple[Any, ...]) -> tuple[ArgumentType, ...]:
        found: list[ArgumentType] = []
        for position, one in enumerate(args):
            view = self._view(args, position)
            if one is None or isinstance(one, DefaultArgument):
                found.append(one)
            elif view is not None:
                if _has_operators_of_its_own(type(one)):
                    name = self._name_of(position, args)
                    raise FusionError(
                        f"{self.name}: {name} is a {type(one).__name__}, whose operators are not "
                        f"those of arrays; pass np.asarray({name})"
                    )
                numpy_dtype(view.dtype)  # NumPy learns of types that it does not have
                if view.dtype.startswith(("{", "V")):
                    raise FusionError(f"{self.name}: structs are not fused")
                found.append(ShapedArray(view.dtype, view.shape))
            elif (number := types.type_of_number(one)) is not None:
                found.append(number)
            else:
                name = self._name_of(position, args)
                raise FusionError(
                    f"{self.name}: {name} must be an array, a number or None, not a "
                    f"{type(one).__name__}; what is none of these is a default that calls leave "
                    "out, or a variable around the function"
                )
        return tuple(found)


def _has_operators_of_its_own(kind: type) -> bool:
    """Return whether a class of NumPy's arrays computes differently, as `numpy.matrix` does."""
    own = "__mul__", "__array_ufunc__", "__array_function__"
    return issubclass(kind, np.ndarray) and any(
        getattr(kind, name) is not getattr(np.ndarray, name) for name in own
    )


def _layout(view: ArrayView) -> object:
    """Return the properties that decide whether kernels take an array, beside its type."""
    return view.ptr % ALIGNMENT, view.shape, view.strides, view.readonly


def _shape_free(described: Sequence[ArgumentType]) -> tuple[object, ...]:
    """Return types and which extents are equal, which is all that most programs depend on."""
    numbers: dict[int, int] = {0: 0, 1: 1}  # of no elements, there may be nothing to choose from
    found: list[object] = []
    for one in described:
        if isinstance(one, ShapedArray):
            extents = tuple(numbers.setdefault(size, -len(numbers)) for size in one.sizes)
            found.append((one.dtype, extents))
        else:
            found.append(one)
    return tuple(found)
