"""Handles of things that a device holds: neither copied nor pickled."""

from __future__ import annotations

from typing import NoReturn

from kspec.errors import ArgumentTypeError


class Handle:
    """Base of objects that are handles, such as textures, and of their holders.

    Attributes
    ----------
    instead : str
        What to do in place of a copy, for the message.
    """

    __slots__ = ()

    instead = "copy the elements, and make another one of them"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        # A copy would hold the handle longer than the object that gives it back.
        raise ArgumentTypeError(
            f"a {type(self).__name__} refers to memory of one process and cannot be pickled or "
            f"copied; {self.instead}"
        )
