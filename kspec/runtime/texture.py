"""Texture and surface objects, with CuPy's classes (``cupy.cuda.texture``), on CUDA and the host.

>>> import numpy as np
>>> channel = ChannelFormatDescriptor(32, 0, 0, 0, cudaChannelFormatKindFloat)
>>> array = CUDAarray(channel, 4, 3, device="host")
>>> array.copy_from(np.arange(12, dtype=np.float32).reshape(3, 4))
>>> resource = ResourceDescriptor(cudaResourceTypeArray, cuArr=array)
>>> texture = TextureObject(resource, TextureDescriptor((cudaAddressModeClamp,) * 2))

Kernels take the objects as ``cudaTextureObject_t`` and ``cudaSurfaceObject_t`` arguments.  Their
``.ptr`` is the handle; it stays valid as long as the object lives.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from kspec import dtypes
from kspec.errors import ArgumentTypeError, NotSupportedError
from kspec.host import device as host
from kspec.host.texture import MAGIC, TextureData
from kspec.runtime import driver_texture
from kspec.runtime.arrays import show, use_on
from kspec.runtime.device import Device, parse_device
from kspec.runtime.driver_texture import Channels
from kspec.runtime.interop import library_of, stream_handle
from kspec.runtime.views import ArrayView

# The values of the CUDA runtime.
cudaChannelFormatKindSigned, cudaChannelFormatKindUnsigned, cudaChannelFormatKindFloat = 0, 1, 2
cudaResourceTypeArray, cudaResourceTypeMipmappedArray = 0, 1
cudaResourceTypeLinear, cudaResourceTypePitch2D = 2, 3
cudaAddressModeWrap, cudaAddressModeClamp, cudaAddressModeMirror, cudaAddressModeBorder = range(4)
cudaFilterModePoint, cudaFilterModeLinear = 0, 1
cudaReadModeElementType, cudaReadModeNormalizedFloat = 0, 1
cudaArraySurfaceLoadStore = 2

_KIND_NAMES = ("int", "uint", "float")


class ChannelFormatDescriptor:
    """What an element of an array consists of.

    Parameters
    ----------
    x, y, z, w : int
        Bits of each channel, 0 for those it does not have.
    f : int
        ``cudaChannelFormatKindSigned``, ``...Unsigned`` or ``...Float``.
    """

    def __init__(self, x: int, y: int, z: int, w: int, f: int) -> None:
        self._format = {"x": x, "y": y, "z": z, "w": w, "f": f}

    def get_channel_format(self) -> dict[str, int]:
        """Return the arguments by name."""
        return dict(self._format)

    def channels(self) -> Channels:
        """Return kind, bits and number of the channels.

        Raises
        ------
        ValueError
            For a combination that CUDA does not have.
        """
        *sizes, kind = self._format.values()
        count = sum(size != 0 for size in sizes)
        bits = sizes[0]
        alike = sizes == [bits] * count + [0] * (4 - count)
        known = bits in (8, 16, 32) and (kind != cudaChannelFormatKindFloat or bits != 8)
        if count not in (1, 2, 4) or not alike or kind not in (0, 1, 2) or not known:
            raise ValueError(
                f"channels {tuple(sizes)} of kind {kind}: there must be 1, 2 or 4 of equal size, "
                "8, 16 or 32 bits for integers, 16 or 32 for floats"
            )
        return Channels(kind, bits, count)


class CUDAarray:
    """An array that textures and surfaces read, in a layout only they know.

    Parameters
    ----------
    desc : ChannelFormatDescriptor
        Its elements.
    width, height, depth : int
        Extents in elements; 0 for axes it does not have.
    flags : int
        ``cudaArraySurfaceLoadStore`` if a surface shall write it.
    device : {"host", "cuda", "cuda:N"}, optional
        Where; default: the current CUDA device if there is one, else the host.

    Raises
    ------
    ValueError
        For a width of 0, or a depth without height.
    """

    def __init__(
        self,
        desc: ChannelFormatDescriptor,
        width: int,
        height: int = 0,
        depth: int = 0,
        flags: int = 0,
        *,
        device: Device | str | None = None,
    ) -> None:
        if width <= 0 or height < 0 or depth < 0:
            raise ValueError(f"width {width}, height {height}, depth {depth}: width must be > 0")
        if depth and not height:
            raise ValueError("an array with a depth needs a height")
        self.desc = desc
        self.width, self.height, self.depth, self.flags = width, height, depth, flags
        self.ndim = 3 if depth else 2 if height else 1
        self.device = parse_device(device)
        self.channels = desc.channels()
        self._memory: Any = None  # on the host: the elements in C order
        if self.device.is_host:
            rows = max(1, height) * max(1, depth)
            self._memory = host.allocate(width * rows * self.channels.itemsize)
            ctypes.memset(self._memory.ptr, 0, self._memory.nbytes)
            self.ptr = self._memory.ptr
            return
        ordinal = self.device.ordinal
        self.handle = driver_texture.create_array(
            ordinal, self.channels, width, height, depth, flags
        )
        self.ptr = int(self.handle)
        finalizer = weakref.finalize(self, driver_texture.destroy_array, ordinal, self.handle)
        finalizer.atexit = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the arrays it is copied from and to: the channels are part of the last axis."""
        row = self.width * self.channels.count
        return (self.depth, self.height, row)[3 - self.ndim :]

    def copy_from(self, arr: Any, stream: Any = None) -> None:
        """Copy all elements from an array.

        Parameters
        ----------
        arr : array
            A NumPy array, or one of the same device; of `shape` and the channels' dtype.
        stream : stream, optional
            For CUDA arrays: where the copy is queued.

        Raises
        ------
        ValueError
            If shape or dtype differ, or a device array is not C-contiguous.
        """
        if isinstance(arr, np.ndarray):
            arr = np.ascontiguousarray(arr)
        self._copy(arr, True, stream)

    def copy_to(self, arr: Any, stream: Any = None) -> None:
        """Copy all elements to an array; parameters and errors as for `copy_from`."""
        self._copy(arr, False, stream)

    def _copy(self, arr: Any, into_array: bool, stream: Any) -> None:
        view = self._checked(arr)
        if self.device.is_host:
            there, here = (self.ptr, view.ptr) if into_array else (view.ptr, self.ptr)
            ctypes.memmove(there, here, self._memory.nbytes)
            return
        handle = 0 if stream is None else stream_handle(stream)
        use_on(handle, arr)
        row = self.width * self.channels.itemsize
        extents = row, max(1, self.height), max(1, self.depth)
        driver_texture.copy_array(
            self.device.ordinal,
            self.handle,
            view.ptr,
            view.device.is_host,
            extents,
            into_array,
            handle,
        )

    def _checked(self, arr: Any) -> ArrayView:
        library = library_of(arr)
        if library is None:
            raise ArgumentTypeError(f"expected an array, not {type(arr).__name__}")
        view = library.view(arr)
        if not view.device.is_host and view.device != self.device:
            raise ArgumentTypeError(f"the array lives on {view.device}, not on {self.device}")
        dtype = f"{_KIND_NAMES[self.channels.kind]}{self.channels.bits}"
        if view.shape != self.shape:
            raise ValueError(f"the array must have shape {self.shape}, not {view.shape}")
        if view.dtype != dtype:
            raise ValueError(f"the array must have dtype {dtype}, not {view.dtype}")
        if not view.is_c_contiguous:
            raise ValueError("the array must be C-contiguous")
        return view


