"""Textures and surfaces: handles that kernels take, with all that they read from."""

from __future__ import annotations

import ctypes
import weakref

from kspec.errors import ArgumentTypeError
from kspec.host.texture import MAGIC, TextureData
from kspec.runtime.memory.handle import Handle
from kspec.runtime.texture import driver_texture
from kspec.runtime.texture.constants import (
    cudaArraySurfaceLoadStore,
    cudaFilterModeLinear,
    cudaReadModeElementType,
    cudaReadModeNormalizedFloat,
)
from kspec.runtime.texture.resource import ResourceDescriptor
from kspec.runtime.texture.sampling import TextureDescriptor


class TextureObject(Handle):
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
        _expect(ResourceDescriptor, ResDesc)
        _expect(TextureDescriptor, TexDesc)
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


class SurfaceObject(Handle):
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
        _expect(ResourceDescriptor, ResDesc)
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


def _expect(kind: type, value: object) -> None:
    if not isinstance(value, kind):
        raise ArgumentTypeError(f"expected a {kind.__name__}, not a {type(value).__name__}")


def _host_texture(resource: ResourceDescriptor, texture: TextureDescriptor) -> TextureData:
    data = TextureData(magic=MAGIC)
    resource.fill(data)
    data.linear_filter = texture.filterMode == cudaFilterModeLinear
    data.normalized_float = texture.readMode == cudaReadModeNormalizedFloat
    data.normalized_coordinates = bool(texture.normalizedCoords)
    data.srgb = bool(texture.sRGB)
    modes, colours = texture.padded()
    data.address[:], data.border[:] = modes, colours
    return data
