"""Kernels in the shapes that other people write them, as data: `KERNELS` are all."""

from __future__ import annotations

from tests.contract.foreign.declared import Foreign, Library
from tests.contract.foreign.elementwise import ELEMENTWISE
from tests.contract.foreign.python import PYTHON
from tests.contract.foreign.raw import RAW
from tests.contract.foreign.reduction import REDUCTION

KERNELS = (*ELEMENTWISE, *REDUCTION, *RAW, *PYTHON)

__all__ = ["KERNELS", "Foreign", "Library"]
