"""What the three kinds of callable kernels have in common: a declaration, a loader, a name."""

from __future__ import annotations

from typing import Generic, TypeVar

from kspec.checks import Checks
from kspec.declaration import Declaration
from kspec.runtime.provider import KernelLoader

DeclarationT = TypeVar("DeclarationT", bound=Declaration)


class KernelCallable(Generic[DeclarationT]):
    """A kernel that can be called.

    Parameters
    ----------
    declaration : Declaration
        How it is called.
    loader : KernelLoader
        Where its compiled specializations come from.

    Attributes
    ----------
    checks : Checks or None
        What to check on the host device, unless the call says otherwise.
    """

    def __init__(self, declaration: DeclarationT, loader: KernelLoader) -> None:
        self.declaration = declaration
        self.checks: Checks | None = None
        self._loader = loader
        self.__name__ = declaration.name
        self.__doc__ = declaration.doc or type(self).__doc__
