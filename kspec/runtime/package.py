"""The run-time half of a generated package: opens its manifest, serves its kernels.

A generated module does::

    _module = open_module(__file__, "norms")
    _l2norm = _module.reduction("l2norm")

Opening reads JSON and nothing else; images are read at the first call, and a compiler is only
looked for when no image fits.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from kspec import config
from kspec.errors import ArgumentTypeError, KspecError, ManifestError
from kspec.files import read_regular, resolved
from kspec.model import manifest
from kspec.model.declaration import (
    Declaration,
    ElementwiseDeclaration,
    RawDeclaration,
    ReductionDeclaration,
)
from kspec.model.forms.kinds import FORMS, REDUCE
from kspec.model.manifest import Index, Manifest, ModuleEntry
from kspec.model.stages import (
    CudaSource,
    Image,
)
from kspec.model.tuning import TunedTable
from kspec.runtime.callcache import ABSENT as ABSENT  # generated modules import it from here
from kspec.runtime.driver.device import Device
from kspec.runtime.kernels import KernelCallable, Origin
from kspec.runtime.memory import numpy_dtype
from kspec.runtime.modules import LoadedKernel
from kspec.runtime.modules.loader import KernelLoader
from kspec.runtime.modules.packaged import (
    ImageProvider,
    PackageCompiler,
    SourceReader,
    unreadable,
)
from kspec.runtime.modules.provider import Wanted

if TYPE_CHECKING:
    from kspec.runtime.kernels.elementwise import ElementwiseCallable
    from kspec.runtime.kernels.reduction import ReductionCallable
    from kspec.runtime.raw.declared import RawCallable
    from kspec.runtime.raw.launch_rules import RawFunction

_DeclarationT = TypeVar("_DeclarationT", bound=Declaration)
_KernelT = TypeVar("_KernelT", bound=KernelCallable[Any])


def load_manifest(folder: Path) -> Manifest:
    """Return the manifest of the package in a folder.

    Raises
    ------
    ManifestError
        If it is missing, damaged, or from another kspec.
    """
    return manifest.load(*_manifest_text(folder))


@functools.cache
def read_manifest(folder: Path) -> Index:
    """Do as `load_manifest` does, once a process and for the modules that are asked for."""
    return Index(*_manifest_text(folder))


def _manifest_text(folder: Path) -> tuple[str, str]:
    """Return a manifest's text, and where it is from."""
    path = folder / manifest.FILE_NAME
    try:
        return read_regular(path).decode("utf-8"), str(path)
    except OSError as error:
        raise unreadable(path, error) from error
    except UnicodeDecodeError as error:
        raise ManifestError(f"{path} is damaged ({error}); run `kspec build` again") from error


def import_generated(package: str, name: str) -> object:
    """Return a module of a generated package.

    Raises
    ------
    ManifestError
        If it cannot be imported, and its text is not what ``kspec build`` wrote.
    """
    try:
        return importlib.import_module(f"{package}.{name}")
    except Exception as error:
        spec = importlib.util.find_spec(f"{package}.{name}")
        path = spec.origin if spec else None
        if path is None or isinstance(error, KspecError) or is_sealed(Path(path).read_bytes()):
            raise
        raise ManifestError(
            f"{path} is not as it was written (its sha256 differs): {error}; run `kspec build` "
            "again, or install the package again"
        ) from None


def is_sealed(text: bytes) -> bool:
    """Whether a generated file is as it was written: its second line has a digest of the others."""
    _, seal, body = (*text.split(b"\n", 2), b"", b"")[:3]
    return seal.rpartition(b" ")[2].decode(errors="replace") == hashlib.sha256(body).hexdigest()


def open_module(file: str, stem: str) -> GeneratedModule:
    """Return the kernels of a generated module, given its ``__file__``."""
    folder = resolved(Path(file)).parent
    index = read_manifest(folder)
    return GeneratedModule(folder, index.module(stem), index.jit)


def module_of(module: object) -> GeneratedModule:
    """Return the `GeneratedModule` of a generated Python module.

    Raises
    ------
    ArgumentTypeError
        If it is not one.
    """
    found = getattr(module, "_KERNELS", None)
    if not isinstance(found, GeneratedModule):
        name = getattr(module, "__name__", type(module).__name__)
        raise ArgumentTypeError(f"{name} is not a module that `kspec build` generated")
    return found


def modules_of(package: object) -> tuple[GeneratedModule, ...]:
    """Return the `GeneratedModule` objects of a generated package, or of one module of it.

    Errors are those of `module_of`.
    """
    names = getattr(package, "kernel_names", None)
    if not callable(names):
        return (module_of(package),)
    stems = dict.fromkeys(name.partition(".")[0] for name in names())
    return tuple(module_of(getattr(package, stem)) for stem in stems)


def struct_dtype(text: str) -> np.dtype[Any]:
    """Return the dtype of a struct that a spec declares, given its layout as text."""
    return numpy_dtype(text)


def given(*outputs: Any) -> tuple[Any, ...]:
    """Return the outputs of a call: all of them, or none.

    Raises
    ------
    ArgumentTypeError
        If some are given and others not.
    """
    if all(output is None for output in outputs):
        return ()
    if any(output is None for output in outputs):
        raise ArgumentTypeError("give all outputs or none")
    return outputs


