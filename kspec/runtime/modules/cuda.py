"""An image loaded on a CUDA device."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kspec import config
from kspec.errors import DriverError, LaunchError, LoadError
from kspec.locks import RecentMap, make_lock
from kspec.model.stages import Image
from kspec.runtime import driver
from kspec.runtime.driver import module as driver_module
from kspec.runtime.driver import stream as driver_streams
from kspec.runtime.driver.launch import Launch
from kspec.runtime.driver.launch_ex import (
    Resize,
    Start,
    launch_once,
    prepare_resizable,
    relaunch,
)
from kspec.runtime.driver.module import DriverModule
from kspec.runtime.modules import check_parameters, check_resources, launch_in_full, readable
from kspec.runtime.schedules.marshal import PackedParameters

if TYPE_CHECKING:
    from kspec.runtime.driver.graph import GraphStart

_PORTABLE_CLUSTER = 8  # blocks that a cluster can have on every device that has clusters
_CLUSTERS_SINCE = (9, 0)
_DEVICE_RUNTIME = "cuda_device_runtime"  # in the names of the kernels that it brings along


class CudaKernel:
    """A kernel on a CUDA device.

    Parameters
    ----------
    module : DriverModule
        Stays loaded for as long as the kernel is in use.
    name : str
        Its lowered name.
    function : CUfunction
        The driver's handle.
    """

    def __init__(self, module: DriverModule, name: str, function: Any) -> None:
        self.name = name
        self._label = readable(name)
        self.ordinal = module.ordinal
        self._module = module
        self._function = function
        self.modes: tuple[str, ...] = ()
        self.points: tuple[bool, ...] | None = None
        self.parameter_sizes = driver_module.parameter_sizes(module.ordinal, function)
        self._resident: dict[tuple[int, int, int], int] = {}
        self._shared_limit = -1  # what the driver knows, once it was told
        self._telling = make_lock()

    @property
    def ptr(self) -> int:
        """The driver's handle, a ``CUfunction``."""
        self._module.stay()
        return int(self._function)

    @functools.cached_property
    def attributes(self) -> dict[str, int]:
        """Resources of the kernel, and limits of its launches, before anybody changed them."""
        read = functools.partial(driver_module.attribute, self.ordinal, self._function)
        return {name: read(name) for name in driver_module.ATTRIBUTES}

    def allow_shared_memory(self, nbytes: int) -> None:
        """Allow launches with so much dynamic shared memory, and with less."""
        name = "max_dynamic_shared_size_bytes"
        with self._telling:  # no other thread may allow less after we have looked
            if 0 <= nbytes <= max(self._shared_limit, self.attributes[name]):
                return
            try:
                driver_module.set_attribute(self.ordinal, self._function, name, nbytes)
            except DriverError as error:
                asked = f"{self._label}: {nbytes} bytes of dynamic shared memory"
                text = f"{error.explanation}: {asked}"
                raise DriverError(error.name, text, error.code) from None
            self._shared_limit = nbytes

    def launch(self, launch: Launch, params: PackedParameters) -> None:
        """Queue the kernel on the launch's stream."""
        launch = self._checked(launch, params)
        if launch.cooperative:
            self._check_residency(launch)
        if driver_streams.is_capturing(self.ordinal, launch.stream):
            self._module.stay()
        launch_once(self.ordinal, self._function, launch, params.address, self._label)

    def prepare(self, launch: Launch, params: PackedParameters) -> Start:
        """Return a function that launches the kernel with the current contents of `params`."""
        if launch.cooperative:
            return functools.partial(launch_in_full, self, launch, params)
        return self.prepare_resizable(launch, params)[0]

    def prepare_resizable(self, launch: Launch, params: PackedParameters) -> tuple[Start, Resize]:
        """Return a function that launches the kernel, and one that sets its grid and block."""
        launch = self._checked(launch, params)
        if driver_streams.can_be_captured(launch.stream):
            self._module.stay()  # repeated launches are not looked at
        return prepare_resizable(self.ordinal, self._function, launch, params.address, self)

    def relaunch(self, start: Start, code: int) -> None:
        """Deal with a launch of `prepare` that returned a code other than 0."""
        relaunch(self.ordinal, start, code, self._label)

    def becomes_graph(self, launch: Launch) -> bool:
        """Return whether it is to be launched as a graph if that happens often."""
        from kspec.runtime.driver import graph as driver_graph

        if launch.has_attributes or not driver_graph.is_wanted():
            return False
        return not self._module_has_device_runtime

    @functools.cached_property
    def _module_has_device_runtime(self) -> bool:
        """Whether kernels of its module may launch kernels, which those in a graph must not.

        The driver does not refuse: on an H200 the inner kernels did not run, or the outer one did
        not end.
        """
        names = self._module.kernel_names()
        return names is None or any(_DEVICE_RUNTIME in name for name in names)

    def make_graph(self, launch: Launch, params: PackedParameters, plain: Start) -> GraphStart:
        """Return functions that launch it as a graph, given the plain launch, which keeps it."""
        from kspec.runtime.driver import graph as driver_graph

        return driver_graph.make_graph(self.ordinal, self._function, launch, params.address, plain)

    def resident_blocks(self, threads: int, shared_mem: int = 0, cluster: int = 1) -> int:
        """Return the number of blocks of so many threads that the device holds at the same time.

        In clusters of so many blocks, if they are several.
        """
        key = threads, shared_mem, cluster
        if key not in self._resident:
            self.allow_shared_memory(shared_mem)
            if cluster > 1:
                self._allow_cluster(cluster)
            self._resident[key] = driver_module.resident_blocks(self.ordinal, self._function, *key)
        return self._resident[key]

    def _checked(self, launch: Launch, params: PackedParameters) -> Launch:
        """Check a launch and allow the kernel what it needs for it."""
        driver.note_launch(self._label)
        check_parameters(self, params)
        check_resources(self, launch, driver.most_shared_memory(self.ordinal))
        if launch.shared_limit is not None:
            self.allow_shared_memory(launch.shared_mem)
        if launch.cluster is not None or launch.pdl:
            launch = self._checked_cluster(launch)
        return launch

    def _checked_cluster(self, launch: Launch) -> Launch:
        major, minor = driver.compute_capability(self.ordinal)
        if (major, minor) < _CLUSTERS_SINCE:
            if launch.cluster is not None:
                raise LaunchError(
                    f"{self._label}: clusters need compute capability 9.0, and "
                    f"{driver.device_name(self.ordinal)} has {major}.{minor}"
                )
            return replace(launch, pdl=False)  # an optimisation that older devices do not know
        if launch.cluster is not None:
            self._allow_cluster(math.prod(launch.cluster))
        return launch

    def _allow_cluster(self, blocks: int) -> None:
        if blocks > _PORTABLE_CLUSTER:
            driver_module.allow_large_clusters(self.ordinal, self._function)

    def _check_residency(self, launch: Launch) -> None:
        """Raise `LaunchError` for more blocks than wait for each other without a deadlock."""
        name, blocks, threads = self._label, math.prod(launch.grid), math.prod(launch.block)
        limit = self.resident_blocks(threads, launch.shared_mem)
        if blocks > limit:
            raise LaunchError(
                f"{name}: a cooperative grid of {blocks} blocks cannot be resident; the "
                f"limit on this device is {limit} blocks of {threads} threads with "
                f"{launch.shared_mem} bytes of dynamic shared memory: launch fewer, and let each "
                "do more"
            )


