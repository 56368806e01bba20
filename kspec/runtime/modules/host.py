"""An image loaded into this process: kernels of the host device (`kspec.host`)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kspec.errors import DriverError, NotSupportedError
from kspec.host import MAX_BLOCK_THREADS, MAX_SHARED_BYTES, modules
from kspec.model.checks import PRINTED, Reviewer
from kspec.model.stages import Figures, Image, MachineCode
from kspec.runtime.driver.device import HOST, gpu_of
from kspec.runtime.driver.launch import Launch
from kspec.runtime.modules import (
    LoadedModule,
    check_parameters,
    check_resources,
    launch_in_full,
)
from kspec.runtime.schedules.marshal import PackedParameters

if TYPE_CHECKING:
    from kspec.host.recording import ReviewedLaunch
    from kspec.runtime.driver.graph import GraphStart
    from kspec.runtime.driver.launch_ex import Resize, Start

_DYNAMIC_SHARED = 48 * 1024  # bytes that GPUs give a block without being asked for more


class HostKernel:
    """A kernel on the host device: runs to its end before `launch` returns."""

    def __init__(self, kernel: Any) -> None:
        self.name = kernel.name
        self.parameter_sizes: tuple[int, ...] | None = kernel.parameter_sizes
        self.points: tuple[bool, ...] | None = kernel.points
        self.writes_to: tuple[bool, ...] = kernel.writes_to
        self.modes: tuple[str, ...] = kernel.modes
        self._kernel = kernel
        self._figures_of: Callable[[str], Figures | None] | None = None
        self._code_of: Callable[[str], MachineCode | None] | None = None

    def show_lines(self, line_of: Callable[[str, int], str]) -> None:
        """Let faults show the line they are about, which this returns by file and number."""
        self._kernel.line_of = line_of

    def know_figures(
        self,
        figures_of: Callable[[str], Figures | None],
        code_of: Callable[[str], MachineCode | None],
    ) -> None:
        """Let reviews know figures and code of compilers for GPUs, which these return for one."""
        self._figures_of = figures_of
        self._code_of = code_of

    def run_beside(self, beside: Callable[[], HostKernel]) -> None:
        """Let reviews run the blocks that they do not look at in another kernel."""
        self._kernel.beside = lambda: beside()._kernel

    @property
    def attributes(self) -> dict[str, int]:
        """Limits like those of a GPU; what a CPU has none of, registers among them, is 0."""
        from kspec.runtime.driver.module import ATTRIBUTES

        return dict.fromkeys(ATTRIBUTES, 0) | {
            "max_threads_per_block": MAX_BLOCK_THREADS,
            "shared_size_bytes": self._kernel.shared_bytes,
            "max_dynamic_shared_size_bytes": _DYNAMIC_SHARED,
            "preferred_shared_memory_carveout": -1,
        }

    def allow_shared_memory(self, nbytes: int) -> None:
        """Raise `DriverError` for more than a GPU has, as its driver does."""
        if not 0 <= nbytes <= MAX_SHARED_BYTES:
            text = f"{self.name}: {nbytes} bytes of dynamic shared memory"
            raise DriverError("CUDA_ERROR_INVALID_VALUE", f"invalid argument: {text}", 1)

    def launch(self, launch: Launch, params: PackedParameters) -> None:
        """Run the kernel."""
        self._check(launch, params)
        checks = launch.host.checks
        recorded = self._kernel.launch(
            launch.grid,
            launch.block,
            params.address,
            launch.shared_mem,
            checks.timeout,
            checks.order,
            launch.host.regions,
            cooperative=launch.cooperative,
        )
        if recorded is not None and checks.review is not None:
            from kspec.host.recording import ReviewedLaunch

            own = self._kernel
            _reviewer(checks.review)(
                ReviewedLaunch(
                    self.name,
                    launch.grid,
                    launch.block,
                    launch.shared_mem,
                    recorded,
                    own.code,
                    own.variables,
                    own.line_of,
                    self._figures_of,
                    self._code_of,
                )
            )

    def prepare(self, launch: Launch, params: PackedParameters) -> Start:
        """Return a function that runs the kernel with the current contents of `params`."""
        if launch.cooperative:
            return functools.partial(launch_in_full, self, launch, params)
        self._check(launch, params)
        start: Start = self._kernel.prepare(
            launch.grid, launch.block, params.address, launch.shared_mem, launch.host.regions
        )
        return start

    def prepare_resizable(self, launch: Launch, params: PackedParameters) -> tuple[Start, Resize]:
        """Return a function that runs the kernel, and one that sets its grid and block."""
        start, size = self.prepare(launch, params), (launch.grid, launch.block)

        def resize(x: int, y: int, z: int, threads: int, height: int, depth: int) -> None:
            nonlocal start, size
            wanted = (x, y, z), (threads, height, depth)
            if wanted != size:
                grid, block = size = wanted
                start = self.prepare(replace(launch, grid=grid, block=block), params)

        return (lambda: start()), resize

    def relaunch(self, start: Start, code: int) -> None:
        """Never needed: what `prepare` returns raises errors by itself."""
        raise AssertionError(code)

    def becomes_graph(self, launch: Launch) -> bool:
        """Return False: what is launched has run."""
        return False

    def make_graph(self, launch: Launch, params: PackedParameters, plain: Start) -> GraphStart:
        """Never needed, as `becomes_graph` says."""
        raise AssertionError(launch)

    def resident_blocks(self, threads: int, shared_mem: int = 0, cluster: int = 1) -> int:
        """Return 1: blocks run one after the other on each core; or that of an imagined GPU."""
        gpu = gpu_of(HOST)
        if gpu is None:
            return 1
        from kspec.runtime.schedules.occupancy import occupancy

        figures = (self._figures_of(gpu.arch) if self._figures_of else None) or Figures()
        shared = shared_mem + max(0, figures.shared_bytes)
        found = occupancy(gpu.arch, threads, figures.registers, shared)
        return found.blocks * gpu.multiprocessors if found else 1

    def _check(self, launch: Launch, params: PackedParameters) -> None:
        check_parameters(self, params)
        check_resources(self, launch, MAX_SHARED_BYTES)
        if launch.cluster is not None:
            raise NotSupportedError(
                f"{self.name}: clusters exist on CUDA devices only; the host device runs blocks by "
                "themselves"
            )


def _reviewer(review: Reviewer) -> Callable[[ReviewedLaunch], None]:
    if review != PRINTED:
        return review
    # A seam: launches do not load the modules that read their recordings.
    from kspec.reviews.printed import show

    return show


class HostModule:
    """An image loaded into this process."""

    def __init__(self, image: Image, home: LoadedModule | None = None) -> None:
        self.mapping = dict(image.symbols)
        kept = home._module if isinstance(home, HostModule) else None
        self._module: modules.NativeModule = modules.load_module(image, kept)

    def get_kernel(self, symbol: str) -> HostKernel:
        """Return a kernel by its symbol; raise `LoadError` if there is none."""
        return HostKernel(self._module.get_kernel(symbol))

    def get_global(self, symbol: str) -> tuple[int, int]:
        """Return address and size of a variable; raise `LoadError` if there is none."""
        return self._module.get_global(symbol)
