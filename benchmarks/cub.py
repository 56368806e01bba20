"""CUB's device functions, called from C++: a peer with no Python in between.

`benchmarks/cub.cu` is compiled by nvcc when the first case calls it, and kept in ``.cache`` of the
checkout.  Its functions get the addresses of operands and the legacy default stream::

    call = Cub(functools.partial(load, "sm_90"), empty, address_of).prepare(
        "scan_float32", [x, y], elements=x.size, rows=1
    )
    call()
"""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.timing import Call
from kspec.compiler.cuda.nvcc import find_nvcc, nvcc_build
from kspec.errors import ToolNotFoundError

SOURCE = Path(__file__).with_suffix(".cu")
_FOLDER = SOURCE.parents[1] / ".cache" / "benchmarks"
_FLAGS = ("-O3", "-std=c++17", "-shared", "-Xcompiler", "-fPIC")
_STREAM = None  # the legacy default stream


class CubError(Exception):
    """CUB's functions cannot be compiled, loaded or called."""


class Cub:
    """The functions of `benchmarks/cub.cu`.

    Parameters
    ----------
    load : callable
        Returns the library; it is called once, when the first function is needed.
    empty : callable
        Returns bytes of device memory, given their number.
    address_of : callable
        Returns the address of an array.
    """

    def __init__(
        self,
        load: Callable[[], Any],
        empty: Callable[[int], Any],
        address_of: Callable[[Any], int],
    ) -> None:
        self._load = load
        self._empty = empty
        self._address_of = address_of
        self._library: Any = None
        self._fault = ""

    def prepare(self, name: str, operands: Sequence[Any], elements: int, rows: int) -> Call:
        """Return a call of a function, with its temporary memory allocated.

        Parameters
        ----------
        name : str
            Name of the function.
        operands : sequence of array
            Inputs, then the output, each C-contiguous.
        elements, rows : int
            Elements of the first input, and rows or segments that they are in.

        Raises
        ------
        CubError
            If the library cannot be loaded, or CUB returns an error.
        """
        function = getattr(self._loaded(), name)
        function.argtypes = [
            ctypes.c_void_p,
            ctypes.POINTER(ctypes.c_size_t),
            *[ctypes.c_void_p] * len(operands),
            *[ctypes.c_longlong] * 2,
            ctypes.c_void_p,
        ]
        needed = ctypes.c_size_t()
        size = ctypes.byref(needed)
        tail = (*map(self._address_of, operands), elements, rows, _STREAM)
        _check(name, function(None, size, *tail))
        # A null pointer would ask for the size again.
        memory = self._empty(max(1, needed.value))
        address = self._address_of(memory)

        def call() -> Any:
            _check(name, function(address, size, *tail))
            return memory  # which lives as long as the call does

        return call

    def _loaded(self) -> Any:
        if self._fault:  # one attempt is enough
            raise CubError(self._fault)
        if self._library is None:
            try:
                self._library = self._load()
            except (CubError, OSError, ToolNotFoundError) as error:
                self._fault = str(error)
                raise CubError(self._fault) from None
        return self._library


def _check(name: str, error: int) -> None:
    if error:
        raise CubError(f"{name}: CUDA error {error}")


def missing() -> str:
    """Return why CUB is left out; empty if nvcc is there."""
    try:
        find_nvcc()
    except ToolNotFoundError as error:
        return f"CUB is left out: {error}"
    return ""


def load(arch: str, folder: Path = _FOLDER) -> ctypes.CDLL:
    """Return the library for an architecture, compiled if it is not in the folder.

    Raises
    ------
    CubError
        If nvcc refuses the text.
    ToolNotFoundError
        If there is no nvcc.
    OSError
        If the library cannot be loaded.
    """
    text = SOURCE.read_bytes()
    key = hashlib.sha256("\0".join([nvcc_build(), arch, *_FLAGS]).encode() + text).hexdigest()
    path = folder / f"cub-{key[:16]}.so"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as name:
            built = Path(name) / path.name
            _compile(arch, built)
            built.replace(path)
    return ctypes.CDLL(str(path))


def _compile(arch: str, path: Path) -> None:
    command = [str(find_nvcc()), f"-arch={arch}", *_FLAGS, "-o", str(path), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if "error" in line]
        reason = lines[0] if lines else f"exit status {done.returncode}"
        raise CubError(f"nvcc does not compile {SOURCE.name}: {reason}")