class GeneratedModule:
    """The kernels of one spec file.

    Parameters
    ----------
    folder : Path
        Folder of the generated package.
    entry : ModuleEntry
        The module's part of the manifest.
    jit : str
        What the package says of compiling at run time (`Manifest`).
    """

    def __init__(self, folder: Path, entry: ModuleEntry, jit: str = "auto") -> None:
        self._folder = folder
        self._entry = entry
        self._origin = Origin(folder / f"{entry.stem}.py", entry.source_sha256)
        self._jit = jit
        self._kernels = {kernel.name: kernel for kernel in entry.kernels}
        self._images = ImageProvider(folder, entry)
        self._compiling = PackageCompiler(SourceReader(folder, entry), jit)
        self._loader = KernelLoader(
            [self._images, self._compiling],
            functools.partial(_advise, folder, entry),
            functools.partial(_record, folder, entry.stem),
            origin=(str(folder), entry.stem),
        )

    @property
    def stem(self) -> str:
        """The module's name."""
        return self._entry.stem

    @property
    def compiles(self) -> bool:
        """Whether kernels without an image may be compiled at run time."""
        return config.jit_mode(self._jit) != "never"

    @property
    def kernel_names(self) -> tuple[str, ...]:
        """Names of the kernels, in the order of the spec file."""
        return tuple(self._kernels)

    def kernel(self, name: str) -> KernelCallable[Any]:
        """Return a kernel of any kind."""
        declaration = self._kernels.get(name)
        if declaration is None:
            raise self._missing(name)
        if isinstance(declaration, RawDeclaration):
            return self.raw(name)
        if isinstance(declaration, ReductionDeclaration):
            return self.reduction(name)
        return self.elementwise(name)

    # A kind of kernel is imported for a module that has one: most modules have one kind.

    def elementwise(self, name: str) -> ElementwiseCallable:
        """Return an elementwise kernel."""
        from kspec.runtime.kernels.elementwise import ElementwiseCallable

        return self._open(ElementwiseCallable, self._declaration(name, ElementwiseDeclaration))

    def reduction(self, name: str) -> ReductionCallable:
        """Return a reduction kernel."""
        from kspec.runtime.kernels.reduction import ReductionCallable

        return self._open(ReductionCallable, self._declaration(name, ReductionDeclaration))

    def raw(self, name: str) -> RawCallable:
        """Return a raw kernel; a `RawFunction` if its spec says how it is launched."""
        from kspec.runtime.raw.declared import RawCallable

        declaration = self._declaration(name, RawDeclaration)
        if declaration.rules:
            return self.raw_function(name)
        return self._open(RawCallable, declaration)

    def raw_function(self, name: str) -> RawFunction:
        """Return a raw kernel whose spec says how it is launched."""
        from kspec.runtime.raw.launch_rules import RawFunction

        return self._open(RawFunction, self._declaration(name, RawDeclaration))

    def refuse_forms(self, function: Any, name: str) -> None:
        """Let the forms that a reduction's spec does not declare say how it would declare them.

        Parameters
        ----------
        function : callable
            The generated function; a call of a form that it lacks raises `AttributeError`.
        name : str
            The kernel.
        """
        declaration = self._declaration(name, ReductionDeclaration)
        for form in FORMS:
            if form != REDUCE and form not in declaration.forms:
                setattr(function, form, functools.partial(self._refuse, declaration, form))

    def _refuse(
        self, declaration: ReductionDeclaration, form: str, *args: object, **keywords: object
    ) -> None:
        from kspec.runtime.modules.advice import undeclared_form

        raise AttributeError(undeclared_form(self._entry, declaration, form))

    def _open(self, kind: type[_KernelT], declaration: Any) -> _KernelT:
        name = declaration.backward
        gradients = functools.partial(self._anywhere, name) if name else None
        kernel = kind(declaration, self._loader, gradients)
        kernel.origin = self._origin
        if declaration.name in self._entry.tuned:
            kernel.tuned = TunedTable(self._entry.tuned[declaration.name])
        return kernel

    def _anywhere(self, name: str) -> KernelCallable[Any]:
        """Return a kernel of this module, or of another one of the package."""
        if name in self._kernels:
            return self.kernel(name)
        index = read_manifest(self._folder)
        for entry in map(index.module, index.stems):
            if any(kernel.name == name for kernel in entry.kernels):
                return GeneratedModule(self._folder, entry, self._jit).kernel(name)
        raise ManifestError(f"the package has no kernel {name!r}; run `kspec build`")

    def shipped(self, wanted: Wanted, device: Device) -> Image | None:
        """Return the precompiled image that holds a kernel for a device, if there is one."""
        return self._images.find(wanted, device)

    def source(self, wanted: Wanted) -> CudaSource:
        """Return the source of a kernel without a precompiled image."""
        return self._compiling.source(wanted)

    def load(self, wanted: Wanted, device: Device) -> LoadedKernel:
        """Load a kernel as its first call would; errors as for `KernelLoader.kernel`."""
        return self._loader.kernel(wanted, device)

    def _declaration(self, name: str, kind: type[_DeclarationT]) -> _DeclarationT:
        declaration = self._kernels.get(name)
        if not isinstance(declaration, kind):
            raise self._missing(name)
        return declaration

    def _missing(self, name: str) -> ManifestError:
        return ManifestError(
            f"module {self._entry.stem} has no such kernel {name!r}; run `kspec build`"
        )


def _advise(folder: Path, entry: ModuleEntry, wanted: Wanted, device: Device) -> str:
    from kspec.runtime.modules.advice import advise

    return advise(folder, entry, wanted, device)


def _record(folder: Path, stem: str, wanted: Wanted, device: Device) -> None:
    if config.trace_folder() is not None:
        from kspec.runtime.kernels.tracing import record

        record(folder, stem, wanted, device)
