"""New arrays for the outputs of a raw kernel that a call leaves out.

They are of the library of the first array argument, as those of elementwise kernels are.
`kspec.runtime.raw.launch_rules` works out their shapes.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kspec.errors import ArgumentTypeError
from kspec.model import dtypes
from kspec.model.signature import CParam
from kspec.runtime.driver.device import HOST, Device, default_device
from kspec.runtime.libraries.array_access import maker
from kspec.runtime.libraries.lookup import Library, default_library, library_of
from kspec.runtime.libraries.registry import Plain
from kspec.runtime.libraries.stream_order import stream_handle

_DIRECT = {"numpy", "cupy", "torch", "kspec"}  # libraries whose dtypes can be dictionary keys


class NewOutputs:
    """Makes the outputs of one kernel.

    Parameters
    ----------
    kernel : str
        Its name, for messages.
    params : sequence of CParam
        Its parameters.
    structs : mapping of str to str
        Dtypes of the structs that parameters have.
    returned : collection of int
        Positions of the outputs.
    """

    def __init__(
        self,
        kernel: str,
        params: Sequence[CParam],
        structs: Mapping[str, str],
        returned: Collection[int],
    ) -> None:
        self._kernel = kernel
        self._params = params
        self._pointers = [k for k, param in enumerate(params) if param.pointer]
        self._names: dict[Any, str] = {}
        self._dtypes: dict[int, str] = {}
        # Positions of the arrays that decide the dtype of an output with a placeholder.
        self._alike: dict[int, list[int]] = {}
        for position in returned:
            ctype = params[position].type
            row = dtypes.from_ctype(ctype)
            if params[position].is_placeholder:
                alike = [k for k in self._pointers if params[k].type == ctype]
                self._alike[position] = [k for k in alike if k not in returned]
                self._alike[position] += [k for k in alike if k in returned and k != position]
            else:
                self._dtypes[position] = row.name if row is not None else structs[ctype]

    def make(self, position: int, shape: tuple[int, ...], args: Sequence[Any]) -> Any:
        """Return a new array for a parameter, given the arguments of the call.

        Raises
        ------
        ArgumentTypeError
            If no array decides its dtype.
        """
        library, array = self._first(args)
        if library is None:
            device = default_device()
            library = default_library(device)
        else:
            device = _device_of(library, array)
        dtype = self._dtypes.get(position) or self._bound(position, args)
        make = _maker(library, shape, dtype, device)  # type: ignore[arg-type]  # hashable
        return make()

    def finish(self, array: Any, given: Sequence[Any], args: Sequence[Any], stream: Any) -> Any:
        """Return the caller's form of an array of `make` that a launch has written to.

        `given` are the arguments as they were given, `args` all of them, `stream` that of the call.
        """
        library, first = self._first(given)
        if library is None or getattr(type(library), "finish", None) is Plain.finish:
            return array
        device = _device_of(library, first)
        queued, _ = self._first(args)  # whose current stream the launch was on
        assert queued is not None
        handle = queued.stream(device) if stream is None else stream_handle(stream)
        return library.finish(array, device, handle)

    def _first(self, args: Sequence[Any]) -> tuple[Library | None, Any]:
        """Return the first array of the arguments and its library; None if there is none."""
        for position in self._pointers:
            value = args[position]
            library = None if value is None else library_of(value)
            if library is not None:
                return library, value
        return None, None

    def _bound(self, position: int, args: Sequence[Any]) -> str:
        for other in self._alike[position]:
            library = None if args[other] is None else library_of(args[other])
            if library is not None:
                return self._dtype_of(library, args[other])
        param = self._params[position]
        raise ArgumentTypeError(
            f"{self._kernel}: argument {param.name}: no array decides the type {param.type}"
        )

    def _dtype_of(self, library: Library, array: Any) -> str:
        """Return the dtype of an array; names take longer to find than to look up."""
        dtype = array.dtype if library.name in _DIRECT else None
        if dtype is None or getattr(dtype, "names", None) is not None:
            return library.view(array).dtype  # structs that differ in alignment are equal
        found = self._names.get(dtype)
        if found is None:
            found = self._names[dtype] = library.view(array).dtype
        return found


# Each call for known shapes and types takes these from here.
_maker = functools.lru_cache(maxsize=1024)(maker)


def _device_of(library: Library, array: Any) -> Device:
    if library.name == "numpy":
        return HOST
    if library.name == "kspec":
        device: Device = array.device
        return device
    if library.name == "cupy":
        return _cuda(array.data.device_id)
    if library.name == "torch":
        ordinal = array.get_device()
        return HOST if ordinal < 0 else _cuda(ordinal)
    return library.view(array).device


@functools.lru_cache(maxsize=64)
def _cuda(ordinal: int) -> Device:
    return Device("cuda", ordinal)
