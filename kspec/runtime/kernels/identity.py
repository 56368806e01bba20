"""Identities by which other processes find a kernel.

::

    identity = identity_of(norms.l2norm)     # kspec_kernels.norms.l2norm, and a digest
    identity.kernel()                        # in any process: its own l2norm, loaded once

Kernels of a generated package travel as a name and a digest; a process without that package, or
with another version of it, raises an error. Kernels that are declared in Python travel as their
declarations; each process keeps those it has seen, so what was loaded or compiled for one stays.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import sys
from collections.abc import Iterator
from dataclasses import field
from importlib import metadata
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

from kspec.dataclass import dataclass
from kspec.errors import ArgumentTypeError, LoadError
from kspec.files import resolved
from kspec.locks import OnceMap
from kspec.model.forms.kinds import FORMS, REDUCE
from kspec.runtime.kernels import KernelCallable
from kspec.runtime.kernels.elementwise import ElementwiseCallable
from kspec.runtime.kernels.reduction import ReductionCallable

Kernel = ElementwiseCallable | ReductionCallable
_SHOWN = 12  # digits of a digest in messages


@dataclass(frozen=True)
class PackagedKernel:
    """A kernel of a generated package.

    Attributes
    ----------
    module : str
        The generated module, by its name for imports.
    name : str
        Name of the kernel.
    digest : str
        Of its declaration and its module's source.
    version : str
        That of the distribution which has the package; empty if there is none.
    """

    module: str
    name: str
    digest: str
    version: str = field(default="", compare=False)

    def kernel(self) -> Kernel:
        """Return the kernel of this process.

        Raises
        ------
        LoadError
            The package is missing, or is another version; the message says which.
        """
        return _packaged(self)

    def __dask_tokenize__(self) -> tuple[str, ...]:
        return self.module, self.name, self.digest


@dataclass(frozen=True)
class DeclaredKernel:
    """A kernel that is declared in Python.

    Attributes
    ----------
    digest : str
        Of its spec.
    """

    digest: str
    _kernel: Kernel = field(compare=False, repr=False)

    def kernel(self) -> Kernel:
        """Return the kernel of this process."""
        return self._kernel

    def __reduce__(self) -> tuple[Any, ...]:
        return _declared, (self.digest, self._kernel)

    def __dask_tokenize__(self) -> str:
        return self.digest


Identity = PackagedKernel | DeclaredKernel

# One kernel object for each digest of this process: it has what was loaded.
_DECLARED: OnceMap[str, Kernel] = OnceMap()


def kernel_of(given: object) -> Kernel:
    """Return the kernel that is given, or that a generated function calls.

    Raises
    ------
    ArgumentTypeError
        If that is not an elementwise or reduction kernel.
    """
    if isinstance(given, Kernel):
        return given
    found = called_in(given)
    if isinstance(found, Kernel):
        return found
    if found is not None:
        raise ArgumentTypeError(
            "expected an elementwise or reduction kernel, but "
            f"{found.name} is a raw kernel; call it with arrays"
        )
    raise ArgumentTypeError(
        "expected an elementwise or reduction kernel (kspec.ElementwiseKernel, "
        f"kspec.ReductionKernel, or a generated function), not {given!r}"
    )


def form_called(given: object) -> tuple[Kernel, str]:
    """Return the kernel that is given, and the form of a reduction: "reduce" for a call.

    Forms are the methods of kernels and of generated functions: ``f.scan``.

    Raises
    ------
    ArgumentTypeError
        As `kernel_of`.
    """
    form = REDUCE
    if isinstance(given, MethodType) and given.__name__ in FORMS:
        form, given = given.__name__, given.__self__
    return kernel_of(given), form


def called_in(given: object) -> KernelCallable[Any] | None:
    """Return the kernel of a generated function, or of a generated object with several forms."""
    own = vars(type(given)).get("__call__")
    function = given if isinstance(given, FunctionType) else own
    return called_by(function) if isinstance(function, FunctionType) else None


@functools.lru_cache(maxsize=1024)
def called_by(function: FunctionType) -> KernelCallable[Any] | None:
    """Return the kernel of a generated function, of any kind; None for any other function."""
    called = (function.__globals__.get(name) for name in function.__code__.co_names)
    found = next((one for one in called if isinstance(one, KernelCallable)), None)
    file = function.__globals__.get("__file__")
    if found is None or found.origin is None or not file:
        return None
    return found if resolved(Path(file)) == found.origin.file else None


def identity_of(kernel: Kernel) -> Identity:
    """Return the identity of a kernel in other processes.

    Raises
    ------
    LoadError
        If it is of a generated package that was not imported by name.
    """
    if kernel.origin is None:
        return _declared(_digest(kernel), kernel)
    name = next(_modules_of(kernel), None)
    if name is None:
        raise LoadError(
            f"{kernel.__name__} of {kernel.origin.file} has no name in other processes: import its "
            "package, so that they can do so too"
        )
    return PackagedKernel(name, kernel.__name__, _digest(kernel), _version(name))


def _digest(kernel: Kernel) -> str:
    """Return the digest of all that a kernel follows from."""
    if kernel.origin is not None:
        text = f"{kernel.origin.source_sha256} {kernel.declaration}"
    else:
        text = f"{type(kernel).__qualname__} {getattr(kernel, 'spec', kernel.declaration)!r}"
    return hashlib.sha256(text.encode()).hexdigest()


def _declared(digest: str, kernel: Kernel) -> DeclaredKernel:
    return DeclaredKernel(digest, _DECLARED.get_or_make(digest, lambda: kernel))


def _modules_of(kernel: KernelCallable[Any]) -> Iterator[str]:
    """Yield the names of the imported module that a generated kernel is of."""
    if kernel.origin is None:
        return
    own = kernel.origin.file
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and file.endswith(own.name) and resolved(Path(file)) == own:
            yield name


@functools.lru_cache(maxsize=1024)
def _packaged(identity: PackagedKernel) -> Kernel:
    package = identity.module.partition(".")[0]
    wanted = f"{package}{f' {identity.version}' if identity.version else ''}"
    try:
        module = importlib.import_module(identity.module)
    except ImportError as error:
        raise LoadError(
            f"{identity.name} is a kernel of {identity.module}, which cannot be imported in this "
            f"process ({error}): install {wanted} in its environment ({sys.prefix}), the same that "
            "the caller has"
        ) from error
    kernels = [one for one in vars(module).values() if isinstance(one, Kernel)]
    found = next((one for one in kernels if one.__name__ == identity.name), None)
    digest = _digest(found) if found is not None else "none"
    if found is None or digest != identity.digest:
        version = _version(identity.module)
        raise LoadError(
            f"{identity.module}.{identity.name} is another version in this process: the caller has "
            f"{wanted} (digest {identity.digest[:_SHOWN]}), this process "
            f"{package}{f' {version}' if version else ''} (digest {digest[:_SHOWN]}) in "
            f"{Path(str(module.__file__)).parent}. Install the same package in both"
        )
    return found


@functools.cache
def _version(module: str) -> str:
    """Return the version of the distribution that has a module, if any has."""
    package = module.partition(".")[0]
    for name in metadata.packages_distributions().get(package, ()):
        return metadata.version(name)
    return ""
