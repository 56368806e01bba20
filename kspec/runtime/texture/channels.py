"""Channels of a texture's elements: one, two or four channels of one type."""

from __future__ import annotations

from kspec.dataclass import dataclass
from kspec.runtime.texture.constants import cudaChannelFormatKindFloat

_KIND_NAMES = ("int", "uint", "float")


@dataclass(frozen=True)
class Channels:
    """Format of an element: the kind, bits and number of its channels."""

    kind: int
    bits: int
    count: int

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.bits * self.count // 8

    @property
    def dtype(self) -> str:
        """The dtype of a channel."""
        return f"{_KIND_NAMES[self.kind]}{self.bits}"


class ChannelFormatDescriptor:
    """The channels of an element of an array.

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