class ResourceDescriptor:
    """What a texture or surface reads: an array, linear memory, or rows of it.

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
        If what the type needs is missing.
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
        if restype not in (0, 2, 3):
            raise ValueError(f"unknown resource type {restype}")
        self.restype = restype
        self.cuArr, self.arr, self.chDesc = cuArr, arr, chDesc
        self.sizeInBytes, self.width, self.height = sizeInBytes, width, height
        self.pitchInBytes = pitchInBytes
        if restype == cudaResourceTypeArray:
            if cuArr is None:
                raise ValueError("a resource of type array needs cuArr")
            self.device, self.channels = cuArr.device, cuArr.channels
            return
        library = library_of(arr)
        if library is None or chDesc is None:
            raise ValueError("a resource of linear memory needs arr, an array, and chDesc")
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


class TextureDescriptor:
    """How a texture is read.

    Parameters
    ----------
    addressModes : sequence of int, optional
        What coordinates outside mean, for up to three axes: ``cudaAddressModeWrap``, ``Clamp``,
        ``Mirror`` or ``Border``; wrap and mirror need normalized coordinates.
    filterMode : int
        ``cudaFilterModePoint`` or ``cudaFilterModeLinear``.
    readMode : int
        ``cudaReadModeElementType``, or ``cudaReadModeNormalizedFloat``: integers of 8 and 16 bits
        become floats in 0..1 or -1..1.
    sRGB : bool, optional
        Whether colours are converted when read.
    borderColors : sequence of float, optional
        Value outside, for up to four channels.
    normalizedCoords : bool, optional
        Whether coordinates run from 0 to 1.
    maxAnisotropy : int, optional
        For mipmapped textures.
    """

    def __init__(
        self,
        addressModes: Sequence[int] | None = None,
        filterMode: int = 0,
        readMode: int = 0,
        sRGB: bool | None = None,
        borderColors: Sequence[float] | None = None,
        normalizedCoords: bool | None = None,
        maxAnisotropy: int | None = None,
    ) -> None:
        if addressModes is not None and len(addressModes) > 3:
            raise ValueError(f"at most 3 address modes, not {len(addressModes)}")
        if borderColors is not None and len(borderColors) > 4:
            raise ValueError(f"at most 4 border colours, not {len(borderColors)}")
        self.addressModes, self.filterMode, self.readMode = addressModes, filterMode, readMode
        self.sRGB, self.borderColors = sRGB, borderColors
        self.normalizedCoords, self.maxAnisotropy = normalizedCoords, maxAnisotropy

    def get_texture_desc(self) -> dict[str, Any]:
        """Return the arguments by name."""
        return dict(vars(self))

    def padded(self) -> tuple[list[int], list[float]]:
        """Return three address modes (CUDA's default is wrap) and four border colours."""
        modes, colours = list(self.addressModes or ()), list(self.borderColors or ())
        return modes + [0] * (3 - len(modes)), colours + [0.0] * (4 - len(colours))

    def check(self, channels: Channels) -> None:
        """Raise `ValueError` for what no texture unit does with such channels."""
        integer = channels.kind != cudaChannelFormatKindFloat
        normalized = self.readMode == cudaReadModeNormalizedFloat
        if integer and normalized and channels.bits == 32:
            raise ValueError("integers of 32 bits can not be read as normalized floats")
        if integer and not normalized and self.filterMode == cudaFilterModeLinear:
            raise ValueError(
                "integers are not filtered linearly; read them as cudaReadModeNormalizedFloat"
            )


class TextureObject:
    """A texture that kernels read.

    Parameters
    ----------
    ResDesc : ResourceDescriptor
        What it reads.
    TexDesc : TextureDescriptor
        How.

    Attributes
    ----------
    ptr : int
        The handle, a ``cudaTextureObject_t``.
    device : Device
        Where kernels can read it.
    """

    def __init__(self, ResDesc: ResourceDescriptor, TexDesc: TextureDescriptor) -> None:
        TexDesc.check(ResDesc.channels)
        self.ResDesc, self.TexDesc = ResDesc, TexDesc
        self.device = ResDesc.device
        if self.device.is_host:
            self._data = _host_texture(ResDesc, TexDesc)
            self.ptr = ctypes.addressof(self._data)
            return
        modes, colours = TexDesc.padded()
        ordinal = self.device.ordinal
        self.ptr = driver_texture.create_texture(
            ordinal,
            ResDesc.driver_resource(),
            modes,
            TexDesc.filterMode,
            colours,
            TexDesc.maxAnisotropy or 0,
            as_integer=TexDesc.readMode == cudaReadModeElementType,
            normalized=bool(TexDesc.normalizedCoords),
            srgb=bool(TexDesc.sRGB),
        )
        finalizer = weakref.finalize(self, driver_texture.destroy_texture, ordinal, self.ptr)
        finalizer.atexit = False


class SurfaceObject:
    """A surface that kernels read and write.

    Parameters
    ----------
    ResDesc : ResourceDescriptor
        An array made with ``cudaArraySurfaceLoadStore``.

    Attributes
    ----------
    ptr : int
        The handle, a ``cudaSurfaceObject_t``.
    device : Device
        Where kernels can use it.
    """

    def __init__(self, ResDesc: ResourceDescriptor) -> None:
        if ResDesc.cuArr is None:
            raise ValueError("a surface needs a resource of type array")
        if not ResDesc.cuArr.flags & cudaArraySurfaceLoadStore:
            raise ValueError("a surface needs an array with flags=cudaArraySurfaceLoadStore")
        self.ResDesc = ResDesc
        self.device = ResDesc.device
        if self.device.is_host:
            self._data = _host_texture(ResDesc, TextureDescriptor())
            self.ptr = ctypes.addressof(self._data)
            return
        ordinal = self.device.ordinal
        self.ptr = driver_texture.create_surface(ordinal, ResDesc.driver_resource())
        finalizer = weakref.finalize(self, driver_texture.destroy_surface, ordinal, self.ptr)
        finalizer.atexit = False


def _host_texture(resource: ResourceDescriptor, texture: TextureDescriptor) -> TextureData:
    if texture.sRGB:
        raise NotSupportedError("the host device does not convert sRGB colours")
    data = TextureData(magic=MAGIC)
    resource.fill(data)
    data.linear_filter = texture.filterMode == cudaFilterModeLinear
    data.normalized_float = texture.readMode == cudaReadModeNormalizedFloat
    data.normalized_coordinates = bool(texture.normalizedCoords)
    modes, colours = texture.padded()
    data.address[:], data.border[:] = modes, colours
    return data
