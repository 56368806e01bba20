"""The driver's calls for arrays, textures and surfaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kspec.dataclass import dataclass
from kspec.errors import DriverError
from kspec.runtime import driver
from kspec.runtime.driver import memory as driver_memory
from kspec.runtime.texture.channels import Channels

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
class Rows:
    """Memory with the elements of an array, row by row.

    Attributes
    ----------
    address : int
        Of the first row.
    on_host : bool
        Whether the memory is the host's.
    pitch : int
        Bytes from one row to the next.
    count : int
        Rows from one slice to the next.
    """

    address: int
    on_host: bool
    pitch: int
    count: int


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
    with driver.on_device(ordinal), driver.whatever_is_captured():
        return driver.check(bindings.cuArray3DCreate(descriptor))


def destroy_array(ordinal: int, array: Any) -> None:
    """Free an array of `create_array`."""
    _destroy(ordinal, "cuArrayDestroy", array)


def copy_array(
    ordinal: int,
    array: Any,
    rows: Rows,
    extents: tuple[int, int, int],
    into_array: bool,
    stream: int,
) -> None:
    """Queue a copy of all of an array from or to memory.

    Parameters
    ----------
    ordinal : int
        Device.
    array : CUarray
        The array.
    rows : Rows
        The memory.
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
    kind = kinds.CU_MEMORYTYPE_HOST if rows.on_host else kinds.CU_MEMORYTYPE_DEVICE
    setattr(copy, f"{memory}MemoryType", kind)
    setattr(copy, f"{memory}{'Host' if rows.on_host else 'Device'}", rows.address)
    setattr(copy, f"{memory}Pitch", rows.pitch)
    setattr(copy, f"{memory}Height", rows.count)
    with driver.on_device(ordinal):
        driver.check(bindings.cuMemcpy3DAsync(copy, stream))


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
        try:
            return int(driver.check(bindings.cuTexObjectCreate(resource, texture, None)))
        except DriverError as error:
            advice = _requirements(ordinal, resource)
            raise DriverError(error.name, error.explanation + advice, error.code) from None


def _requirements(ordinal: int, resource: Any) -> str:
    """Return the driver's requirements on the memory of a texture, for the message of a refusal."""
    bindings = driver.bindings()
    kind, kinds = resource.resType, bindings.CUresourcetype
    if kind == kinds.CU_RESOURCE_TYPE_ARRAY:
        return ""

    def limit(name: str) -> int:
        attribute = getattr(bindings.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        device = driver.check(bindings.cuDeviceGet(ordinal))
        return int(driver.check(bindings.cuDeviceGetAttribute(attribute, device)))

    text = f"; this device wants the memory to begin at a multiple of {limit('TEXTURE_ALIGNMENT')}"
    if kind == kinds.CU_RESOURCE_TYPE_LINEAR:
        return f"{text}, with at most {limit('MAXIMUM_TEXTURE1D_LINEAR_WIDTH')} elements"
    width, height, pitch = (
        limit(f"MAXIMUM_TEXTURE2D_LINEAR_{name}") for name in ("WIDTH", "HEIGHT", "PITCH")
    )
    return (
        f"{text}, at most {width} x {height} elements, and a pitch that is a multiple of "
        f"{limit('TEXTURE_PITCH_ALIGNMENT')} and at most {pitch}"
    )


def destroy_texture(ordinal: int, handle: int) -> None:
    """Free a texture object of `create_texture`."""
    _destroy(ordinal, "cuTexObjectDestroy", handle)


def create_surface(ordinal: int, resource: Any) -> int:
    """Return the handle of a new surface object."""
    with driver.on_device(ordinal):
        return int(driver.check(driver.bindings().cuSurfObjectCreate(resource)))


def destroy_surface(ordinal: int, handle: int) -> None:
    """Free a surface object of `create_surface`."""
    _destroy(ordinal, "cuSurfObjectDestroy", handle)


def _destroy(ordinal: int, function: str, handle: Any) -> None:
    """Give something back when kernels that may read it have run: they hold no reference to it."""
    bindings = driver.bindings()
    driver_memory.wait(ordinal)
    with driver.on_device(ordinal), driver.whatever_is_captured():
        driver.check(getattr(bindings, function)(handle))
