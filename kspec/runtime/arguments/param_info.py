"""Declared parameters as callers see them: CuPy's ``ParameterInfo``.

>>> from kspec.model.signature import Param
>>> info = ParamInfo.of(Param("float32", "x", raw=True), is_const=True)
>>> str(info), info.ctype, info.dtype, info.is_const
('raw float32 x', 'float', dtype('float32'), True)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kspec.dataclass import dataclass
from kspec.model import dtypes
from kspec.model.signature import Param
from kspec.runtime.memory import numpy_dtype


@dataclass(frozen=True)
class ParamInfo(Param):
    """A declared parameter of an elementwise or reduction kernel.

    Attributes
    ----------
    is_const : bool
        Whether the kernel only reads it.
    """

    is_const: bool = False

    @classmethod
    def of(cls, param: Param, *, is_const: bool) -> ParamInfo:
        """Return the information about a parameter."""
        return cls(**vars(param), is_const=is_const)

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The declared dtype, or None for a type placeholder."""
        return None if self.is_placeholder else numpy_dtype(self.type)

    @property
    def ctype(self) -> str:
        """The C++ type, or the type placeholder."""
        return self.type if self.is_placeholder else dtypes.lookup(self.type).ctype
