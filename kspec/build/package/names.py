"""Python names of kernels, dtypes and parameters: none twice, and none that a module needs."""

from __future__ import annotations

import keyword
from collections.abc import Iterable
from dataclasses import dataclass, field

from kspec.build.package import typed

# What generated modules import; they use these names for themselves.
TYPES = ("AnyArray", "ArrayT", "Axis", "Dim3", "Integer", "Scalar", "Stream")
HELPERS = ("ABSENT", "given", "open_module", "struct_dtype")
_OVERLOADING = ("Any", "Literal", "NDArray", "TYPE_CHECKING", "np", "overload", *typed.VARIABLES)
_BUILTINS = ("bool", "int", "tuple")
_MODULE_NAMES = frozenset(
    (
        *TYPES,
        *HELPERS,
        *_BUILTINS,
        *_OVERLOADING,
        "Sequence",
        "annotations",
        "_KERNELS",
        "_result",
    )
)


@dataclass
class FreeNames:
    """Hands out Python names, each once."""

    taken: set[str] = field(default_factory=lambda: set(_MODULE_NAMES))

    def take(self, wish: str) -> str:
        """Return `wish`, with underscores added until it is a free name."""
        name = wish
        while keyword.iskeyword(name) or name in self.taken:
            name += "_"
        self.taken.add(name)
        return name


def python_names(wishes: Iterable[str]) -> tuple[str, ...]:
    """Return names of a function's parameters as they can be in Python."""
    names = FreeNames()
    return tuple(map(names.take, wishes))
