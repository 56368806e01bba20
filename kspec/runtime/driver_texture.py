"""The driver's calls for arrays, textures and surfaces; `kspec.runtime.driver` has all others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kspec.runtime import driver

# Kind of a channel (signed, unsigned, float) and its bits.
_FORMATS = {
    (0, 8): "SIGNED_INT8",
    (0, 16): "SIGNED_INT16",
    (0, 32): "SIGNED_INT32",
    (1, 8): "UNSIGNED_INT8",
    (1, 16): "UNSIGNED_INT16",
    (1, 32): "UNSIGNED_INT32",
    (2, 16): "HALF",
    (2, 32): "FLOAT",
}
_READ_AS_INTEGER, _NORMALIZED_COORDINATES, _SRGB = 0x01, 0x02, 0x10


@dataclass(frozen=True)
class Channels:
    """How an element is made up: kind of its channels, bits of each, and how many."""

    kind: int
    bits: int
    count: int

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.bits * self.count // 8


def _format(channels: Channels) -> Any:
    name = _FORMATS[channels.kind, channels.bits]
    return getattr(driver.bindings().CUarray_format, f"CU_AD_FORMAT_{name}")


def create_array(
    ordinal: int, channels: Channels, width: int, height: int, depth: int, flags: int
) -> Any:
    """Return a new CUDA array; an extent of 0 is an axis it does not have."""
    bindings = driver.bindings()
    descriptor = bindings.CUDA_ARRAY3D_DESCRIPTOR()
    descriptor.Width, descriptor.Height, descriptor.Depth = width, height, depth
    descriptor.Format = _format(channels)
    descriptor.NumChannels = channels.count
    descriptor.Flags = flags
    with driver.on_device(ordinal):
        return driver.check(bindings.cuArray3DCreate(descriptor))


def destroy_array(ordinal: int, array: Any) -> None:
    """Free an array of `create_array`."""
    with driver.on_device(ordinal):
        driver.check(driver.bindings().cuArrayDestroy(array))


def copy_array(
    ordinal: int,
    array: Any,
    address: int,
    on_host: bool,
    extents: tuple[int, int, int],
    into_array: bool,
    stream: int,
) -> None:
    """Copy all of an array from or to C-ordered memory, and wait for it.

    Parameters
    ----------
    ordinal : int
        Device.
    array : CUarray
        The array.
    address : int
        The memory.
    on_host : bool
        Whether the memory is the host's.
    extents : tuple of int
        Bytes of a row, rows, slices.
    into_array : bool
        Direction.
    stream : int
        Where the copy is queued.
    """
    bindings = driver.bindings()
    kinds = bindings.CUmemorytype
    copy = bindings.CUDA_MEMCPY3D()
    copy.WidthInBytes, copy.Height, copy.Depth = extents
    there, memory = ("dst", "src") if into_array else ("src", "dst")
    setattr(copy, f"{there}MemoryType", kinds.CU_MEMORYTYPE_ARRAY)
    setattr(copy, f"{there}Array", array)
    kind = kinds.CU_MEMORYTYPE_HOST if on_host else kinds.CU_MEMORYTYPE_DEVICE
    setattr(copy, f"{memory}MemoryType", kind)
    setattr(copy, f"{memory}{'Host' if on_host else 'Device'}", address)
    setattr(copy, f"{memory}Pitch", extents[0])
    setattr(copy, f"{memory}Height", extents[1])
    with driver.on_device(ordinal):
        driver.check(bindings.cuMemcpy3DAsync(copy, stream))
        driver.check(bindings.cuStreamSynchronize(stream))


def array_resource(array: Any) -> Any:
    """Return the resource descriptor of an array."""
    bindings = driver.bindings()
    resource = bindings.CUDA_RESOURCE_DESC()
    resource.resType = bindings.CUresourcetype.CU_RESOURCE_TYPE_ARRAY
    resource.res.array.hArray = array
    return resource


def linear_resource(address: int, nbytes: int, channels: Channels) -> Any:
    """Return the resource descriptor of linear memory."""
    bindings = driver.bindings()
    resource = bindings.CUDA_RESOURCE_DESC()
    resource.resType = bindings.CUresourcetype.CU_RESOURCE_TYPE_LINEAR
    linear = resource.res.linear
    linear.devPtr, linear.sizeInBytes = address, nbytes
    linear.format, linear.numChannels = _format(channels), channels.count
    return resource


def pitched_resource(address: int, channels: Channels, width: int, height: int, pitch: int) -> Any:
    """Return the resource descriptor of two-dimensional memory."""
    bindings = driver.bindings()
    resource = bindings.CUDA_RESOURCE_DESC()
    resource.resType = bindings.CUresourcetype.CU_RESOURCE_TYPE_PITCH2D
    pitched = resource.res.pitch2D
    pitched.devPtr, pitched.format, pitched.numChannels = address, _format(channels), channels.count
    pitched.width, pitched.height, pitched.pitchInBytes = width, height, pitch
    return resource


def create_texture(
    ordinal: int,
    resource: Any,
    address_modes: Sequence[int],
    filter_mode: int,
    border: Sequence[float],
    anisotropy: int,
    *,
    as_integer: bool,
    normalized: bool,
    srgb: bool,
) -> int:
    """Return the handle of a new texture object."""
    bindings = driver.bindings()
    texture = bindings.CUDA_TEXTURE_DESC()
    texture.addressMode = [bindings.CUaddress_mode(mode) for mode in address_modes]
    texture.filterMode = bindings.CUfilter_mode(filter_mode)
    texture.flags = (
        as_integer * _READ_AS_INTEGER + normalized * _NORMALIZED_COORDINATES + srgb * _SRGB
    )
    texture.maxAnisotropy = anisotropy
    texture.borderColor = list(border)
    with driver.on_device(ordinal):
        return int(driver.check(bindings.cuTexObjectCreate(resource, texture, None)))


def destroy_texture(ordinal: int, handle: int) -> None:
    """Free a texture object of `create_texture`."""
    with driver.on_device(ordinal):
        driver.check(driver.bindings().cuTexObjectDestroy(handle))


def create_surface(ordinal: int, resource: Any) -> int:
    """Return the handle of a new surface object."""
    with driver.on_device(ordinal):
        return int(driver.check(driver.bindings().cuSurfObjectCreate(resource)))


def destroy_surface(ordinal: int, handle: int) -> None:
    """Free a surface object of `create_surface`."""
    with driver.on_device(ordinal):
        driver.check(driver.bindings().cuSurfObjectDestroy(handle))
