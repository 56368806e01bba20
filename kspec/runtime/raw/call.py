"""Calling a kernel with a grid: its keywords, its checks, its launch.

`GridKernel` is the base of raw and jitted kernels (`kspec.runtime.raw.view_kernel`), `RawCaller` of
raw ones.  Their arguments are checked and packed by `kspec.runtime.raw.typed_args` where parameters
are declared, else by `kspec.runtime.raw.untyped_args`; `kspec.runtime.raw.call_cache` answers
repeated calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kspec.errors import ArgumentTypeError, KspecError, shorten
from kspec.model.checks import Checks
from kspec.model.signature import CParam
from kspec.model.stages import RawSymbol
from kspec.runtime.arguments.checks import checks_of_call, modes_of_call
from kspec.runtime.arguments.opaque import HANDLES, POINTER, STRUCT, is_cupys, kind_of, needs_cuda
from kspec.runtime.callcache import CacheInfo
from kspec.runtime.callcache.codegen import ArgumentCode
from kspec.runtime.driver.device import HOST, Device, default_device
from kspec.runtime.driver.launch import NO_OPTIONS, HostOptions, Launch, LaunchOptions
from kspec.runtime.libraries.array_access import access_of
from kspec.runtime.libraries.untraced import untraced
from kspec.runtime.memory.symbol import Symbol
from kspec.runtime.modules import LoadedKernel
from kspec.runtime.modules.attributes import KernelAttributes
from kspec.runtime.modules.loader import KernelLoader
from kspec.runtime.raw.call_cache import Choice, GridCallCache, More, PreparedRaw
from kspec.runtime.raw.fitting import ReadTypes, fitted
from kspec.runtime.raw.sizes import about, make_launch, three
from kspec.runtime.raw.typed_args import (
    bind_parameters,
    declared_arguments,
    number_type,
    pack_declared,
)
from kspec.runtime.raw.untyped_args import (
    RawArgument,
    listed_arguments,
    may_write_to_read_only,
    pack_undeclared,
    place_of,
    regions_of,
    stream_of,
    with_structs,
)


class GridKernel:
    """Base of kernels with a grid: a call is checked by `prepare`, repeated ones launch plans.

    Attributes
    ----------
    checks : Checks or None
        What to check when it runs on the host device; None: as `kspec.checking` or the
        environment say.
    """

    checks: Checks | None = None
    _call_cache: GridCallCache

    @property
    def name(self) -> str:
        """Name of the kernel."""
        raise NotImplementedError

    def cache_info(self) -> CacheInfo:
        """Return the number of repeated calls that launch at once."""
        return self._call_cache.info()

    def operands(self, args: Sequence[Any]) -> tuple[RawArgument, ...]:
        """Return the classified arguments of a call."""
        raise NotImplementedError

    def choose(
        self, operands: Sequence[RawArgument], device: Device, template: tuple[int, ...] = ()
    ) -> Choice:
        """Return the kernel for some arguments, and what they are packed to.

        `template` are the integers of a C++ template.
        """
        raise NotImplementedError

    def code_of(self, number: int, value: Any) -> ArgumentCode | None:
        """Return the code for an argument; None if calls with its type are checked in full."""
        raise NotImplementedError

    def _adjusted(self, launch: Launch) -> Launch:
        """Return a launch as the kernel's attributes want it."""
        return launch

    def _forget(self) -> None:
        """Drop what is known of repeated calls."""
        self._call_cache = GridCallCache()  # calls that are going on learn in the old one

    def prepare(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: Sequence[Any],
        options: LaunchOptions = NO_OPTIONS,
    ) -> PreparedRaw:
        """Check a call, with parameters and errors as those of the call."""
        name = self.name
        operands = self.operands(listed_arguments(name, args))
        device, library = place_of(name, operands)
        choice = self.choose(operands, device, options.template)
        checks = checks_of_call(name, device, self.checks, options)
        modes = modes_of_call(checks, device)
        handle = stream_of(options.stream, library, device, operands)
        host = HostOptions(checks, modes, regions_of(modes, operands))
        with about(name):
            launch = make_launch(grid, block, options, handle, host, choice.cooperative)
        launch = self._adjusted(launch)
        symbol, loader = choice.symbol, choice.loader
        loader.check_captured(symbol, device, handle)
        kernel = loader.kernel(symbol, device, modes)
        if "bounds" in modes and may_write_to_read_only(kernel, operands):
            # Inline checks do not tell reads from writes: those of tables do.
            modes = tuple(sorted({*modes, "memory"} - {"bounds"}))
            kernel = loader.kernel(symbol, device, modes)
            launch = replace(launch, host=replace(host, modes=modes))
        parameters = self._fitted(operands, choice, kernel, device)
        named = options.stream is not None
        return PreparedRaw(kernel, launch, device, operands, parameters, choice, named)

    def _fitted(
        self,
        operands: Sequence[RawArgument],
        choice: Choice,
        kernel: LoadedKernel,
        device: Device,
    ) -> tuple[bytes, ...]:
        """Return packed arguments as the compiled kernel has its parameters."""
        return choice.parameters


