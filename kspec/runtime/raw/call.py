"""Calling a raw kernel: its keywords, its checks, its launch.

Arguments are checked and packed by `kspec.runtime.raw.typed_args` where parameters are declared,
else by `kspec.runtime.raw.untyped_args`; `kspec.runtime.raw.call_cache` answers repeated calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kspec.errors import ArgumentTypeError
from kspec.model.checks import Checks
from kspec.model.signature import CParam
from kspec.model.stages import RawSymbol
from kspec.runtime.arguments.checks import checks_of_call, modes_of_call
from kspec.runtime.driver.device import Device, default_device
from kspec.runtime.driver.launch import (
    NO_OPTIONS,
    HostOptions,
    LaunchOptions,
    about,
    make_launch,
    three,
)
from kspec.runtime.modules.attributes import KernelAttributes
from kspec.runtime.modules.module import LoadedKernel
from kspec.runtime.modules.provider import KernelLoader
from kspec.runtime.raw.call_cache import PreparedRaw, RawRoutes
from kspec.runtime.raw.typed_args import (
    bind_parameters,
    declared_arguments,
    number_type,
    pack_declared,
)
from kspec.runtime.raw.untyped_args import (
    RawArgument,
    check_floats,
    listed_arguments,
    meets_read_only,
    pack_undeclared,
    place_of,
    regions_of,
    stream_of,
    with_structs,
)


class RawCaller(KernelAttributes):
    """Base of raw kernels: a call is checked by `prepare`, repeated ones launch plans.

    Attributes
    ----------
    checks : Checks or None
        What to check when it runs on the host device; None: as `kspec.checking` or the
        environment say.
    """

    checks: Checks | None
    _cooperative = False
    _chooses = False
    _routes: RawRoutes
    _loader: KernelLoader

    @property
    def name(self) -> str:
        """Name of the kernel."""
        raise NotImplementedError

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
    ) -> str:
        """Return the name expression for a binding of the parameters' placeholders, or a call."""
        raise NotImplementedError

    @property
    def kernel(self) -> LoadedKernel:
        """The kernel as it is loaded on the current device; on a GPU, ``.ptr`` is its handle."""
        device = default_device()
        return self._loader.kernel(RawSymbol(self._expression({}, device)), device)

    def _forget(self) -> None:
        self._routes = RawRoutes()  # calls that are going on note what they learn in the old one

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
            converted to them; otherwise arrays pass their address, Python int, float, complex and
            bool pass 8, 8, 16 and 1 bytes, NumPy scalars their own, None a null pointer.
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
        if sanitize is None and order is None and timeout is None:
            more = None
            if cluster is not None or pdl:
                try:  # `about` takes 1 us
                    more = None if cluster is None else three("cluster", cluster), bool(pdl)
                except ArgumentTypeError as error:
                    raise ArgumentTypeError(f"{self.name}: {error}") from None
            self._routes.last(self, grid, block, args, shared_mem, stream, more)
        else:
            options = LaunchOptions(stream, shared_mem, cluster, pdl, sanitize, order, timeout)
            self.prepare(grid, block, args, options).run()

    def prepare(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: Sequence[Any],
        options: LaunchOptions = NO_OPTIONS,
    ) -> PreparedRaw:
        """Check a call, with parameters and errors as those of the call."""
        name, params = self.name, self._params
        args = listed_arguments(name, args)
        if params is None:
            operands = tuple(RawArgument(name, number, value) for number, value in enumerate(args))
        else:
            operands = declared_arguments(name, params, args)
        device, library = place_of(name, operands)
        if params is None:
            bound: dict[str, str] = {}
            parameters = tuple(pack_undeclared(operand, device) for operand in operands)
            types = ("",) * len(operands)
            written: tuple[bool, ...] = ()
        else:
            bound = bind_parameters(name, params, operands)
            known = {**self._structs, **bound}
            parameters = tuple(
                pack_declared(param, operand, known, device)
                for param, operand in zip(params, operands, strict=True)
            )
            types = tuple(number_type(param, known) for param in params)
            written = tuple(param.pointer and not param.const for param in params)
        checks = checks_of_call(name, device, self.checks, options)
        modes = modes_of_call(checks, device)
        handle = stream_of(options.stream, library, device, operands)
        host = HostOptions(checks, modes, regions_of(modes, operands))
        with about(name):
            launch = make_launch(grid, block, options, handle, host, self._cooperative)
        launch = self._with_attributes(launch)
        symbol = RawSymbol(self._expression(bound, device, operands))
        self._loader.check_captured(symbol, device, handle)
        kernel = self._loader.kernel(symbol, device, modes)
        if "bounds" in modes and meets_read_only(kernel, operands):
            # Inline checks do not tell reads from writes: those of tables do.
            modes = tuple(sorted({*modes, "memory"} - {"bounds"}))
            kernel = self._loader.kernel(symbol, device, modes)
            launch = replace(launch, host=replace(host, modes=modes))
        if params is None:
            check_floats(operands, kernel.parameter_sizes)
        parameters = with_structs(operands, parameters, kernel.parameter_sizes)
        named = options.stream is not None
        return PreparedRaw(
            kernel, launch, device, operands, parameters, types, named=named, written=written
        )
