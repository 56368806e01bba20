"""What the tests of the checking modes share: compilers, and running one text in some mode."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kspec.compiler.host import HostCompiler, describe
from kspec.compiler.host.compile import compile_host
from kspec.errors import HostFault
from kspec.host.kernels import Region
from kspec.host.modules import NativeModule, load_module
from kspec.model.stages import CudaSource, Target
from tests.compiling import compiled
from tests.host.conftest import as_ctypes

COMPILERS = ("default", "zig")


def zig_compiler() -> HostCompiler:
    """Return the compiler of the wheel; skip the test if this machine lacks it."""
    ziglang = pytest.importorskip("ziglang")
    return describe((str(Path(ziglang.__file__).parent / "zig"), "c++"))


@functools.cache
def checked_module(text: str, modes: str, compiler: str) -> NativeModule:
    """Compile a text for checking modes, once for all tests."""
    sanitize = tuple(sorted(modes.split(","))) if modes else ()
    source = CudaSource("kernel.cu", text)
    if compiler == "zig":
        return load_module(compile_host(source, zig_compiler(), sanitize=sanitize))
    return load_module(compiled(source, Target("host", sanitize)))


def fault_of(kernel: Any, *call: Any, **options: Any) -> HostFault:
    """Return the fault that a call of a kernel ends in."""
    with pytest.raises(HostFault) as caught:
        kernel(*call, **options)
    return caught.value


class Checked:
    """A text in checking modes: ``program("kernel", grid, block, *arguments)``."""

    def __init__(self, text: str, modes: str, compiler: str = "default") -> None:
        self.module = checked_module(text, modes, compiler)

    def __call__(
        self,
        name: str,
        grid: Any,
        block: Any,
        *arguments: Any,
        order: str = "forward",
        **options: Any,
    ) -> None:
        values = [as_ctypes(argument) for argument in arguments]
        pointers = (ctypes.c_void_p * max(1, len(values)))(*map(ctypes.addressof, values))
        regions = [
            Region(one.ctypes.data, one.nbytes, f"argument {number}")
            for number, one in enumerate(arguments)
            if isinstance(one, np.ndarray)
        ]
        shape = [(*np.atleast_1d(x).tolist(), 1, 1, 1)[:3] for x in (grid, block)]
        self.module.get_kernel(name).launch(
            shape[0], shape[1], ctypes.addressof(pointers), order=order, regions=regions, **options
        )

    def fault(self, *call: Any, **options: Any) -> HostFault:
        """Make a call that must fail; the module still works afterwards."""
        with pytest.raises(HostFault) as caught:
            self(*call, **options)
        out = np.zeros(64, np.int32)
        self("fine", 2, 32, out)
        assert (out == np.arange(64)).all()
        return caught.value


FINE = """
extern "C" __global__ void fine(int* x) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  x[i] = i;
}
"""


def place_of(text: str, snippet: str) -> str:
    """Return "kernel.cu:LINE" of the only line of a text with a snippet."""
    (number,) = [n for n, line in enumerate(text.split("\n"), 1) if snippet in line]
    return f"kernel.cu:{number}"