class CudaModule:
    """An image loaded on a CUDA device."""

    def __init__(self, image: Image, ordinal: int) -> None:
        self.ordinal = ordinal
        self.mapping = dict(image.symbols)
        self._kernels: RecentMap[str, CudaKernel] = RecentMap(0)
        config.graph_launch()  # raises now: repeated calls would be checked in full, and go on
        try:
            self._module = DriverModule(ordinal, image.code)
        except DriverError as error:
            raise LoadError(_why_not_loaded(error, image, ordinal)) from error

    def get_kernel(self, symbol: str) -> CudaKernel:
        """Return a kernel by its lowered name; raise `LoadError` if there is none.

        It is the same object while it is in use: what the driver was told of it holds for all.
        """
        return self._kernels.get_or_make(symbol, lambda: self._find(symbol))

    def _find(self, symbol: str) -> CudaKernel:
        return CudaKernel(self._module, symbol, self._module.get_function(symbol))

    def get_global(self, symbol: str) -> tuple[int, int]:
        """Return address and size of a variable; raise `LoadError` if there is none."""
        return self._module.get_global(symbol)


def _why_not_loaded(error: DriverError, image: Image, ordinal: int) -> str:
    """Return the reason, the image, the GPU or the driver, and advice."""
    from kspec.runtime.driver.archs import best_arch, device_arch, device_text
    from kspec.runtime.modules.image_text import contents_of

    found = contents_of(image.code)
    arch = device_arch(ordinal)
    what = f"a {found.kind}" + (f" for {', '.join(found.archs)}" if found.archs else "")
    best = best_arch(found.archs, driver.compute_capability(ordinal))
    if error.name == "CUDA_ERROR_UNSUPPORTED_PTX_VERSION":
        ptx = ".".join(map(str, found.ptx_version)) if found.ptx_version else "in it"
        advice = (
            f"PTX {ptx} is newer than the driver: update that, or compile for {arch}, with an "
            "older toolkit, or with ptx_isa in [tool.kspec]"
        )
    elif not found.archs:
        advice = "it is damaged, or was never an image"
    elif error.name == "CUDA_ERROR_NO_BINARY_FOR_GPU" or best is None:
        advice = f"compile it for {arch}, or as PTX for an older architecture"
    else:
        advice = (
            f"{best} would run, but it may be damaged, or made by a newer toolkit than the driver"
        )
    if found.kind == "fatbin":
        advice += "; a package of kspec is compiled for this machine by `kspec build --arch native`"
    return f"{error}: {what}, on {device_text(ordinal)}; {advice}"