class RawCaller(GridKernel, KernelAttributes):
    """Base of raw kernels."""

    _cooperative = False
    _chooses = False
    _loader: KernelLoader

    @property
    def _params(self) -> Sequence[CParam] | None:
        """Declared parameters; None if they are not declared."""
        raise NotImplementedError

    @property
    def _structs(self) -> Mapping[str, str]:
        """Dtypes of the structs that parameters have, as far as they are declared."""
        return {}

    def _expression(
        self,
        bound: Mapping[str, str],
        device: Device,
        operands: Sequence[RawArgument] | None = None,
        template: tuple[int, ...] = (),
    ) -> str:
        """Return the name expression for a binding of the parameters' placeholders, or a call."""
        raise NotImplementedError

    @property
    def kernel(self) -> LoadedKernel:
        """The kernel as it is loaded on the current device; on a GPU, ``.ptr`` is its handle."""
        return self.loaded(default_device())

    def loaded(self, device: Device) -> LoadedKernel:
        """Return the kernel as it is loaded on a device."""
        return self._loader.kernel(RawSymbol(self._expression({}, device)), device)

    @untraced
    def __call__(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: Sequence[Any],
        *,
        shared_mem: int = 0,
        stream: Any = None,
        cluster: tuple[int, ...] | None = None,
        pdl: bool = False,
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
            The arguments. If the kernel declares its parameters, they are checked against and
            converted to them, and None is a null pointer where that is declared. Otherwise arrays
            pass their address, integers get the width of their parameter, other numbers must have
            its type, None is a null pointer.
        shared_mem : int, default 0
            Dynamic shared memory in bytes.
        stream : stream, optional
            Default: the current stream of the first array's library.
        cluster : tuple of int, optional
            Blocks of a thread-block cluster, which the grid must be a multiple of; CUDA devices of
            compute capability 9.0 and newer.
        pdl : bool, default False
            Programmatic dependent launch: let the kernel begin before the one in front of it on the
            stream has ended; it waits for what it needs by
            ``kspec::grid_dependency_synchronize()`` of ``<kspec/dependent_launch.cuh>``.
            Devices before compute capability 9.0, and the host device, wait by themselves.
        sanitize, order, timeout : optional
            What to check on the host device (`kspec.Checks`); default: as the kernel's `checks`,
            `kspec.checking` or the environment say.

        Raises
        ------
        ArgumentTypeError
            For an argument that the kernel cannot take, or arrays on several devices.
        OverflowError
            If a number does not fit its parameter.
        LaunchError
            If the sizes are impossible, there is not so much shared memory, or the blocks of a
            cooperative launch cannot all be resident.
        NotSupportedError
            For a cluster on the host device.
        """
        try:
            if sanitize is None and order is None and timeout is None:
                more = None
                if cluster is not None or pdl:
                    more = more_of(self.name, cluster, pdl)
                self._call_cache.last(self, grid, block, args, shared_mem, stream, more)
            else:
                options = LaunchOptions(stream, shared_mem, cluster, pdl, sanitize, order, timeout)
                self.prepare(grid, block, args, options).run()
        except KspecError as error:
            shorten(error)
            raise

    def operands(self, args: Sequence[Any]) -> tuple[RawArgument, ...]:
        """Return the classified arguments of a call, as many as are declared."""
        name, params = self.name, self._params
        if params is None:
            read = self._read_types(RawSymbol(self._expression({}, HOST)))
            return tuple(
                RawArgument(name, number, value, pointer=read.takes_address(number))
                for number, value in enumerate(args)
            )
        return declared_arguments(name, params, args)

    def choose(
        self, operands: Sequence[RawArgument], device: Device, template: tuple[int, ...] = ()
    ) -> Choice:
        """Return the kernel for some arguments, and what they are packed to."""
        params = self._params
        bound: dict[str, str] = {}
        types: tuple[str, ...]
        written: tuple[bool, ...]
        if params is None:
            parameters = tuple(pack_undeclared(operand, device) for operand in operands)
        else:
            bound = bind_parameters(self.name, params, operands)
            known = {**self._structs, **bound}
            parameters = tuple(
                pack_declared(param, operand, known, device)
                for param, operand in zip(params, operands, strict=True)
            )
            types = tuple(number_type(param, known) for param in params)
            written = tuple(param.is_written for param in params)
        symbol = RawSymbol(self._expression(bound, device, operands, template))
        if params is None:
            read = self._read_types(symbol)
            types = tuple(map(read.packed_type, range(len(operands))))
            written = tuple(map(read.may_write, range(len(operands))))
        return Choice(symbol, self._loader, parameters, types, written, self._cooperative)

    def _adjusted(self, launch: Launch) -> Launch:
        return self._with_attributes(launch)

    def _fitted(
        self,
        operands: Sequence[RawArgument],
        choice: Choice,
        kernel: LoadedKernel,
        device: Device,
    ) -> tuple[bytes, ...]:
        parameters = choice.parameters
        if self._params is None:
            read = self._read_types(choice.symbol)
            parameters = fitted(operands, parameters, read, kernel, device)
        return with_structs(operands, parameters, kernel.parameter_sizes)

    def _read_types(self, symbol: RawSymbol) -> ReadTypes:
        """Return the types of a kernel's parameters as its text shows them."""
        read = self._call_cache.read
        found = read.get(symbol)
        if found is None:
            text = self._loader.text(symbol)
            found = read[symbol] = ReadTypes.of(text, symbol.name_expression)
        return found

    def code_of(self, number: int, value: Any) -> ArgumentCode | None:
        """Return the code for an argument; None if calls with its type are checked in full."""
        param = None if self._params is None else self._params[number]
        access = access_of(type(value))
        if access is None:
            return _code_of_value(value, is_declared=param is not None)
        if param is None:
            key = "exact" if self._chooses else "bare"
            return ArgumentCode.of_array(access, key, varies=True)
        # Arrays of one element are values of parameters that are not pointers.
        if not param.pointer:
            return None
        return ArgumentCode.of_array(access, "flat", written=not param.const)


def more_of(
    name: str, cluster: Sequence[int] | None, pdl: bool, template: tuple[int, ...] = ()
) -> More:
    """Return the options of a call that only some kernels have."""
    try:  # `about` takes 1 us
        blocks = None if cluster is None else three("cluster", cluster)
    except ArgumentTypeError as error:
        raise ArgumentTypeError(f"{name}: {error}") from None
    return blocks, bool(pdl), template


def _code_of_value(value: Any, *, is_declared: bool) -> ArgumentCode | None:
    """Return the code for an argument that is not an array."""
    kind = type(value)
    if value is None:
        return ArgumentCode(packed="0", format="P")
    opaque = kind_of(value)
    if opaque == STRUCT:
        return ArgumentCode()
    if opaque in (*HANDLES, POINTER):
        return ArgumentCode(packed="{x}.ptr", format="P", place=_place(value))
    plain = kind in (bool, int, float, complex)
    if not plain and (not issubclass(kind, np.generic) or issubclass(kind, np.flexible)):
        return None
    if is_declared:
        return ArgumentCode()
    if kind is complex:
        doubtful = "not ({x}.real and {x}.imag)"  # 0.0 == -0.0
        return ArgumentCode(packed="{x}.real, {x}.imag", format="dd", doubtful=doubtful)
    if kind is float:
        return ArgumentCode(packed="{x}", format="d", doubtful="not {x}")
    if plain:
        return ArgumentCode(packed="{x}", format={bool: "?", int: "q"}[kind])
    dtype = value.dtype
    if dtype.kind in "biu":
        return ArgumentCode(packed="{x}", format=dtype.char)  # NumPy has the letters of `struct`
    # Not as a number, which would lose the payload of a NaN.
    return ArgumentCode(packed="{x}.tobytes()", format=f"{dtype.itemsize}s")


def _place(arg: Any) -> str:
    """Return the elements of a key that say where a texture, surface or pointer is."""
    if isinstance(arg, Symbol):
        return "{x}.place.kind, {x}.place.ordinal, {x}.ptr"  # guards have its memory
    if needs_cuda(arg):
        return ""  # with the arrays
    return "{x}.device_id" if is_cupys(arg) else "{x}.device.kind, {x}.device.ordinal"
