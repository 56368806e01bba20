"""Memory that textures and surfaces read: an array of their own layout, or that of any library."""

from __future__ import annotations

from typing import Any

from kspec.errors import ArgumentTypeError, NotSupportedError
from kspec.host.texture import TextureData
from kspec.model import dtypes
from kspec.runtime.libraries.lookup import library_of
from kspec.runtime.memory.device_array import show
from kspec.runtime.memory.handle import Handle
from kspec.runtime.texture import driver_texture
from kspec.runtime.texture.array import CUDAarray
from kspec.runtime.texture.channels import ChannelFormatDescriptor
from kspec.runtime.texture.constants import (
    cudaResourceTypeArray,
    cudaResourceTypeLinear,
    cudaResourceTypeMipmappedArray,
    cudaResourceTypePitch2D,
)

_TYPES = cudaResourceTypeArray, cudaResourceTypeLinear, cudaResourceTypePitch2D


class ResourceDescriptor(Handle):
    """Memory that a texture or surface reads: an array, linear memory, or rows of it.

    Parameters
    ----------
    restype : int
        ``cudaResourceTypeArray``, ``...Linear`` or ``...Pitch2D``.
    cuArr : CUDAarray, optional
        The array.
    arr : array, optional
        C-contiguous memory of any library, for the other two; kept alive.
    chDesc : ChannelFormatDescriptor, optional
        Elements of `arr`.
    sizeInBytes : int
        Bytes of linear memory.
    width, height, pitchInBytes : int
        Elements of a row, rows, and bytes from one row to the next.

    Raises
    ------
    NotSupportedError
        For mipmapped arrays.
    ValueError
        If an argument that the type needs is missing.
    """

    def __init__(
        self,
        restype: int,
        cuArr: CUDAarray | None = None,
        arr: Any = None,
        chDesc: ChannelFormatDescriptor | None = None,
        sizeInBytes: int = 0,
        width: int = 0,
        height: int = 0,
        pitchInBytes: int = 0,
    ) -> None:
        if restype == cudaResourceTypeMipmappedArray:
            raise NotSupportedError("mipmapped arrays are not supported")
        if restype not in _TYPES:
            raise ValueError(f"unknown resource type {restype}")
        self.restype = restype
        self.cuArr, self.arr, self.chDesc = cuArr, arr, chDesc
        self.sizeInBytes, self.width, self.height = sizeInBytes, width, height
        self.pitchInBytes = pitchInBytes
        if restype == cudaResourceTypeArray:
            if cuArr is None:
                raise ValueError("a resource of type array needs cuArr")
            if not isinstance(cuArr, CUDAarray):
                raise ArgumentTypeError(f"cuArr must be a CUDAarray, not {type(cuArr).__name__}")
            self.device, self.channels = cuArr.device, cuArr.channels
            return
        library = library_of(arr)
        if library is None or chDesc is None:
            raise ValueError("a resource of linear memory needs arr, an array, and chDesc")
        if not isinstance(chDesc, ChannelFormatDescriptor):
            raise ArgumentTypeError(
                f"chDesc must be a ChannelFormatDescriptor, not {type(chDesc).__name__}"
            )
        self._view = library.view(arr)
        show(arr)  # textures do not know on which streams they are read
        self.device, self.channels = self._view.device, chDesc.channels()
        self._check_memory()

    def _check_memory(self) -> None:
        itemsize = self.channels.itemsize
        held = self._view.size * dtypes.lookup(self._view.dtype).itemsize
        needed = self.sizeInBytes
        if self.restype == cudaResourceTypePitch2D:
            if self.width < 1 or self.height < 1 or self.pitchInBytes < self.width * itemsize:
                raise ValueError("width, height and pitchInBytes must be given and fit together")
            needed = self.pitchInBytes * (self.height - 1) + self.width * itemsize
        elif needed < itemsize:
            raise ValueError(f"sizeInBytes is {needed}, but an element has {itemsize} bytes")
        if needed > held or not self._view.is_c_contiguous:
            raise ValueError(f"{needed} bytes are read, but arr is not C-contiguous or too small")

    def get_resource_desc(self) -> dict[str, Any]:
        """Return the arguments by name."""
        names = ("restype", "cuArr", "arr", "chDesc", "sizeInBytes", "width", "height")
        return {name: getattr(self, name) for name in (*names, "pitchInBytes")}

    def fill(self, data: TextureData) -> None:
        """Describe the memory to the host device."""
        channels = self.channels
        data.kind, data.bits, data.channels = channels.kind, channels.bits, channels.count
        item = channels.itemsize
        if self.cuArr is not None:
            extent = [self.cuArr.width, max(1, self.cuArr.height), max(1, self.cuArr.depth)]
            data.dimensions, data.data, pitch = self.cuArr.ndim, self.cuArr.ptr, extent[0] * item
        elif self.restype == cudaResourceTypeLinear:
            extent, pitch = [self.sizeInBytes // item, 1, 1], self.sizeInBytes
            data.dimensions, data.data = 0, self._view.ptr
        else:
            extent, pitch = [self.width, self.height, 1], self.pitchInBytes
            data.dimensions, data.data = 2, self._view.ptr
        data.extent[:] = extent
        data.stride[:] = [item, pitch, pitch * extent[1]]

    def driver_resource(self) -> Any:
        """Return the driver's descriptor."""
        if self.cuArr is not None:
            return driver_texture.array_resource(self.cuArr.handle)
        if self.restype == cudaResourceTypeLinear:
            return driver_texture.linear_resource(self._view.ptr, self.sizeInBytes, self.channels)
        return driver_texture.pitched_resource(
            self._view.ptr, self.channels, self.width, self.height, self.pitchInBytes
        )
