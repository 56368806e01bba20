"""What the host device's tests share: compile a text, call a kernel with ctypes arguments."""

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kspec.host.buffers import HostBuffer
from kspec.host.modules import NativeModule, load_module
from kspec.model.stages import CudaSource, Target
from tests.compiling import compiled, optimized

__all__ = ["Program", "as_ctypes", "buffer_of", "build", "held_compiler", "optimized"]


def as_ctypes(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return ctypes.c_void_p(argument.ctypes.data)
    if isinstance(argument, HostBuffer):
        return ctypes.c_void_p(argument.ptr)
    if isinstance(argument, int):
        return ctypes.c_int(argument)
    return argument


class Program:
    """A compiled text whose kernels are called as ``program("name", grid, block, *arguments)``."""

    def __init__(self, text: str, names: Sequence[str] = (), **options: Any) -> None:
        source = CudaSource("test.cu", text, tuple(names), **options)
        self.image = compiled(source, Target("host"))
        self.module: NativeModule = load_module(self.image)

    def __call__(
        self,
        name: str,
        grid: Any,
        block: Any,
        *arguments: Any,
        shared_mem: int = 0,
        timeout: float | None = None,
    ) -> None:
        values = [as_ctypes(argument) for argument in arguments]
        pointers = (ctypes.c_void_p * max(1, len(values)))(*map(ctypes.addressof, values))
        kernel = self.module.get_kernel(name)
        shape = [(*np.atleast_1d(x).tolist(), 1, 1, 1) for x in (grid, block)]
        kernel.launch(
            shape[0][:3], shape[1][:3], ctypes.addressof(pointers), shared_mem, timeout=timeout
        )


@pytest.fixture(scope="session")
def build() -> Callable[..., Program]:
    return Program


def buffer_of(array: np.ndarray) -> tuple[HostBuffer, np.ndarray]:
    """Return a host buffer holding a copy of `array`, and the array that views it."""
    buffer = HostBuffer(array.nbytes)
    raw = (ctypes.c_char * max(1, array.nbytes)).from_address(buffer.ptr)
    view = np.frombuffer(raw, dtype=array.dtype, count=array.size).reshape(array.shape)
    view[...] = array
    return buffer, view


def held_compiler(folder: Path) -> tuple[str, Path, Path]:
    """Return a compiler that waits while a file exists, that file, and one that says it waits."""
    hold, held, compiler = folder / "hold", folder / "held", folder / "g++"
    compiler.write_text(
        f'#!/bin/sh\nfor one; do [ "$one" = --version ] && exec c++ "$@"; done\n'
        f"if [ -e {hold} ]; then : > {held}; while [ -e {hold} ]; do sleep 0.02; done; fi\n"
        'exec c++ "$@"\n'
    )
    compiler.chmod(0o700)
    return str(compiler), hold, held
