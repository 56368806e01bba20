"""Sampling of a texture: the meaning of coordinates, and conversions of the elements found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kspec.errors import ArgumentTypeError
from kspec.runtime.texture.channels import Channels
from kspec.runtime.texture.constants import (
    cudaAddressModeBorder,
    cudaChannelFormatKindFloat,
    cudaChannelFormatKindUnsigned,
    cudaFilterModeLinear,
    cudaReadModeNormalizedFloat,
)


class TextureDescriptor:
    """Options of reads from a texture.

    Parameters
    ----------
    addressModes : sequence of int, optional
        Meaning of coordinates outside, for up to three axes: ``cudaAddressModeWrap``, ``Clamp``,
        ``Mirror`` or ``Border``; wrap and mirror need normalized coordinates.
    filterMode : int
        ``cudaFilterModePoint`` or ``cudaFilterModeLinear``.
    readMode : int
        ``cudaReadModeElementType``, or ``cudaReadModeNormalizedFloat``: integers of 8 and 16 bits
        become floats in 0..1 or -1..1.
    sRGB : bool, optional
        Whether the elements are sRGB colours, which become linear; a fourth channel does not.
    borderColors : sequence of float, optional
        Value outside, for up to four channels.
    normalizedCoords : bool, optional
        Whether coordinates run from 0 to 1.
    maxAnisotropy : int, optional
        For mipmapped textures.

    Raises
    ------
    ValueError
        For too many address modes or border colours, or a mode that does not exist.
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
        self._modes = _listed("addressModes", addressModes, 3)
        self._colours = _listed("borderColors", borderColors, 4)
        for mode in self._modes:
            _check_choice("an address mode", mode, cudaAddressModeBorder)
        _check_choice("filterMode", filterMode, cudaFilterModeLinear)
        _check_choice("readMode", readMode, cudaReadModeNormalizedFloat)
        self.addressModes, self.filterMode, self.readMode = addressModes, filterMode, readMode
        self.sRGB, self.borderColors = sRGB, borderColors
        self.normalizedCoords, self.maxAnisotropy = normalizedCoords, maxAnisotropy

    def get_texture_desc(self) -> dict[str, Any]:
        """Return the arguments by name."""
        return {name: value for name, value in vars(self).items() if name[0] != "_"}

    def padded(self) -> tuple[list[int], list[float]]:
        """Return three address modes (CUDA's default is wrap) and four border colours."""
        modes, colours = [0] * 3, [0.0] * 4
        modes[: len(self._modes)], colours[: len(self._colours)] = self._modes, self._colours
        return modes, colours

    def check(self, channels: Channels) -> None:
        """Raise `ValueError` for what no texture unit does with such channels."""
        integer = channels.kind != cudaChannelFormatKindFloat
        normalized = self.readMode == cudaReadModeNormalizedFloat
        if integer and normalized and channels.bits == 32:
            raise ValueError("integers of 32 bits cannot be read as normalized floats")
        if integer and not normalized and self.filterMode == cudaFilterModeLinear:
            raise ValueError(
                "integers are not filtered linearly; read them as cudaReadModeNormalizedFloat"
            )
        if self.sRGB and not (
            normalized and channels.kind == cudaChannelFormatKindUnsigned and channels.bits == 8
        ):
            raise ValueError(
                "sRGB is for unsigned integers of 8 bits, read as cudaReadModeNormalizedFloat"
            )


def _listed(name: str, values: Iterable[Any] | None, most: int) -> tuple[Any, ...]:
    try:
        listed = () if values is None else tuple(values)
    except TypeError:
        raise ArgumentTypeError(f"{name} must be a sequence, not {type(values).__name__}") from None
    if len(listed) > most:
        raise ValueError(f"{name}: at most {most}, not {len(listed)}")
    return listed


def _check_choice(name: str, value: object, last: int) -> None:
    if value not in range(last + 1):
        raise ValueError(f"{name} must be one of 0 to {last}, not {value!r}")
