"""kspec: CUDA kernels declared once, as data; typed, precompiled, and runnable without a GPU.

>>> import kspec, numpy as np
>>> l2norm = kspec.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2norm")
>>> l2norm(np.array([[3.0, 4.0], [6.0, 8.0]]), axis=1)
array([ 5., 10.])

A kernel runs where its arrays live: CUDA arrays on their GPU, NumPy arrays on the host device.
Everything is imported on first use, so that a deployed package pays for nothing else.
"""

from __future__ import annotations

import importlib
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kspec.constructors import ElementwiseKernel, ReductionKernel
    from kspec.errors import (
        ArgumentTypeError,
        CheckOptionError,
        CompileError,
        DeviceMismatchError,
        DispatchError,
        DriverError,
        DuplicateKernelError,
        FileError,
        FusionAssignmentError,
        FusionAttributeError,
        FusionError,
        FusionIndexError,
        HostFault,
        InstanceNotBuilt,
        JitError,
        JitIndexError,
        JitNameError,
        JitNotSupportedError,
        JitOverflowError,
        JitRuntimeError,
        JitTypeError,
        JitValueError,
        KspecError,
        LaunchError,
        LoadError,
        ManifestError,
        NotCompiledError,
        NotSupportedError,
        OverlapError,
        RenderError,
        ShapeError,
        SignatureSyntaxError,
        SpecError,
        SpecializationNotBuilt,
        ToolNotFoundError,
        ToolStoppedError,
        UnboundPlaceholderError,
        UnknownTypeError,
        UnsupportedDTypeError,
    )
    from kspec.fusion.call import Fused, fuse
    from kspec.model.checks import Checks, checking
    from kspec.reviews.call import review, reviewing
    from kspec.reviews.review import Review
    from kspec.runtime import texture
    from kspec.runtime.callcache import CacheInfo
    from kspec.runtime.driver.device import Device, devices
    from kspec.runtime.libraries.lookup import asarray, asnumpy
    from kspec.runtime.memory import make_aligned_dtype
    from kspec.runtime.memory.device_array import DeviceArray, empty, zeros
    from kspec.runtime.memory.pool import MemoryPool, memory_pool
    from kspec.runtime.raw.kernel import RawKernel, RawModule

__version__ = "0.1.0"
# Files of kspec that are newer may not be what this process has imported.
__loaded__ = time.time()

_HOMES = {
    "kspec.model.checks": ("Checks", "checking"),
    "kspec.reviews.call": ("review", "reviewing"),
    "kspec.reviews.review": ("Review",),
    "kspec.constructors": ("ElementwiseKernel", "ReductionKernel"),
    "kspec.errors": (
        "ArgumentTypeError",
        "CheckOptionError",
        "CompileError",
        "DeviceMismatchError",
        "DispatchError",
        "DriverError",
        "DuplicateKernelError",
        "FileError",
        "FusionAssignmentError",
        "FusionAttributeError",
        "FusionError",
        "FusionIndexError",
        "HostFault",
        "InstanceNotBuilt",
        "JitError",
        "JitIndexError",
        "JitNameError",
        "JitNotSupportedError",
        "JitOverflowError",
        "JitRuntimeError",
        "JitTypeError",
        "JitValueError",
        "KspecError",
        "LaunchError",
        "LoadError",
        "ManifestError",
        "NotCompiledError",
        "NotSupportedError",
        "OverlapError",
        "RenderError",
        "ShapeError",
        "SignatureSyntaxError",
        "SpecError",
        "SpecializationNotBuilt",
        "ToolNotFoundError",
        "ToolStoppedError",
        "UnboundPlaceholderError",
        "UnknownTypeError",
        "UnsupportedDTypeError",
    ),
    "kspec.fusion.call": ("Fused", "fuse"),
    "kspec.runtime.memory.device_array": ("DeviceArray", "empty", "zeros"),
    "kspec.runtime.libraries.lookup": ("asarray", "asnumpy"),
    "kspec.runtime.callcache": ("CacheInfo",),
    "kspec.runtime.driver.device": ("Device", "devices"),
    "kspec.runtime.memory.pool": ("MemoryPool", "memory_pool"),
    "kspec.runtime.raw.kernel": ("RawKernel", "RawModule"),
    "kspec.runtime.memory": ("make_aligned_dtype",),
}
_PACKAGES = {"jit": "kspec.jit", "texture": "kspec.runtime.texture"}
# What declaring kernels needs, and calling generated ones does not.
_AUTHORING = ("pydantic", "jinja2")
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "ArgumentTypeError",
    "CacheInfo",
    "CheckOptionError",
    "Checks",
    "CompileError",
    "Device",
    "DeviceArray",
    "DeviceMismatchError",
    "DispatchError",
    "DriverError",
    "DuplicateKernelError",
    "ElementwiseKernel",
    "FileError",
    "Fused",
    "FusionAssignmentError",
    "FusionAttributeError",
    "FusionError",
    "FusionIndexError",
    "HostFault",
    "InstanceNotBuilt",
    "JitError",
    "JitIndexError",
    "JitNameError",
    "JitNotSupportedError",
    "JitOverflowError",
    "JitRuntimeError",
    "JitTypeError",
    "JitValueError",
    "KspecError",
    "LaunchError",
    "LoadError",
    "ManifestError",
    "MemoryPool",
    "NotCompiledError",
    "NotSupportedError",
    "OverlapError",
    "RawKernel",
    "RawModule",
    "ReductionKernel",
    "RenderError",
    "Review",
    "ShapeError",
    "SignatureSyntaxError",
    "SpecError",
    "SpecializationNotBuilt",
    "ToolNotFoundError",
    "ToolStoppedError",
    "UnboundPlaceholderError",
    "UnknownTypeError",
    "UnsupportedDTypeError",
    "asarray",
    "asnumpy",
    "checking",
    "devices",
    "empty",
    "fuse",
    "jit",
    "make_aligned_dtype",
    "memory_pool",
    "review",
    "reviewing",
    "texture",
    "zeros",
]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(_PACKAGES[name])
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'kspec' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(home), name)
    except ModuleNotFoundError as error:
        if error.name not in _AUTHORING:
            raise
        from kspec.errors import ToolNotFoundError

        raise ToolNotFoundError(
            f"kspec.{name} declares kernels, which needs {error.name}: pip install "
            "'kspec[author]' (to compile for GPUs too, 'kspec[cu13]' or 'kspec[cu12]')"
        ) from error


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
