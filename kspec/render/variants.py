"""Further forms of an operation, which its kernel has beside the operation itself.

`kspec.render.pairs` and `kspec.render.layers` make them.
"""

from __future__ import annotations

from kspec.dataclass import dataclass
from kspec.render.fragments import Fragment


@dataclass(frozen=True)
class Variant:
    """A function of a kernel's loop.

    Attributes
    ----------
    parameters : str
        Its parameters.
    before : tuple of str
        Lines before the operation.
    operation : Fragment
        What it does.
    """

    parameters: str
    before: tuple[str, ...]
    operation: Fragment


@dataclass(frozen=True)
class Variants:
    """The variants of an operation.

    Attributes
    ----------
    join : str
        The function of ``namespace kspec`` that makes one of the operation and them.
    variants : tuple of Variant
        Its further arguments.
    """

    join: str
    variants: tuple[Variant, ...]
